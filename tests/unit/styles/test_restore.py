"""Checkpoints that others have made, or made badly, are taken up as far as they tell something."""

from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.styles.progress import agents, layers, steps, tasks

Document = dict[str, Any]


def record(index: int, command: str | None = None) -> Document:
    return {"step_index": index} if command is None else {"step_index": index, "command": command}


def test_steps_are_known_by_the_commands_of_those_that_are_completed() -> None:
    stored = {"style": "steps", "completed_steps": [record(0, "fetch"), record(2, "test")]}

    progress = steps.restore(stored, steps.new_progress())

    assert steps.is_done(progress, "fetch")
    assert steps.is_done(progress, "test")
    assert steps.place(progress, "lint")[1] == 1
    assert steps.place(steps.place(progress, "lint")[0], "build")[1] == 3


def test_a_completed_step_without_a_name_keeps_its_place() -> None:
    stored = {"completed_steps": [record(0)], "state": {"kind": "completed", "step_index": 1}}

    progress = steps.restore(stored, steps.new_progress())

    assert steps.place(progress, "build")[1] == 2


def test_a_step_that_only_the_state_calls_completed_is_completed() -> None:
    stored = {"completed_steps": [], "state": {"kind": "completed", "step_index": 0, "output": "ok"}}

    progress = steps.restore(stored, steps.new_progress(["lint", "test"]))

    assert [steps.is_done(progress, name) for name in ("lint", "test")] == [True, False]


def test_steps_that_others_listed_are_known() -> None:
    stored = {"steps": ["lint", "test"], "completed_steps": [record(1, "test")]}

    progress = steps.restore(stored, steps.new_progress())

    assert [steps.is_done(progress, name) for name in ("lint", "test")] == [False, True]


def test_a_completed_step_that_is_no_longer_in_the_workflow_hides_no_other() -> None:
    stored = {"known_steps": ["old", "lint"], "completed_steps": [record(0, "old")]}

    progress = steps.restore(stored, steps.new_progress(["lint", "test"]))

    assert progress["known_steps"] == ["lint", "test", "old"]
    assert [steps.is_done(progress, name) for name in ("lint", "test", "old")] == [False, False, True]
    assert progress["state"] == {"kind": "before_step", "step_index": 0}


def test_what_is_no_record_of_a_step_is_left_out() -> None:
    stored = {"completed_steps": ["lint", {"step_index": -1}, {"step_index": True}], "failed_steps": [None]}

    progress = steps.restore(stored, steps.new_progress())

    assert (progress["completed_steps"], progress["failed_steps"]) == ([], [])


def test_a_workflow_that_has_grown_keeps_the_state_of_the_step_that_failed() -> None:
    failure = {"kind": "failed", "step_index": 1, "error": "E", "retryable": True}
    stored = {"known_steps": ["lint", "test"], "completed_steps": [record(0, "lint")], "state": failure}

    progress = steps.restore(stored, steps.new_progress(["lint", "test", "build"]))

    assert progress["state"] == failure
    assert (progress["known_steps"], progress["total_steps"]) == (["lint", "test", "build"], 3)


def test_a_step_that_was_not_announced_counts_to_the_total() -> None:
    progress, index = steps.place(steps.new_progress(["lint"]), "surprise")

    assert (index, progress["total_steps"]) == (1, 2)


def test_tasks_keep_what_they_say_and_new_ones_are_pending() -> None:
    stored = {"tasks": {"a": {"status": "completed"}}, "metadata": {"k": "v"}}

    progress = tasks.restore(stored, tasks.new_progress(["a", "b"]))

    assert [tasks.is_done(progress, name) for name in ("a", "b")] == [True, False]
    assert progress["metadata"] == {"k": "v"}


@pytest.mark.parametrize("index", [None, -1, "2", 1.5])
def test_a_layer_that_is_no_number_is_the_first(index: object) -> None:
    progress = layers.restore({"layer_index": index}, layers.new_progress())

    assert progress["layer_index"] == 0


def test_a_phase_that_is_no_number_is_the_first() -> None:
    assert agents.restore({"phase": "two"}, agents.new_progress())["phase"] == 0


def test_an_agent_without_a_phase_belongs_to_the_present_one() -> None:
    stored = {"phase": 2, "agents": {"atlas": {"status": "completed"}, "mercury": "?"}}

    progress = agents.restore(stored, agents.new_progress())

    assert [agents.is_agent_done(progress, name) for name in ("atlas", "mercury")] == [True, False]


@pytest.mark.parametrize(
    "stored", [{"completed_steps": "all"}, {"variables": [1]}, {"state": "done"}, {"workflow_type": 3}]
)
def test_a_progress_of_another_shape_is_refused(stored: Document) -> None:
    with pytest.raises(InvalidCheckpoint, match="is expected"):
        steps.restore(stored, steps.new_progress())


def test_nothing_that_is_given_is_altered() -> None:
    first = steps.new_progress(["lint", "test"])
    begun = steps.begin(first, 0)
    done = steps.complete(begun, 0, steps.StepResult(None, {"v": 1}, 0.5, "now"))
    steps.fail(steps.begin(done, 1), 1, error="E", is_retryable=True)
    steps.interrupt(done)

    assert first == steps.new_progress(["lint", "test"])
    assert begun["completed_steps"] == []
    assert (done["steps_in_progress"], done["failed_steps"]) == ([], [])
