import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress

import pytest

from holdfast.errors import SpoolUnwritable
from holdfast.recorder import TasksRun
from tests.fakes.recording import Outage, Shelf


class Ticks:
    """A pause that ends when the test says so."""

    def __init__(self) -> None:
        self.intervals: list[float] = []
        self._due = threading.Semaphore(0)
        self._waiting = threading.Semaphore(0)

    def __call__(self, stop: threading.Event, interval_s: float) -> bool:
        self.intervals.append(interval_s)
        self._waiting.release()
        self._due.acquire()
        return stop.is_set()

    def tick(self) -> None:
        """Let one interval pass, and return when what it brings is done."""
        self._waiting.acquire()
        self._due.release()
        self._waiting.acquire()
        self._waiting.release()

    @contextmanager
    def ending(self) -> Iterator[None]:
        """Let the last pause end with the block, however that ends."""
        try:
            yield
        finally:
            self._due.release()


def autosave_threads() -> list[threading.Thread]:
    return [thread for thread in threading.enumerate() if thread.name == "holdfast-autosave"]


def test_a_long_task_is_saved_at_intervals_only_if_something_has_changed(shelf: Shelf) -> None:
    ticks = Ticks()
    with shelf.open(TasksRun, autosave_s=30.0, pause=ticks) as run, ticks.ending():
        ticks.tick()
        assert shelf.saved == []
        with run.task("compile"):
            ticks.tick()
            assert shelf.triggers == ["task_change"]
            run.state["nested"] = {"files": [1]}
            ticks.tick()
            assert shelf.triggers == ["task_change", "interval"]
            ticks.tick()
            run.state["nested"]["files"].append(2)
            ticks.tick()
            assert shelf.triggers == ["task_change", "interval", "interval"]

    assert set(ticks.intervals) == {30.0}
    assert shelf.saved[2]["state_snapshot"]["nested"] == {"files": [1, 2]}
    assert shelf.saved[2]["status"] == "in_progress"
    assert autosave_threads() == []


def test_a_resumed_run_is_not_saved_before_something_has_changed(shelf: Shelf) -> None:
    shelf.open(TasksRun).checkpoint()
    ticks = Ticks()
    with shelf.open(TasksRun, autosave_s=1.0, pause=ticks) as run, ticks.ending():
        run.resume()
        ticks.tick()
        assert shelf.triggers == ["manual"]


def test_an_autosave_that_fails_is_told_and_tried_again(shelf: Shelf) -> None:
    failures: list[Exception] = []
    ticks = Ticks()
    options = {"autosave_s": 1.0, "pause": ticks, "on_failed": failures.append, "strict": True}
    with shelf.open(TasksRun, **options) as run, ticks.ending():
        run.state["answer"] = 42
        shelf.failure = SpoolUnwritable("full")
        ticks.tick()
        assert len(failures) == 1
        shelf.failure = None
        ticks.tick()
        assert shelf.triggers == ["interval"]


def test_the_thread_ends_with_the_run_even_by_an_error(shelf: Shelf) -> None:
    ticks = Ticks()
    with suppress(Outage), shelf.open(TasksRun, autosave_s=1.0, pause=ticks), ticks.ending():
        raise Outage

    assert autosave_threads() == []


def test_without_an_interval_there_is_no_thread(shelf: Shelf) -> None:
    with shelf.open(TasksRun, autosave_s=None):
        assert autosave_threads() == []


def test_the_usual_pause_ends_at_once_when_the_run_does(shelf: Shelf) -> None:
    with shelf.open(TasksRun, autosave_s=3600.0):
        assert len(autosave_threads()) == 1

    assert autosave_threads() == []


def test_changes_that_belong_together_are_not_saved_by_halves(shelf: Shelf) -> None:
    run = shelf.open(TasksRun)
    saver = threading.Thread(target=run.checkpoint)
    with run.update():
        run.state["debit"] = 1
        saver.start()
        run.state["credit"] = 1
    saver.join()

    assert shelf.newest["state_snapshot"]["credit"] == 1


def test_a_state_that_keeps_changing_while_it_is_read_is_told(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def changing(_: object) -> None:
        raise RuntimeError("dictionary changed size during iteration")

    failures: list[Exception] = []
    monkeypatch.setattr(shelf, "draft", changing)
    assert shelf.open(TasksRun, on_failed=failures.append).checkpoint() is None
    assert "kept changing" in str(failures[0])
