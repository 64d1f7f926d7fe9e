from typing import Any

import pytest

from holdfast.styles.outlook import Outlook, Today
from holdfast.styles.steps import plan
from tests.fakes.saved import saved


def plan_of(
    state: Any, completed: Any = (0, 1, 2), *, status: str = "in_progress", **progress: Any
) -> Outlook:
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
    outlook = plan_of(state)

    assert outlook.resume_at == start
    assert outlook.retry_current is is_repeated
    assert outlook.completed == (0, 1, 2)
    assert outlook.flaws == ()


def test_step_that_failed_for_good_is_not_skipped_but_a_person_is_told() -> None:
    outlook = plan_of(
        {"kind": "failed", "step_index": 3, "error": "bad key", "retryable": False}, total_steps=5
    )

    assert outlook.remaining == (3, 4)
    (warning,) = outlook.warnings
    assert "step 3 failed" in warning
    assert "bad key" in warning


def test_interrupted_step_is_repeated_unless_it_was_surely_not_under_way() -> None:
    outlook = plan_of({"kind": "interrupted", "step_index": 3})

    assert (outlook.resume_at, outlook.retry_current) == (3, True)


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
    outlook = plan_of(
        {"kind": "before_step", "step_index": 1},
        completed=(0, 1, 2),
        total_steps=3,
        workflow_type={"kind": "iterative", "current_iteration": 2},
    )

    assert outlook.remaining == (1, 2)
    assert outlook.flaws == ()


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
    outlook = plan_of(state, completed=(0, 1, 4))

    assert outlook.resume_at == 2
    assert "step 2" in outlook.flaws[0]


def test_gap_in_the_completed_steps_is_told() -> None:
    outlook = plan_of({"kind": "before_step", "step_index": 3}, completed=(0, 2))

    assert outlook.resume_at == 3
    assert "not completed: 1" in outlook.flaws[0]


def test_step_that_the_run_gave_up_is_no_gap() -> None:
    state = {"kind": "before_step", "step_index": 3}
    failed = [{"step_index": 1, "retryable": False, "error": "x"}]

    assert plan_of(state, completed=(0, 2), failed_steps=failed).flaws == ()


def test_step_that_is_to_run_although_it_is_completed_is_told() -> None:
    assert "step 2" in plan_of({"kind": "before_step", "step_index": 2}).flaws[0]


def test_records_without_an_index_are_told() -> None:
    outlook = plan(
        saved(
            "steps",
            {"state": {"kind": "before_step", "step_index": 0}, "completed_steps": [{"command": "x"}]},
        ),
        Today(),
    )

    assert outlook.completed == ()
    assert "step_index" in outlook.flaws[0]


def test_hostile_step_number_takes_no_time() -> None:
    outlook = plan_of({"kind": "before_step", "step_index": 10**15})

    assert outlook.resume_at == 10**15
