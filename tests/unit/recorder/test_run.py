import asyncio
from contextlib import suppress
from datetime import UTC, datetime
from typing import Any

import pytest
from structlog.testing import capture_logs

from holdfast.errors import InvalidCheckpoint, SpoolUnwritable
from holdfast.format.receipt import Receipt
from holdfast.recorder import Options, PhasesRun, StepsRun, Storage, TasksRun, open_run
from tests.fakes.recording import Outage, Shelf

FULL = SpoolUnwritable("the disk is full")


def test_what_the_user_put_into_the_state_is_saved_as_it_is_at_that_moment(shelf: Shelf) -> None:
    run = shelf.open(TasksRun)
    run.state["items"] = [1]
    run.context_fields["warnings"] = ["slow"]
    run.checkpoint()
    run.state["items"].append(2)
    run.checkpoint("expensive_op")

    first, second = shelf.saved
    assert first["state_snapshot"]["items"] == [1]
    assert second["state_snapshot"]["items"] == [1, 2]
    assert (second["trigger"], second["context_fields"]) == ("expensive_op", {"warnings": ["slow"]})


def test_a_resume_gives_back_the_state_and_goes_on_filling_it(shelf: Shelf) -> None:
    first = shelf.open(TasksRun)
    first.state["items"] = [1]
    first.cost(1.5)
    with first.task("a"):
        pass

    run = shelf.open(TasksRun)
    state = run.resume()
    assert {name: state[name] for name in ("items", "cost_accumulated")} == {
        "items": [1],
        "cost_accumulated": 1.5,
    }
    assert state is run.state
    state["items"].append(2)
    run.checkpoint()

    assert shelf.newest["state_snapshot"]["items"] == [1, 2]
    assert run.plan is not None
    assert run.plan.state["items"] == [1]


def test_a_new_run_resumes_with_nothing(shelf: Shelf) -> None:
    run = shelf.open(TasksRun)

    assert run.resume() == {}
    assert run.plan is None
    assert run.remaining(["a"]) == ["a"]


def test_a_state_without_progress_is_taken_over(shelf: Shelf) -> None:
    shelf.put(shelf.draft({"run_id": "build-42", "trigger": "manual", "state": {"answer": 42}}))

    run = shelf.open(StepsRun)
    assert run.resume() == {"answer": 42}
    assert run.remaining(["lint"]) == ["lint"]


def test_a_run_of_another_style_is_not_resumed(shelf: Shelf) -> None:
    shelf.open(TasksRun).checkpoint()

    with pytest.raises(InvalidCheckpoint, match="was saved as 'tasks'"):
        shelf.open(StepsRun).resume()


def test_a_state_that_is_no_object_is_not_resumed(shelf: Shelf) -> None:
    shelf.put(shelf.draft({"run_id": "build-42", "trigger": "manual", "state": [1]}))

    with pytest.raises(InvalidCheckpoint, match="an object is expected"):
        shelf.open(StepsRun).resume()


def test_a_failed_save_is_told_and_the_work_goes_on(shelf: Shelf) -> None:
    failures: list[Exception] = []
    saved: list[Receipt] = []
    with (
        shelf.open(StepsRun, on_failed=failures.append, on_saved=saved.append) as run,
        capture_logs() as logs,
    ):
        shelf.failure = FULL
        with run.step("lint"):
            pass
        shelf.failure = None
        with run.step("test"):
            pass

    assert failures == [FULL, FULL]
    assert [(entry["event"], entry["trigger"], entry["cause"]) for entry in logs] == [
        ("checkpoint_failed", "before_step", "the disk is full"),
        ("checkpoint_failed", "step_complete", "the disk is full"),
    ]
    assert [receipt.sequence_number for receipt in saved] == [1, 2, 3]
    assert [record["command"] for record in shelf.progress["completed_steps"]] == ["lint", "test"]


