from contextlib import suppress

import pytest

from holdfast.format.triggers import Trigger
from holdfast.recorder import StepsRun
from tests.fakes.recording import Outage, Shelf


class Unrepeatable(Exception):
    retryable = False


def test_a_step_is_saved_before_and_after_with_what_it_captured(shelf: Shelf) -> None:
    run = shelf.open(StepsRun, workflow="ci.yml", working_directory="app")
    with run, run.step("lint") as step:
        shelf.clock.sleep(2.5)
        step.capture(version="1.2")
        step.output = {"warnings": 0}

    before, after, end = shelf.saved
    assert [before["trigger"], after["trigger"], end["trigger"]] == [
        "before_step",
        "step_complete",
        "run_complete",
    ]
    assert before["state_snapshot"]["progress"]["state"] == {"kind": "before_step", "step_index": 0}
    progress = after["state_snapshot"]["progress"]
    assert progress["state"] == {"kind": "completed", "step_index": 0, "output": {"warnings": 0}}
    assert progress["completed_steps"] == [
        {
            "step_index": 0,
            "command": "lint",
            "output": {"warnings": 0},
            "captured_variables": {"version": "1.2"},
            "duration_s": 2.5,
            "completed_at": after["timestamp"],
        }
    ]
    assert progress["variables"] == {"version": "1.2"}
    assert (progress["workflow_path"], progress["working_directory"]) == ("ci.yml", "app")
    assert progress["workflow_type"] == {"kind": "standard"}
    assert (before["phase"], before["workflow"], before["status"]) == ("lint", "ci.yml", "in_progress")
    assert end["status"] == "completed"


def test_a_failed_step_is_saved_once_with_its_error_which_is_still_raised(shelf: Shelf) -> None:
    error = ValueError("no such file")
    run = shelf.open(StepsRun)
    with pytest.raises(ValueError, match="no such file") as caught, run, run.step("lint"):
        raise error

    assert caught.value is error
    assert shelf.triggers == ["before_step", "step_failed"]
    assert shelf.newest["status"] == "failed"
    assert shelf.progress["state"] == {
        "kind": "failed",
        "step_index": 0,
        "error": "ValueError: no such file",
        "retryable": True,
    }
    (entry,) = shelf.newest["state_snapshot"]["errors_encountered"]
    assert (entry["place"], entry["error"]) == ("lint", "ValueError: no such file")


def test_an_error_says_whether_it_is_worth_trying_again_unless_the_step_does(shelf: Shelf) -> None:
    run = shelf.open(StepsRun)

    with pytest.raises(Unrepeatable), run.step("one"):
        raise Unrepeatable
    assert shelf.progress["state"]["retryable"] is False

    with suppress(Unrepeatable), run.step("one") as step:
        step.retryable = True
        raise Unrepeatable
    assert shelf.progress["state"]["retryable"] is True


def test_a_run_that_goes_on_after_a_failure_still_resumes_at_the_failed_step(shelf: Shelf) -> None:
    run = shelf.open(StepsRun)
    with suppress(Outage), run.step("lint"):
        raise Outage
    with run.step("test"):
        pass

    assert shelf.newest["status"] == "in_progress"
    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.retry_current, plan.completed) == (0, True, [1])


def test_a_run_does_not_wait_for_a_step_that_failed_for_good(shelf: Shelf) -> None:
    run = shelf.open(StepsRun)
    with pytest.raises(Unrepeatable), run.step("lint"):
        raise Unrepeatable
    with run.step("test"):
        pass

    assert shelf.resume("build-42").resume_at == 2


def test_steps_side_by_side_resume_at_the_first_that_is_not_completed(shelf: Shelf) -> None:
    run = shelf.open(StepsRun)
    with run.step("slow"):
        with run.step("quick"):
            pass
        plan = shelf.resume("build-42")

    assert shelf.triggers == ["before_step", "before_step", "step_complete", "step_complete"]
    assert (plan.resume_at, plan.completed) == (0, [1])
    after = shelf.resume("build-42")
    assert (after.resume_at, after.warnings) == (2, [])


def test_an_interrupted_step_is_in_progress_and_is_saved_once(shelf: Shelf) -> None:
    with suppress(KeyboardInterrupt), shelf.open(StepsRun) as run:
        with run.step("lint"):
            pass
        with run.step("test"):
            raise KeyboardInterrupt

    assert shelf.triggers[-2:] == ["before_step", "interrupted"]
    assert shelf.newest["status"] == "interrupted"
    assert shelf.progress["state"] == {"kind": "interrupted", "step_index": 1, "in_progress": True}
    assert shelf.resume("build-42").resume_at == 1


def test_an_interruption_between_two_steps_repeats_none(shelf: Shelf) -> None:
    with suppress(KeyboardInterrupt), shelf.open(StepsRun) as run:
        with run.step("lint"):
            pass
        raise KeyboardInterrupt

    assert shelf.progress["state"] == {"kind": "interrupted", "step_index": 0, "in_progress": False}
    assert shelf.resume("build-42").resume_at == 1


