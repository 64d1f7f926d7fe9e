from contextlib import suppress

import pytest

from holdfast.recorder import TasksRun
from tests.fakes.recording import Outage, Shelf


def test_a_task_is_saved_when_it_begins_and_when_it_is_completed(shelf: Shelf) -> None:
    with shelf.open(TasksRun, metadata={"branch": "main"}) as run, run.task("compile"):
        shelf.clock.sleep(1)

    begun, done, _ = shelf.saved
    assert shelf.triggers == ["task_change", "task_change", "run_complete"]
    assert begun["state_snapshot"]["progress"]["tasks"] == {
        "compile": {
            "status": "in_progress",
            "started_at": begun["timestamp"],
            "completed_at": None,
            "error": None,
        }
    }
    assert done["state_snapshot"]["progress"]["tasks"] == {
        "compile": {
            "status": "completed",
            "started_at": begun["timestamp"],
            "completed_at": done["timestamp"],
            "error": None,
        }
    }
    assert begun["phase"] == "compile"
    assert shelf.progress["metadata"] == {"branch": "main"}


def test_a_failed_task_is_saved_once_with_its_error(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(TasksRun) as run, run.task("compile"):
        raise Outage("disk")

    assert shelf.triggers == ["task_change", "task_change"]
    assert shelf.newest["status"] == "failed"
    record = shelf.progress["tasks"]["compile"]
    assert (record["status"], record["error"]) == ("failed", "Outage: disk")


def test_an_interrupted_task_stays_in_progress(shelf: Shelf) -> None:
    with pytest.raises(KeyboardInterrupt), shelf.open(TasksRun) as run, run.task("compile"):
        raise KeyboardInterrupt

    assert shelf.triggers == ["task_change", "interrupted"]
    assert shelf.progress["tasks"]["compile"]["status"] == "in_progress"


def test_a_resumed_run_repeats_what_was_in_progress_or_failed_and_nothing_else(shelf: Shelf) -> None:
    first = shelf.open(TasksRun, work=["a", "b", "c", "d"])
    with first.task("a"):
        pass
    with suppress(Outage), first.task("b"):
        raise Outage
    first.task("c").__enter__()

    run = shelf.open(TasksRun)
    run.resume()

    assert run.remaining(["a", "b", "c", "d"]) == ["b", "c", "d"]
    assert run.plan is not None
    assert (run.plan.resume_at, run.plan.remaining) == ("b", ["b", "c", "d"])


def test_metadata_can_be_added_and_is_restored(shelf: Shelf) -> None:
    run = shelf.open(TasksRun)
    run.describe(image="builder:3")
    run.checkpoint()

    again = shelf.open(TasksRun, work=["late"])
    again.resume()

    assert again.progress["metadata"] == {"image": "builder:3"}
    assert again.remaining() == ["late"]