def test_whatever_goes_wrong_in_saving_stays_out_of_the_work(shelf: Shelf) -> None:
    failures: list[Exception] = []
    shelf.failure = ZeroDivisionError()
    with shelf.open(StepsRun, on_failed=failures.append) as run, run.step("lint"):
        pass

    assert [type(failure) for failure in failures] == [ZeroDivisionError] * 3


def test_a_strict_run_raises_before_the_step_begins(shelf: Shelf) -> None:
    shelf.failure = FULL
    ran: list[str] = []
    with pytest.raises(SpoolUnwritable), shelf.open(StepsRun, strict=True) as run, run.step("lint"):
        ran.append("lint")

    assert ran == []


def test_a_strict_run_does_not_hide_the_error_of_the_work(shelf: Shelf) -> None:
    def work() -> None:
        with shelf.open(StepsRun, strict=True) as run, run.step("lint"):
            shelf.failure = FULL
            raise Outage("mine")

    with pytest.raises(Outage, match="mine"):
        work()


def test_a_callback_that_fails_does_not_break_the_run(shelf: Shelf) -> None:
    def explode(_: object) -> None:
        raise RuntimeError("callback")

    with (
        shelf.open(StepsRun, on_saved=explode, on_failed=explode, strict=True) as run,
        capture_logs() as logs,
    ):
        with run.step("lint"):
            pass
        shelf.failure = FULL
        with pytest.raises(SpoolUnwritable):
            run.checkpoint()
        shelf.failure = None

    assert [entry["event"] for entry in logs] == [
        "callback_failed",
        "callback_failed",
        "checkpoint_failed",
        "callback_failed",
    ]


def test_a_state_that_is_not_json_is_told_with_its_place(shelf: Shelf) -> None:
    failures: list[Any] = []
    with shelf.open(StepsRun, on_failed=failures.append) as run:
        run.state["at"] = {"moment": datetime.now(UTC)}
        with run.step("lint"):
            pass
        run.state["at"] = "noon"

    assert {failure.place for failure in failures} == {"state.at.moment"}
    assert "isoformat" in failures[0].reason
    assert shelf.triggers == ["run_complete"]
    assert shelf.progress["completed_steps"][0]["command"] == "lint"


def test_an_output_that_is_not_json_is_told_with_its_place(shelf: Shelf) -> None:
    failures: list[Any] = []
    run = shelf.open(StepsRun, on_failed=failures.append)
    with run.step("lint") as step:
        step.output = {"seen": {1, 2}}

    # It stands in two places, of which the first is told.
    assert failures[0].place == "state.progress.state.output.seen"
    assert shelf.triggers == ["before_step"]


def test_a_member_called_progress_is_refused_rather_than_lost(shelf: Shelf) -> None:
    failures: list[Any] = []
    run = shelf.open(TasksRun, on_failed=failures.append)
    run.state["progress"] = {"percent": 50}

    assert run.checkpoint() is None
    assert failures[0].place == "state.progress"


def test_an_unknown_trigger_is_told(shelf: Shelf) -> None:
    failures: list[Any] = []
    assert shelf.open(TasksRun, on_failed=failures.append).checkpoint("whenever") is None
    assert failures[0].place == "trigger"


