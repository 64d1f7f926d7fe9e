from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.styles import steps
from holdfast.styles.steps import plan
from holdfast.styles.style import ResumePoint, Today
from tests.fakes.saved import saved


def plan_of(
    state: Any, completed: Any = (0, 1, 2), *, status: str = "in_progress", **progress: Any
) -> ResumePoint:
    records = [{"step_index": index} for index in completed]
    return plan(
        saved("steps", {"state": state, "completed_steps": records, **progress}, status=status), Today()
    )


@pytest.mark.parametrize(
    ("state", "start", "is_repeated"),
    [
        ({"kind": "before_step", "step_index": 3}, 3, True),
        ({"kind": "completed", "step_index": 2, "output": "x"}, 3, False),
        ({"kind": "failed", "step_index": 3, "error": "500", "retryable": True}, 3, True),
        ({"kind": "failed", "step_index": 3, "error": "500", "retryable": False}, 3, False),
        ({"kind": "interrupted", "step_index": 3, "in_progress": True}, 3, True),
        ({"kind": "interrupted", "step_index": 2, "in_progress": False}, 3, False),
    ],
    ids=lambda value: value["kind"] if isinstance(value, dict) else str(value),
)
def test_each_state_says_where_to_start_and_whether_to_repeat(
    state: dict[str, Any], start: int, is_repeated: bool
) -> None:
    point = plan_of(state)

    assert point.resume_at == start
    assert point.retry_current is is_repeated
    assert point.completed == (0, 1, 2)
    assert point.flaws == ()


def test_step_that_failed_for_good_is_not_skipped_but_a_person_is_told() -> None:
    point = plan_of(
        {"kind": "failed", "step_index": 3, "error": "bad key", "retryable": False}, total_steps=5
    )

    assert point.remaining == (3, 4)
    (warning,) = point.warnings
    assert "step 3 failed" in warning
    assert "bad key" in warning


def test_interrupted_step_is_repeated_unless_it_was_surely_not_under_way() -> None:
    point = plan_of({"kind": "interrupted", "step_index": 3})

    assert (point.resume_at, point.retry_current) == (3, True)


def test_completed_step_counts_even_without_its_record() -> None:
    assert plan_of({"kind": "completed", "step_index": 3}).completed == (0, 1, 2, 3)


def test_what_remains_is_known_when_the_number_of_steps_is() -> None:
    state = {"kind": "before_step", "step_index": 3}

    assert plan_of(state).remaining is None
    assert plan_of(state, total_steps=5).remaining == (3, 4)
    assert plan_of(state, steps=["a", "b", "c", "d"]).remaining == (3,)
    assert plan_of(state, completed=(0, 1, 2, 4), total_steps=6).remaining == (3, 5)


def test_list_of_steps_that_ends_before_the_start_does_not_say_that_nothing_remains() -> None:
    state = {"kind": "completed", "step_index": 2}

    assert plan_of(state, steps=["a", "b", "c"]).remaining is None
    assert plan_of(state, steps=["a", "b", "c"], status="completed").remaining == ()


def test_iteration_repeats_what_was_completed_in_the_one_before() -> None:
    point = plan_of(
        {"kind": "before_step", "step_index": 1},
        completed=(0, 1, 2),
        total_steps=3,
        workflow_type={"kind": "iterative", "current_iteration": 2},
    )

    assert point.remaining == (1, 2)
    assert point.flaws == ()


@pytest.mark.parametrize(
    "state",
    [
        None,
        "before_step",
        {"kind": "paused", "step_index": 1},
        {"kind": "completed"},
        {"kind": "failed", "step_index": -1},
    ],
)
def test_state_that_names_no_step_is_told_and_the_first_open_step_is_taken(state: Any) -> None:
    point = plan_of(state, completed=(0, 1, 4))

    assert point.resume_at == 2
    assert "step 2" in point.flaws[0]


def test_gap_in_the_completed_steps_is_told() -> None:
    point = plan_of({"kind": "before_step", "step_index": 3}, completed=(0, 2))

    assert point.resume_at == 3
    assert "not completed: 1" in point.flaws[0]


def test_step_that_the_run_gave_up_is_no_gap() -> None:
    state = {"kind": "before_step", "step_index": 3}
    failed = [{"step_index": 1, "retryable": False, "error": "x"}]

    assert plan_of(state, completed=(0, 2), failed_steps=failed).flaws == ()


def test_step_that_is_to_run_although_it_is_completed_is_told() -> None:
    assert "step 2" in plan_of({"kind": "before_step", "step_index": 2}).flaws[0]


def test_records_without_an_index_are_told() -> None:
    point = plan(
        saved(
            "steps",
            {"state": {"kind": "before_step", "step_index": 0}, "completed_steps": [{"command": "x"}]},
        ),
        Today(),
    )

    assert point.completed == ()
    assert "step_index" in point.flaws[0]


def test_hostile_step_number_takes_no_time() -> None:
    point = plan_of({"kind": "before_step", "step_index": 10**15})

    assert point.resume_at == 10**15


def record(index: int, command: str | None = None) -> dict[str, Any]:
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


@pytest.mark.parametrize(
    "stored", [{"completed_steps": "all"}, {"variables": [1]}, {"state": "done"}, {"workflow_type": 3}]
)
def test_a_progress_of_another_shape_is_refused(stored: dict[str, Any]) -> None:
    with pytest.raises(InvalidCheckpoint, match="is expected"):
        steps.restore(stored, steps.new_progress())


def test_nothing_that_is_given_is_altered() -> None:
    first = steps.new_progress(["lint", "test"])
    begun = steps.begin(first, 0)
    done = steps.complete(begun, 0, output=None, captured={"v": 1}, duration_s=0.5, now="now")
    steps.fail(steps.begin(done, 1), 1, error="E", is_retryable=True)
    steps.interrupt(done)

    assert first == steps.new_progress(["lint", "test"])
    assert begun["completed_steps"] == []
    assert (done["steps_in_progress"], done["failed_steps"]) == ([], [])


@pytest.mark.parametrize("order", [(0, 1, 2, 3), (3, 2, 1, 0), (3, 2, 0, 1), (1, 3, 0, 2)])
def test_the_state_points_behind_all_that_is_completed_in_whatever_order(order: tuple[int, ...]) -> None:
    progress = steps.new_progress(workflow_path=None, working_directory=None)
    for name in "abcd":
        progress, index = steps.place(progress, name)
        progress = steps.begin(progress, index)
    for index in order:
        progress = steps.complete(
            progress, index, output=index, captured={}, duration_s=1.0, now="2026-11-18T00:00:00Z"
        )

    assert progress["state"] == {"kind": "completed", "step_index": 3, "output": 3}


def test_an_interruption_skips_no_earlier_step_that_failed() -> None:
    progress = steps.begin(steps.new_progress(["lint", "test", "build"]), 0)
    failed = steps.fail(progress, 0, error="exit code 1", is_retryable=True)

    interrupted = steps.interrupt(steps.begin(failed, 1))

    assert interrupted["state"]["step_index"] == 0
    assert interrupted["steps_in_progress"] == [1]


def test_an_interruption_does_not_wait_for_a_step_that_failed_for_good() -> None:
    progress = steps.begin(steps.new_progress(["lint", "test"]), 0)
    failed = steps.fail(progress, 0, error="exit code 1", is_retryable=False)

    interrupted = steps.interrupt(steps.begin(failed, 1))

    assert interrupted["state"] == {"kind": "interrupted", "step_index": 1, "in_progress": True}
