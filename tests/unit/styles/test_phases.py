from typing import Any

import pytest

from holdfast.styles.phases import parse_ordinal, plan
from holdfast.styles.style import ResumePoint, Today
from tests.fakes.saved import saved

NAMED = ["phase_0_idea", "phase_0_5_check", "phase_1_plan", "phase_2_build"]


def plan_of(**fields: Any) -> ResumePoint:
    return plan(saved(**fields), Today())


@pytest.mark.parametrize(
    ("phase", "following"),
    [
        ("phase_0", "phase_0_5"),
        ("phase_0_idea", "phase_0_5"),
        ("phase_0_5_check", "phase_1"),
        ("phase_2_build", "phase_3"),
        ("phase_7", "phase_8"),
        ("phase_8_launch", "complete"),
    ],
)
def test_completed_phase_is_followed_by_the_next_of_the_specification(phase: str, following: str) -> None:
    point = plan_of(trigger="phase_complete", phase=phase)

    assert point.resume_at == following
    assert not point.retry_current
    assert point.completed == (phase,)
    assert point.flaws == ()


def test_next_phase_has_the_name_that_the_run_gives_it() -> None:
    by_list = plan_of(trigger="phase_complete", phase="phase_1_plan", phases=NAMED)
    by_outputs = plan_of(
        trigger="phase_complete",
        phase="phase_2_build",
        state={"phase_outputs": {"phase_2": {}, "phase_3_design": None}},
    )

    assert by_list.resume_at == "phase_2_build"
    assert by_outputs.resume_at == "phase_3_design"


def test_listed_phases_need_no_numbers_and_end_where_the_list_ends() -> None:
    names = ["plan", "build", "ship"]

    assert plan_of(trigger="phase_complete", phase="plan", phases=names).resume_at == "build"
    assert plan_of(trigger="phase_complete", phase="ship", phases=names).resume_at == "complete"
    assert plan_of(trigger="phase_complete", phase="ship", phases=names).remaining == ()
    assert plan_of(trigger="phase_complete", phase="plan", phases=names).remaining == ("build", "ship")


def test_gate_decision_resumes_at_the_gate() -> None:
    point = plan_of(trigger="gate_decision", phase="phase_1_plan", phases=NAMED)

    assert point.resume_at == "phase_1_plan_gate"
    assert point.remaining == ("phase_2_build",)
    assert not point.retry_current


def test_a_tripped_breaker_leaves_the_phase_to_be_done() -> None:
    point = plan_of(trigger="circuit_breaker", phase="phase_1_plan", phases=NAMED)

    assert point.remaining == ("phase_1_plan", "phase_2_build")


@pytest.mark.parametrize(
    "trigger",
    ["escalation", "iteration", "cost_threshold", "expensive_op", "destructive_op", "manual", "error"],
)
def test_anything_else_resumes_at_the_phase_itself(trigger: str) -> None:
    point = plan_of(trigger=trigger, phase="phase_1_plan", phases=NAMED)

    assert point.resume_at == "phase_1_plan"
    assert point.retry_current
    assert point.remaining == ("phase_1_plan", "phase_2_build")


def test_completed_are_the_phases_with_outputs_in_their_order() -> None:
    outputs: dict[str, Any] = {"phase_1": {"x": 1}, "phase_0": {}, "phase_2": None, "phase_0_5": []}
    point = plan_of(phase="phase_2_build", state={"phase_outputs": outputs})

    assert point.completed == ("phase_0", "phase_0_5", "phase_1")


def test_completed_phase_is_counted_once_under_either_name() -> None:
    point = plan_of(trigger="phase_complete", phase="phase_1_plan", state={"phase_outputs": {"phase_1": 1}})

    assert point.completed == ("phase_1",)


def test_later_phase_that_has_an_output_does_not_remain() -> None:
    state = {"phase_outputs": {"phase_0": 1, "phase_1": 1, "phase_4": 1}}
    point = plan_of(trigger="phase_complete", phase="phase_1", state=state)

    assert point.remaining == ("phase_2", "phase_3", "phase_5", "phase_6", "phase_7", "phase_8")


def test_completed_run_is_complete_whatever_its_trigger() -> None:
    point = plan_of(trigger="manual", status="completed", phase="phase_1")

    assert (point.resume_at, point.remaining) == ("complete", ())


@pytest.mark.parametrize("phases", ["plan", [1, 2], ["a", "a"], {"a": 1}])
def test_list_of_phases_that_is_none_is_told_and_not_used(phases: Any) -> None:
    point = plan_of(trigger="phase_complete", phase="phase_1_plan", phases=phases)

    assert point.resume_at == "phase_2"
    assert "progress.phases" in point.flaws[0]


def test_nothing_is_made_up_after_a_phase_without_a_place() -> None:
    point = plan_of(trigger="phase_complete", phase="build")

    assert (point.resume_at, point.remaining) == (None, None)
    assert "nothing says which comes next" in point.flaws[0]


@pytest.mark.parametrize(
    ("phase", "resume_at"), [("phase_2_5_extra", "phase_3"), ("phase_9_more", "complete")]
)
def test_phase_with_a_number_of_its_own_is_followed_by_the_next_known(phase: str, resume_at: str) -> None:
    point = plan_of(trigger="phase_complete", phase=phase)

    assert point.resume_at == resume_at
    assert "not one of the phases 0 to 8" in point.flaws[0]


def test_stranger_to_the_list_is_followed_by_the_first_without_output() -> None:
    point = plan_of(
        trigger="phase_complete",
        phase="ad hoc",
        phases=["plan", "build"],
        state={"phase_outputs": {"plan": 1}},
    )

    assert point.resume_at == "build"
    assert "progress.phases" in point.flaws[0]


def test_outputs_that_are_no_object_are_told() -> None:
    point = plan_of(phase="phase_1", state={"phase_outputs": [1]})

    assert point.completed == ()
    assert "phase_outputs" in point.flaws[0]


@pytest.mark.parametrize("name", ["phase_x", "build", "phase_", "phase_1x", "PHASE_1"])
def test_name_without_a_number_has_no_ordinal(name: str) -> None:
    assert parse_ordinal(name) is None