def test_an_error_outside_of_any_step_is_saved_as_such(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(StepsRun) as run:
        with run.step("lint"):
            pass
        raise Outage("odd")

    assert (shelf.newest["trigger"], shelf.newest["status"]) == ("error", "failed")
    assert shelf.newest["state_snapshot"]["errors_encountered"][0]["error"] == "Outage: odd"
    assert shelf.resume("build-42").resume_at == 1


def test_a_failure_that_could_not_be_saved_is_saved_at_the_end(shelf: Shelf) -> None:
    def recover(_: object) -> None:
        shelf.failure = None

    with suppress(Outage), shelf.open(StepsRun, on_failed=recover) as run, run.step("lint"):
        shelf.failure = FULL
        raise Outage

    assert shelf.triggers == ["before_step", "error"]
    assert shelf.progress["state"]["kind"] == "failed"


@pytest.mark.parametrize(
    ("error", "status"),
    [
        (KeyboardInterrupt(), "interrupted"),
        (SystemExit(), "interrupted"),
        (SystemExit(0), "interrupted"),
        (SystemExit(3), "failed"),
        (asyncio.CancelledError(), "interrupted"),
        (GeneratorExit(), "interrupted"),
        (ValueError(), "failed"),
    ],
)
def test_the_way_a_run_ends_gives_its_status(shelf: Shelf, error: BaseException, status: str) -> None:
    with pytest.raises(type(error)), shelf.open(TasksRun):
        raise error

    assert [checkpoint["status"] for checkpoint in shelf.saved] == [status]


def test_an_error_whose_text_cannot_be_stored_is_stored_as_well_as_can_be(shelf: Shelf) -> None:
    class Wordless(Exception):
        def __str__(self) -> str:
            raise RuntimeError

    run = shelf.open(StepsRun)
    with pytest.raises(Wordless), run.step("one"):
        raise Wordless
    assert shelf.progress["state"]["error"] == "Wordless"
    with pytest.raises(ValueError, match="x"), run.step("one"):
        raise ValueError("x\udc80" + "y" * 10_000)
    assert shelf.progress["state"]["error"].startswith("ValueError: x\\udc80yyy")


def test_what_is_saved_after_the_end_does_not_reopen_the_run(shelf: Shelf) -> None:
    with shelf.open(TasksRun) as run:
        pass
    run.checkpoint()

    assert shelf.newest["status"] == "completed"


def test_a_completed_run_that_is_opened_again_saves_nothing_new(shelf: Shelf) -> None:
    with shelf.open(TasksRun) as run, run.task("a"):
        pass
    with shelf.open(TasksRun) as again:
        again.resume()
        assert again.remaining(["a"]) == []

    assert shelf.triggers == ["task_change", "task_change", "run_complete"]


def test_the_spool_is_drained_at_the_end_if_asked(shelf: Shelf) -> None:
    with shelf.open(TasksRun):
        pass
    assert shelf.drained == 0
    with shelf.open(TasksRun, drain_at_end=True):
        pass
    assert shelf.drained == 1


def test_a_drain_that_fails_is_told_and_raised_only_if_strict(
    shelf: Shelf, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail() -> None:
        raise FULL

    monkeypatch.setattr(shelf, "drain", fail)
    with capture_logs() as logs, shelf.open(TasksRun, drain_at_end=True):
        pass
    assert [entry["event"] for entry in logs] == ["drain_failed"]
    with pytest.raises(SpoolUnwritable), shelf.open(TasksRun, drain_at_end=True, strict=True):
        pass


def test_what_remains_is_unknown_without_saying_what_there_is(shelf: Shelf) -> None:
    with pytest.raises(InvalidCheckpoint, match="say what there is to do"):
        shelf.open(TasksRun).remaining()


def test_a_wrong_run_id_or_style_is_refused_at_once(shelf: Shelf) -> None:
    storage = Storage(shelf.draft, shelf.put, shelf.resume, shelf.drain, shelf.clock)
    with pytest.raises(InvalidCheckpoint, match="run_id"):
        open_run("../x", "steps", storage, Options())
    with pytest.raises(InvalidCheckpoint, match="phases, layers, agents, tasks, steps"):
        open_run("x", "cats", storage, Options())
    assert isinstance(open_run("x", "phases", storage, Options()), PhasesRun)


def test_a_part_of_another_style_is_named_with_the_style_it_needs(shelf: Shelf) -> None:
    run: Any = shelf.open(PhasesRun)
    with pytest.raises(AttributeError, match="open it with style='steps'"):
        run.step("lint")
    with pytest.raises(AttributeError, match="has no 'stepp'"):
        run.stepp("lint")
