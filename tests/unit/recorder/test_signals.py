import signal
import threading
from collections.abc import Iterator
from contextlib import suppress
from types import FrameType
from typing import Any

import pytest

from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.recorder import StepsRun, signals
from holdfast.recorder.signals import SignalWatch
from tests.fakes.recording import Shelf


@pytest.fixture(autouse=True)
def handlers() -> Iterator[None]:
    """Give the signals back as they were, whatever a test has done to them."""
    before = {number: signal.getsignal(number) for number in signals.WATCHED}
    yield
    for number, handler in before.items():
        signal.signal(number, handler)


def leave(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)


def test_sigint_is_saved_once_and_still_interrupts_the_work(shelf: Shelf) -> None:
    before = signal.getsignal(signal.SIGINT)
    with pytest.raises(KeyboardInterrupt), shelf.open(StepsRun, handle_signals=True) as run, run.step("lint"):
        signal.raise_signal(signal.SIGINT)

    assert shelf.triggers == ["before_step", "interrupted"]
    assert shelf.newest["status"] == "interrupted"
    assert shelf.progress["state"] == {"kind": "interrupted", "step_index": 0, "in_progress": True}
    assert signal.getsignal(signal.SIGINT) is before


def test_sigterm_is_passed_on_to_the_handler_before_and_is_no_failure(shelf: Shelf) -> None:
    signal.signal(signal.SIGTERM, leave)
    run = shelf.open(StepsRun, handle_signals=True)
    with pytest.raises(SystemExit) as caught, run, run.step("lint"):
        signal.raise_signal(signal.SIGTERM)

    assert caught.value.code == 143
    assert shelf.triggers == ["before_step", "interrupted"]
    assert signal.getsignal(signal.SIGTERM) is leave


def test_work_that_a_handler_lets_go_on_is_in_progress_again(shelf: Shelf) -> None:
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    with shelf.open(StepsRun, handle_signals=True) as run, run.step("lint"):
        signal.raise_signal(signal.SIGTERM)

    assert came == [signal.SIGTERM]
    assert shelf.triggers == ["before_step", "interrupted", "step_complete", "run_complete"]
    assert [checkpoint["status"] for checkpoint in shelf.saved[1:]] == [
        "interrupted",
        "in_progress",
        "completed",
    ]


def test_a_signal_that_is_ignored_stays_ignored(shelf: Shelf) -> None:
    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    with shelf.open(StepsRun, handle_signals=True):
        assert signal.getsignal(signal.SIGTERM) is signal.SIG_IGN
        signal.raise_signal(signal.SIGTERM)

    assert shelf.triggers == ["run_complete"]


@pytest.mark.parametrize("number", signals.WATCHED)
def test_a_signal_during_a_save_waits_until_the_checkpoint_is_on_disk(
    shelf: Shelf, number: signal.Signals
) -> None:
    signal.signal(number, leave)
    put = shelf.put

    def put_and_be_interrupted(draft: Draft) -> Receipt:
        shelf.put = put  # type: ignore[method-assign]
        signal.raise_signal(number)
        return put(draft)

    with pytest.raises(SystemExit), shelf.open(StepsRun, handle_signals=True) as run, run.step("lint"):
        shelf.put = put_and_be_interrupted  # type: ignore[method-assign]

    assert shelf.triggers == ["before_step", "step_complete", "interrupted"]
    assert shelf.progress["state"] == {"kind": "interrupted", "step_index": 0, "in_progress": False}


def test_what_a_handler_raises_during_a_save_is_not_taken_for_a_failed_save(shelf: Shelf) -> None:
    class Terminated(Exception):
        pass

    def terminate(number: int, frame: FrameType | None) -> None:
        raise Terminated

    failures: list[Exception] = []
    signal.signal(signal.SIGTERM, terminate)
    with (
        suppress(Terminated),
        shelf.open(StepsRun, handle_signals=True, on_failed=failures.append) as run,
        run.step("lint"),
        run.update(),
    ):
        signal.raise_signal(signal.SIGTERM)
        run.state["whole"] = True
    with pytest.raises(Terminated), shelf.open(StepsRun, handle_signals=True):
        signal.raise_signal(signal.SIGTERM)

    assert failures == []
    assert shelf.triggers == ["before_step", "interrupted", "interrupted"]
    assert shelf.saved[1]["state_snapshot"]["whole"] is True


def test_two_runs_at_once_both_save(shelf: Shelf) -> None:
    other = Shelf()
    one, two = shelf.open(StepsRun, handle_signals=True), other.open(StepsRun, handle_signals=True)
    with pytest.raises(KeyboardInterrupt), one, two:
        signal.raise_signal(signal.SIGINT)

    assert shelf.triggers == ["interrupted"]
    assert other.triggers == ["interrupted"]


def test_a_handler_that_was_set_meanwhile_is_left_alone_and_may_still_call_us(shelf: Shelf) -> None:
    came: list[int] = []
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))
    with shelf.open(StepsRun, handle_signals=True):
        ours: Any = signal.getsignal(signal.SIGTERM)

        def later(number: int, frame: FrameType | None) -> None:
            ours(number, frame)

        signal.signal(signal.SIGTERM, later)
    assert signal.getsignal(signal.SIGTERM) is later

    signal.raise_signal(signal.SIGTERM)
    assert came == [signal.SIGTERM]
    assert shelf.triggers == ["run_complete"]


def test_outside_of_the_main_thread_no_signal_is_touched(shelf: Shelf) -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen: list[Any] = []

    def work() -> None:
        with shelf.open(StepsRun, handle_signals=True) as run, run.step("lint"):
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=work)
    thread.start()
    thread.join()

    assert seen == [before]
    assert shelf.triggers == ["before_step", "step_complete", "run_complete"]


def test_a_run_that_does_not_want_signals_leaves_them_alone(shelf: Shelf) -> None:
    before = signal.getsignal(signal.SIGTERM)
    with shelf.open(StepsRun, handle_signals=False):
        assert signal.getsignal(signal.SIGTERM) is before


def test_a_signal_is_not_held_up_for_ever_by_a_save_that_hangs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(signals, "LONGEST_SAVE_S", 0.0)
    released, came = threading.Event(), list[int]()
    signal.signal(signal.SIGTERM, lambda number, _: came.append(number))

    def hang() -> None:
        released.wait(timeout=60)

    watch = SignalWatch(hang)
    watch.open()
    signal.raise_signal(signal.SIGTERM)
    watch.close()

    assert came == [signal.SIGTERM]
    released.set()
