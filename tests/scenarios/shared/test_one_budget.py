"""Three replicas, one token, a virtual hour with 10,000 checkpoints: GitHub has nothing to refuse."""

import random
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.drain.chunks import DrainPolicy
from holdfast.queue.postgres import Database
from holdfast.queue.postgres.budget_table import TableRateLimiter
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits
from tests.fakes.clock import VirtualClock
from tests.fakes.drain_simulation import REQUEST_S, START, Simulation, evenly
from tests.fakes.postgres import postgres_url


@dataclass(frozen=True)
class Heard:
    """An answer of GitHub's."""

    status: int
    headers: dict[str, str]
    received_at: float
    resource: str


@dataclass
class Replicas(Simulation):
    """Replicas of which any one may drain next, each with the budget as the database has it."""

    limiters: list[TableRateLimiter] = field(default_factory=list)
    clock: VirtualClock = field(default_factory=VirtualClock)
    chance: random.Random = field(default_factory=lambda: random.Random(1))

    def _request(self, cost: Cost) -> None:
        limiter = self.chance.choice(self.limiters)
        self.clock.time = self.now
        while wait := limiter.take(cost, is_critical=True).seconds:
            self.now += wait
            self.clock.time = self.now
        status, headers = self.github.answer(cost, self.now + REQUEST_S / 2)
        self.now += REQUEST_S
        self.clock.time = self.now
        limiter.observe(Heard(status, headers, self.now, cost.resource))
        self.budget: Budget = self.chance.choice(self.limiters).budget


@pytest.fixture
def databases(tmp_path: Path) -> Iterator[list[Database]]:
    databases = [Database(postgres_url(tmp_path)) for _ in range(3)]
    yield databases
    for database in databases:
        database.close()


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_replicas_together_never_exceed_the_limits_of_a_token(mode: str, databases: list[Database]) -> None:
    clock = VirtualClock(START)
    limiters = [TableRateLimiter(database, "token", Limits(), clock) for database in databases]
    policy = DrainPolicy(mode="commit" if mode == "commit" else "contents")
    replicas = Replicas(evenly(10_000, 10, 3600), policy, limiters=limiters, clock=clock)

    replicas.run(START + 3600 + 900)

    assert replicas.github.refused == []
    assert len(replicas.verified) >= 9_000
    assert len(replicas.github.contents) > 100
