"""Pruning in the background: after a drain, of runs that have grown beyond the rules."""

import time
from collections.abc import Collection, Iterator
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.errors import Throttled
from holdfast.format.moments import format_moment
from holdfast.github.calls import Answer
from holdfast.library import Holdfast
from holdfast.retention import Sweeper
from holdfast.retention.prune import LEAST_EXCESS
from holdfast.retention.rules import DAY_S
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock

LAYERS = {"progress": {"style": "layers", "layer_index": 1, "dag_structure": {"layers": [["a"], ["b"]]}}}
CHECKPOINT = {"run_id": "others", "trigger": "manual", "state": {"n": 1}}


def open_holdfast(environment: dict[str, str]) -> Holdfast:
    """Open one that skips its pauses between writes."""
    settings = Settings.from_environment(environment)
    return Holdfast(settings, assembly=Assembly(settings, clock=VirtualClock(time.time())))


@pytest.fixture(params=["contents", "commit"])
def holdfast(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Holdfast]:
    environment = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_WRITE_MODE": request.param}
    with open_holdfast(environment) as holdfast:
        yield holdfast


def numbers(holdfast: Holdfast, run_id: str) -> list[int]:
    return [entry.sequence for entry in holdfast.checkpoints(run_id).entries]


@pytest.mark.slow
def test_layers_keep_their_five_newest_checkpoints(holdfast: Holdfast) -> None:
    for _ in range(7):
        holdfast.save("layers", LAYERS, trigger="layer_complete")
        holdfast.save("others", {"n": 1})
    holdfast.drain()

    assert numbers(holdfast, "layers") == [3, 4, 5, 6, 7]
    assert numbers(holdfast, "others") == [1, 2, 3, 4, 5, 6, 7]

    holdfast.save("layers", LAYERS, trigger="layer_complete")
    holdfast.drain()

    assert numbers(holdfast, "layers") == [4, 5, 6, 7, 8]
    assert holdfast.resume("layers").sequence_number == 8


@pytest.mark.slow
def test_layers_keep_to_another_limit_after_every_drain_as_well(tmp_path: Path) -> None:
    environment = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_KEEP_CHECKPOINTS": "3"}
    with open_holdfast(environment) as holdfast:
        for _ in range(5):
            holdfast.save("layers", LAYERS, trigger="layer_complete")
            holdfast.drain()

        assert numbers(holdfast, "layers") == [3, 4, 5]


def save(holdfast: Holdfast, count: int, status: str = "in_progress") -> None:
    for _ in range(count):
        holdfast.save("others", {"n": 1}, status=status)
    holdfast.drain()


@pytest.fixture
def frugal(tmp_path: Path) -> Iterator[Holdfast]:
    """One whose runs keep two checkpoints."""
    environment = {
        "HOLDFAST_DATA_DIR": str(tmp_path),
        "HOLDFAST_WRITE_MODE": "commit",
        "HOLDFAST_KEEP_CHECKPOINTS": "2",
    }
    with Holdfast(Settings.from_environment(environment)) as holdfast:
        yield holdfast


@pytest.mark.slow
def test_run_is_pruned_once_enough_is_beyond_its_limit(frugal: Holdfast) -> None:
    save(frugal, 2 + LEAST_EXCESS - 1)
    assert len(numbers(frugal, "others")) == 2 + LEAST_EXCESS - 1

    save(frugal, 1)
    assert numbers(frugal, "others") == [11, 12]


@pytest.mark.slow
def test_cleanup_leaves_no_run_beyond_its_limit(frugal: Holdfast) -> None:
    save(frugal, 5)

    frugal.cleanup()

    assert numbers(frugal, "others") == [4, 5]


@pytest.mark.slow
def test_completed_run_is_pruned_to_its_limit(frugal: Holdfast) -> None:
    save(frugal, 3)
    save(frugal, 1, status="completed")

    assert numbers(frugal, "others") == [3, 4]


@pytest.mark.slow
def test_large_run_is_pruned_once_a_tenth_is_beyond_its_limit(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_environment(
        {
            "HOLDFAST_DATA_DIR": str(tmp_path),
            "HOLDFAST_WRITE_MODE": "commit",
            "HOLDFAST_KEEP_CHECKPOINTS": "200",
        }
    )
    pruned: list[Collection[str]] = []
    monkeypatch.setattr(Sweeper, "prune", lambda _, run_ids: pruned.append(run_ids))
    with Holdfast(settings) as holdfast:
        save(holdfast, 219)
        assert not pruned

        save(holdfast, 1)
        assert pruned == [["others"]]


@pytest.mark.slow
def test_preserved_run_is_not_pruned(holdfast: Holdfast) -> None:
    holdfast.preserve("layers")
    for _ in range(7):
        holdfast.save("layers", LAYERS, trigger="layer_complete")
    holdfast.drain()

    assert len(numbers(holdfast, "layers")) == 7


@pytest.mark.slow
def test_failure_to_prune_does_not_fail_the_drain(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object) -> None:
        raise Throttled("", "not now", kind="own_budget", retry_after_s=60)

    monkeypatch.setattr(Sweeper, "prune", refuse)
    for _ in range(7):
        holdfast.save("layers", LAYERS, trigger="layer_complete")
    assert holdfast.drain().left == 0
    assert len(numbers(holdfast, "layers")) == 7

    monkeypatch.undo()
    holdfast.save("layers", LAYERS, trigger="layer_complete")
    holdfast.drain()
    assert numbers(holdfast, "layers") == [4, 5, 6, 7, 8]


@pytest.mark.slow
def test_runs_within_the_rules_cost_no_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    asked: list[str] = []
    with Holdfast(settings, assembly=(assembly := Assembly(settings))) as holdfast:
        observe = assembly.rate_limiter.observe

        def note(answer: Answer) -> None:
            asked.append(type(answer.call).__name__)
            observe(answer)

        monkeypatch.setattr(assembly.rate_limiter, "observe", note)
        for _ in range(3):
            holdfast.save("layers", LAYERS, trigger="layer_complete")
            holdfast.drain()
        asked.clear()
        holdfast.save("layers", LAYERS, trigger="layer_complete")
        holdfast.drain()

    assert asked == ["WriteFile", "ReadFile", "WriteFile", "WriteFile"]


@pytest.mark.slow
def test_what_is_old_does_not_depend_on_the_local_clock(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_KEEP_DAYS": "1"})
    ahead = VirtualClock(time.time() + 10 * DAY_S)
    monkeypatch.setattr(Sweeper, "prune", lambda *_: pytest.fail("nothing is old"))
    with Holdfast(settings, assembly=Assembly(settings, clock=ahead)) as holdfast:
        for _ in range(12):
            holdfast.submit({**CHECKPOINT, "timestamp": format_moment(time.time())})

        assert holdfast.drain().verified == 12