def test_an_interruption_after_a_failure_does_not_hide_it(shelf: Shelf) -> None:
    with suppress(KeyboardInterrupt), shelf.open(StepsRun) as run:
        with suppress(Unrepeatable), run.step("lint"):
            raise Unrepeatable
        raise KeyboardInterrupt

    assert shelf.newest["status"] == "interrupted"
    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.retry_current) == (0, False)


def test_an_interruption_before_the_first_step_skips_none(shelf: Shelf) -> None:
    with suppress(KeyboardInterrupt), shelf.open(StepsRun):
        raise KeyboardInterrupt

    assert shelf.resume("build-42").resume_at == 0


def test_a_resumed_run_knows_its_steps_and_its_variables(shelf: Shelf) -> None:
    first = shelf.open(StepsRun)
    with first.step("lint") as step:
        step.capture(version="1.2")
    with suppress(Outage), first.step("test"):
        raise Outage

    with shelf.open(StepsRun) as run:
        run.resume()
        assert run.variables == {"version": "1.2"}
        assert run.remaining(["lint", "test", "build"]) == ["test", "build"]
        for name in run.remaining(["lint", "test", "build"]):
            with run.step(name):
                pass

    records = shelf.progress["completed_steps"]
    assert [(each["step_index"], each["command"]) for each in records] == [
        (0, "lint"),
        (1, "test"),
        (2, "build"),
    ]
    assert not shelf.resume("build-42").resumable


def test_a_resumed_run_keeps_its_workflow(shelf: Shelf) -> None:
    shelf.open(StepsRun, workflow="ci.yml").checkpoint()

    run = shelf.open(StepsRun)
    run.resume()
    run.checkpoint()

    assert (shelf.newest["workflow"], shelf.progress["workflow_path"]) == ("ci.yml", "ci.yml")


def test_steps_that_are_named_at_the_start_say_what_remains(shelf: Shelf) -> None:
    run = shelf.open(StepsRun, work=["lint", "test", "build"])
    with run.step("test"):
        pass

    assert run.remaining() == ["lint", "build"]
    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.completed, plan.remaining) == (0, [1], [0, 2])


def test_completed_steps_are_known_by_name_in_a_workflow_that_has_changed(shelf: Shelf) -> None:
    first = shelf.open(StepsRun, work=["lint", "test"])
    with first.step("lint"):
        pass

    run = shelf.open(StepsRun, work=["fetch", "test", "lint"])
    run.resume()

    assert run.remaining() == ["fetch", "test"]
    run.checkpoint()
    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.completed) == (0, [2])


def test_a_completed_step_that_is_run_again_is_not_completed_meanwhile(shelf: Shelf) -> None:
    run = shelf.open(StepsRun)
    with run.step("lint"):
        pass
    with suppress(Outage), run.step("lint"):
        raise Outage

    assert not run.is_done("lint")
    assert shelf.progress["completed_steps"] == []


def test_each_iteration_runs_all_steps_and_keeps_the_variables(shelf: Shelf) -> None:
    run = shelf.open(StepsRun, workflow_type={"kind": "iterative", "max_iterations": 3})
    run.iteration(1)
    with run.step("improve") as step:
        step.capture(score=0.5)
    run.iteration(2)

    assert shelf.triggers[-1] == Trigger.ITERATION
    assert shelf.progress["workflow_type"] == {
        "kind": "iterative",
        "max_iterations": 3,
        "current_iteration": 2,
    }
    again = shelf.open(StepsRun)
    again.resume()
    assert (again.current_iteration, again.variables) == (2, {"score": 0.5})
    assert again.remaining(["improve"]) == ["improve"]


def test_the_state_of_a_map_reduce_workflow_is_saved_and_restored(shelf: Shelf) -> None:
    run = shelf.open(StepsRun, workflow_type={"kind": "mapreduce", "job_id": "job-1"})
    run.mapreduce_state = {"mapped": ["a"]}
    run.checkpoint()

    again = shelf.open(StepsRun)
    again.resume()
    assert again.mapreduce_state == {"mapped": ["a"]}
    assert again.progress["workflow_type"]["job_id"] == "job-1"


def test_what_was_captured_does_not_change_with_the_object_it_came_from(shelf: Shelf) -> None:
    names = ["a"]
    run = shelf.open(StepsRun)
    with run.step("list") as step:
        step.capture(names=names)
        step.output = names
    names.append("b")
    run.checkpoint()

    assert shelf.progress["variables"] == {"names": ["a"]}
    assert shelf.progress["completed_steps"][0]["output"] == ["a"]


def test_a_step_with_a_very_long_name_is_saved_under_it(shelf: Shelf) -> None:
    command = "echo " + "x" * 1000
    with shelf.open(StepsRun) as run, run.step(command):
        pass

    assert shelf.progress["completed_steps"][0]["command"] == command
    assert shelf.saved[0]["phase"] == command[:256]
