"""A drain that was given a time ends with it, whatever fails or hangs."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.assembly import Assembly
from holdfast.clock import GRACE_S
from holdfast.errors import Unavailable
from holdfast.github.calls import Call, ResultT
from holdfast.github.client import GitHubClient
from holdfast.github.patience import Patience, longest_wait_s
from holdfast.library import Holdfast
from holdfast.retention import Sweeper
from holdfast.settings import Settings
from holdfast.sharding.homes import rank
from holdfast.sharding.sharded_assembly import ShardedAssembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.shards import SHARDS, run_of

REQUEST_S = 2.0
TIMEOUT_S = 3.0


Outage = Callable[[], None]


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def outage(monkeypatch: pytest.MonkeyPatch, clock: VirtualClock) -> Outage:
    """Have GitHub go away: from then on every request takes a while and has no answer."""

    def fail(*_: object) -> Any:
        clock.sleep(REQUEST_S)
        raise Unavailable("x", "no answer")

    return lambda: monkeypatch.setattr(GitHubClient, "perform", fail)


@pytest.fixture(params=["contents", "commit"])
def settings(request: pytest.FixtureRequest, tmp_path: Path) -> Settings:
    environment = {
        "HOLDFAST_DATA_DIR": str(tmp_path),
        "HOLDFAST_WRITE_MODE": request.param,
        "HOLDFAST_KEEP_CHECKPOINTS": "1",
    }
    return Settings.from_environment(environment)


def test_outage_does_not_keep_a_drain_beyond_its_time(
    settings: Settings, clock: VirtualClock, outage: Outage
) -> None:
    with Holdfast(settings, assembly=Assembly(settings, clock=clock)) as holdfast:
        holdfast.save("r", {"n": 1})
        outage()
        begun = clock.now()

        result = holdfast.drain(timeout_s=TIMEOUT_S)

        assert clock.now() - begun <= TIMEOUT_S + REQUEST_S
        assert (result.verified, result.left) == (0, 1)
        assert "no answer" in result.reason
        assert "no answer" in holdfast.status()["last_error"]


def test_outage_does_not_keep_the_pruning_after_a_drain_beyond_its_time(
    settings: Settings, clock: VirtualClock, outage: Outage, monkeypatch: pytest.MonkeyPatch
) -> None:
    prune = Sweeper.prune
    begun: list[float] = []

    def prune_in_an_outage(*given: Any) -> Any:
        outage()
        begun.append(clock.now())
        return prune(*given)

    monkeypatch.setattr(Sweeper, "prune", prune_in_an_outage)
    with Holdfast(settings, assembly=Assembly(settings, clock=clock)) as holdfast:
        for _ in range(12):
            holdfast.save("r", {"n": 1})

        assert holdfast.drain(timeout_s=TIMEOUT_S).verified == 12

    assert clock.now() - begun[0] <= TIMEOUT_S + REQUEST_S


def test_nothing_is_pruned_once_the_time_is_over(
    settings: Settings, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(Sweeper, "prune", lambda *_: pytest.fail("the time is over"))
    with Holdfast(settings, assembly=(assembly := Assembly(settings, clock=clock))) as holdfast:
        for _ in range(12):
            holdfast.save("r", {"n": 1})
        assembly.worker.on_progress(lambda *_: clock.sleep(TIMEOUT_S))

        assert holdfast.drain(timeout_s=TIMEOUT_S).verified == 12


def test_reads_are_repeated_where_no_time_was_given(
    settings: Settings, clock: VirtualClock, monkeypatch: pytest.MonkeyPatch
) -> None:
    perform = GitHubClient.perform
    failures = [Unavailable("x", "no answer")] * 2

    def stumble(client: GitHubClient, call: Call[ResultT]) -> ResultT:
        if not call.is_mutation and failures:
            raise failures.pop()
        return perform(client, call)

    monkeypatch.setattr(GitHubClient, "perform", stumble)
    with Holdfast(settings, assembly=Assembly(settings, clock=clock)) as holdfast:
        holdfast.save("r", {"n": 1})

        assert holdfast.drain().verified == 1


class StallingGateway(MemoryGateway):
    """Answers so many calls, then none: whoever asks waits as long as can be, and in vain."""

    def __init__(self, clock: VirtualClock, answers: int = 0) -> None:
        super().__init__()
        self.clock = clock
        self.answers = answers
        self.waited = 0

    def perform(self, call: Call[ResultT]) -> ResultT:
        if self.answers > 0:
            self.answers -= 1
            return super().perform(call)
        self.waited += 1
        self.clock.sleep(longest_wait_s(30.0))
        raise Unavailable(call.subject, "GitHub did not answer in time", is_late=True)


def test_a_github_that_hangs_does_not_keep_a_drain_beyond_its_time(
    settings: Settings, clock: VirtualClock
) -> None:
    gateway = StallingGateway(clock)
    with Holdfast(settings, assembly=Assembly(settings, clock=clock, gateway=gateway)) as holdfast:
        holdfast.save("r", {"n": 1})
        for _ in range(4):  # what is known of the outage then has it begin with a small question
            begun = clock.now()

            result = holdfast.drain(timeout_s=TIMEOUT_S)

            assert clock.now() - begun == TIMEOUT_S
            assert (result.verified, result.left) == (0, 1)
            assert "did not answer in time" in result.reason

        gateway.answers = 1000
        assert holdfast.drain().verified == 1


@pytest.mark.parametrize("answers", range(1, 12))
def test_a_github_that_begins_to_hang_is_given_a_grace(
    settings: Settings, clock: VirtualClock, answers: int
) -> None:
    gateway = StallingGateway(clock, answers)
    with Holdfast(settings, assembly=Assembly(settings, clock=clock, gateway=gateway)) as holdfast:
        holdfast.save("r", {"n": 1})
        holdfast.save("s", {"n": 1})
        begun = clock.now()

        holdfast.drain(timeout_s=TIMEOUT_S)

        assert clock.now() - begun <= TIMEOUT_S + GRACE_S
        gateway.answers = 1000
        assert holdfast.drain().left == 0


def test_without_a_time_a_github_that_hangs_is_waited_for_once(
    settings: Settings, clock: VirtualClock
) -> None:
    gateway = StallingGateway(clock)
    with Holdfast(settings, assembly=Assembly(settings, clock=clock, gateway=gateway)) as holdfast:
        holdfast.save("r", {"n": 1})
        begun = clock.now()

        assert holdfast.drain().left == 1

        assert clock.now() - begun <= 31.0


def test_a_drain_that_waits_goes_on_as_soon_as_github_answers_again(
    settings: Settings, clock: VirtualClock
) -> None:
    gateway = StallingGateway(clock)
    assembly = Assembly(settings, clock=clock, gateway=gateway, patience=Patience(clock))
    with Holdfast(settings, assembly=assembly) as holdfast:
        holdfast.save("r", {"n": 1})
        perform, begun = gateway.perform, clock.now()

        def recover(call: Call[ResultT]) -> ResultT:
            gateway.answers = 1000 if gateway.waited == 2 else 0
            return perform(call)

        gateway.perform = recover  # type: ignore[method-assign]

        assert holdfast.drain(timeout_s=600.0).verified == 1
        assert clock.now() - begun < 45.0  # 30 s in vain, and a short pause


def test_no_shard_is_waited_for_longer_than_the_drain_may_take(tmp_path: Path, clock: VirtualClock) -> None:
    environment = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_SHARDS": ",".join(SHARDS)}
    settings = Settings.from_environment(environment)
    gateways = {name: StallingGateway(clock) for name in SHARDS}
    assembly = ShardedAssembly(settings, gateways=gateways, clock=clock)
    with Holdfast(settings, assembly=assembly) as holdfast:
        runs = [run_of(SHARDS[0], nth=nth) for nth in range(9)]
        assert {rank(run_id, SHARDS)[1] for run_id in runs} == set(SHARDS[1:])  # each is asked about some
        for run_id in runs:
            holdfast.save(run_id, {"n": 1})
        begun = clock.now()

        result = holdfast.drain(timeout_s=TIMEOUT_S)

        assert clock.now() - begun == TIMEOUT_S
        assert (result.verified, result.left) == (0, 9)
