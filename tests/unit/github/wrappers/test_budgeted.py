from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Missing, Throttled, ThrottleKind
from holdfast.github.calls import Call, ReadHead
from holdfast.github.wrappers.budgeted import BudgetedGateway
from holdfast.github.write_calls import CommitFiles, WriteFile
from holdfast.ratelimit.limits import Cost, Limits, Wait
from holdfast.ratelimit.shared_file import FileRateLimiter
from tests.fakes.clock import VirtualClock

READ = ReadHead("main")
WRITE = WriteFile("a.json", b"{}", "write", "main")
COMMIT = CommitFiles("main", "abc", "write", "", {"a.json": b"{}"})


@dataclass
class Inner:
    """Notes when each call arrives, and answers it with `answer`."""

    clock: VirtualClock
    answer: Callable[[], Any] = lambda: "done"
    arrivals: list[float] = field(default_factory=list)

    def perform(self, call: Call[Any]) -> Any:
        self.arrivals.append(self.clock.now())
        return self.answer()


@dataclass
class Limiter(FileRateLimiter):
    """Makes every call wait for the next of `waits`, and notes what it is asked for."""

    waits: list[Wait]
    asked: list[tuple[Cost, bool]] = field(default_factory=list)

    def take(self, cost: Cost, *, is_critical: bool = False) -> Wait:
        self.asked.append((cost, is_critical))
        return self.waits.pop(0) if self.waits else Wait(0.0, "")

    def block(self, throttled: Throttled) -> float:
        return throttled.retry_after_s * 2


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def inner(clock: VirtualClock) -> Inner:
    return Inner(clock)


@pytest.fixture
def rate_limiter(tmp_path: Path, clock: VirtualClock) -> FileRateLimiter:
    return FileRateLimiter(tmp_path / "budget", Limits(), clock)


def refuse(kind: ThrottleKind, retry_after_s: float) -> Callable[[], Any]:
    def answer() -> Any:
        raise Throttled("a.json", "slow down", kind=kind, retry_after_s=retry_after_s)

    return answer


def test_writes_keep_their_distance(inner: Inner, rate_limiter: FileRateLimiter, clock: VirtualClock) -> None:
    gateway = BudgetedGateway(inner, rate_limiter, clock.sleep)

    for _ in range(3):
        gateway.perform(WRITE)

    assert clock.slept == [1.0, 1.0]
    assert rate_limiter.budget.content_spent(clock.now()) == 3


def test_reads_do_not_wait(inner: Inner, rate_limiter: FileRateLimiter, clock: VirtualClock) -> None:
    gateway = BudgetedGateway(inner, rate_limiter, clock.sleep)

    assert [gateway.perform(READ) for _ in range(3)] == ["done"] * 3
    assert clock.slept == []


@pytest.mark.parametrize(
    ("call", "cost"),
    [
        (READ, Cost("core")),
        (WRITE, Cost("core", is_mutation=True, creates_content=True)),
        (COMMIT, Cost("graphql", is_mutation=True, creates_content=True)),
    ],
)
def test_each_call_costs_what_its_class_says(
    inner: Inner, clock: VirtualClock, call: Call[Any], cost: Cost
) -> None:
    limiter = Limiter([])

    BudgetedGateway(inner, limiter, clock.sleep).perform(call)
    BudgetedGateway(inner, limiter, clock.sleep, may_use_reserve=True).perform(call)

    assert limiter.asked == [(cost, False), (cost, True)]


def test_wait_beyond_our_longest_is_throttled_without_a_call(inner: Inner, clock: VirtualClock) -> None:
    gateway = BudgetedGateway(
        inner, Limiter([Wait(40.0, "the minute is used up")]), clock.sleep, longest_wait_s=2
    )

    with pytest.raises(Throttled, match="the minute is used up") as caught:
        gateway.perform(COMMIT)

    assert (caught.value.kind, caught.value.retry_after_s, caught.value.resource) == (
        "own_budget",
        40.0,
        "graphql",
    )
    assert (clock.slept, inner.arrivals) == ([], [])


def test_waits_that_follow_each_other_share_one_longest_wait(inner: Inner, clock: VirtualClock) -> None:
    gateway = BudgetedGateway(
        inner, Limiter([Wait(1.5, "pause"), Wait(1.0, "pause")]), clock.sleep, longest_wait_s=2
    )

    with pytest.raises(Throttled):
        gateway.perform(WRITE)

    assert (clock.slept, inner.arrivals) == ([1.5], [])


def test_secondary_limit_keeps_every_later_call_at_home(
    inner: Inner, rate_limiter: FileRateLimiter, clock: VirtualClock
) -> None:
    gateway = BudgetedGateway(inner, rate_limiter, clock.sleep)
    inner.answer = refuse("secondary", 60)
    with pytest.raises(Throttled):
        gateway.perform(WRITE)

    for call in (READ, WRITE, COMMIT):
        with pytest.raises(Throttled) as caught:
            gateway.perform(call)
        assert (caught.value.kind, caught.value.retry_after_s) == ("secondary", 60.0)

    assert len(inner.arrivals) == 1


def test_primary_limit_lets_no_request_of_any_kind_out_until_it_ends(
    inner: Inner, rate_limiter: FileRateLimiter, clock: VirtualClock
) -> None:
    gateway = BudgetedGateway(inner, rate_limiter, clock.sleep, may_use_reserve=True)
    inner.answer = refuse("primary", 3605)
    start = clock.now()
    with pytest.raises(Throttled):
        gateway.perform(READ)

    inner.answer = lambda: "done"
    while len(inner.arrivals) < 2:
        try:
            gateway.perform(READ)
        except Throttled as error:
            clock.sleep(min(error.retry_after_s, 300))

    assert inner.arrivals == [start, start + 3605]


def test_throttled_carries_the_wait_that_is_remembered(inner: Inner, clock: VirtualClock) -> None:
    inner.answer = refuse("secondary", 60)

    with pytest.raises(Throttled) as caught:
        BudgetedGateway(inner, Limiter([]), clock.sleep).perform(READ)

    assert caught.value.retry_after_s == 120


def test_other_errors_pass_and_block_nothing(
    inner: Inner, rate_limiter: FileRateLimiter, clock: VirtualClock
) -> None:
    def answer() -> Any:
        raise Missing("a.json", "not there")

    inner.answer = answer
    gateway = BudgetedGateway(inner, rate_limiter, clock.sleep)

    for _ in range(2):
        with pytest.raises(Missing):
            gateway.perform(READ)

    assert rate_limiter.budget.delay(Cost("core"), clock.now()).seconds == 0.0
    assert rate_limiter.budget.calls_this_run == 2


def test_clock_that_is_stopped_ends_the_wait_with_throttled(
    inner: Inner, rate_limiter: FileRateLimiter
) -> None:
    class Stopped(VirtualClock):
        def sleep(self, seconds: float) -> None:
            self.slept.append(seconds)

    gateway = BudgetedGateway(inner, rate_limiter, Stopped().sleep)
    gateway.perform(WRITE)

    with pytest.raises(Throttled):
        gateway.perform(WRITE)
