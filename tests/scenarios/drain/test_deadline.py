"""A drain that was given a time ends with it, but for the request under way, whatever fails."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from holdfast.assembly import Assembly
from holdfast.errors import Unavailable
from holdfast.github.calls import Call, ResultT
from holdfast.github.client import GitHubClient
from holdfast.library import Holdfast
from holdfast.retention import Sweeper
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock

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
