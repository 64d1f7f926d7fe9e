"""Cleaning up on a schedule inside a service."""

import threading
from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import pytest

from holdfast.clock import Deadline
from holdfast.errors import SweepBusy
from holdfast.library import Holdfast
from holdfast.queue import Queue
from holdfast.retention import Sweeper, schedule
from holdfast.retention.plan import RetentionPlan
from holdfast.retention.schedule import FIRST_PAUSE_S, RETRY_S, Schedule
from holdfast.retention.sweep import SweepReport
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock
from tests.fakes.repository import read_branch
from tests.fakes.sidecar import running_sidecar
from tests.fakes.spooling import open_spool

DAY_S = 86_400.0


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def spool(tmp_path: Path, clock: VirtualClock) -> Iterator[Queue]:
    spool = open_spool(tmp_path, clock=clock)
    yield spool
    spool.close()


def run_rounds(rounds: int, spool: Queue, clock: VirtualClock, outcomes: object = None) -> list[float]:
    """Run a schedule for so many sweeps; return how long it waited before each, and before its end."""
    done = SweepReport(RetentionPlan(()))
    sweeper = Mock(spec=Sweeper, sweep=Mock(side_effect=outcomes, return_value=done))
    waits: list[float] = []
    stop = threading.Event()

    class StoppingClock(VirtualClock):
        def sleep(self, seconds: float) -> None:
            waits.append(seconds)
            clock.sleep(seconds)
            self.time = clock.time
            if len(waits) > rounds:
                stop.set()

    Schedule(sweeper, spool, Deadline(StoppingClock(clock.now()), stop), DAY_S).run()
    assert sweeper.sweep.call_count == rounds
    return waits


def test_first_sweep_comes_soon_and_the_others_at_their_times(spool: Queue, clock: VirtualClock) -> None:
    assert run_rounds(2, spool, clock) == [FIRST_PAUSE_S, DAY_S, DAY_S]


def test_sweep_that_is_cut_short_is_tried_again_before_long(spool: Queue, clock: VirtualClock) -> None:
    cut_short = SweepReport(RetentionPlan(()), rest_because="the rest of the hour is for checkpoints")

    waits = run_rounds(2, spool, clock, [cut_short, SweepReport(RetentionPlan(()))])

    assert waits == [FIRST_PAUSE_S, RETRY_S, DAY_S]


def test_service_that_is_started_anew_goes_on_with_its_schedule(spool: Queue, clock: VirtualClock) -> None:
    run_rounds(1, spool, clock)
    clock.time -= 0.75 * DAY_S  # of the last wait

    assert run_rounds(0, spool, clock) == [0.75 * DAY_S]


def test_sweep_that_is_overdue_comes_soon_after_the_start(spool: Queue, clock: VirtualClock) -> None:
    run_rounds(1, spool, clock)
    clock.time += 5 * DAY_S

    assert run_rounds(0, spool, clock) == [FIRST_PAUSE_S]


def test_clock_that_was_set_back_puts_nothing_off(spool: Queue, clock: VirtualClock) -> None:
    run_rounds(1, spool, clock)
    clock.time -= 400 * DAY_S

    assert run_rounds(0, spool, clock) == [DAY_S]


@pytest.mark.slow
@pytest.mark.parametrize("error", [SweepBusy("another process is cleaning up"), ZeroDivisionError()])
def test_sweep_that_fails_is_tried_again_before_long(
    spool: Queue, clock: VirtualClock, error: Exception
) -> None:
    waits = run_rounds(2, spool, clock, [error, SweepReport(RetentionPlan(()))])

    assert waits == [FIRST_PAUSE_S, RETRY_S, DAY_S]


@pytest.mark.slow
def test_sidecar_cleans_up_by_itself_when_told_how_often(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with Holdfast(Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})) as holdfast:
        holdfast.save("a", {"n": 1})
        holdfast.drain()
    (repository,) = (tmp_path / "github").glob("*/*.git")
    monkeypatch.setattr(schedule, "FIRST_PAUSE_S", 0.0)

    is_swept = threading.Event()
    sweep = Schedule._sweep

    def sweep_and_tell(scheduled: Schedule) -> bool:
        try:
            return sweep(scheduled)
        finally:
            is_swept.set()

    monkeypatch.setattr(Schedule, "_sweep", sweep_and_tell)

    with running_sidecar(tmp_path, cleanup_every="1h", keep_full_runs=0):
        assert is_swept.wait(60)

    assert "checkpoints/retention_log.json" in read_branch(repository)
    assert "checkpoints/a/cp_001_manual.json" not in read_branch(repository)
