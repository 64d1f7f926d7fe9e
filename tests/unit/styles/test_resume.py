import json
from typing import Any

import orjson
import pytest

from holdfast.styles.resume import ResumePlan, find_flaws, plan_resume, style_of_text, tell_redacted
from tests.fakes.saved import stamped


def plan_of(state: Any, **header: Any) -> ResumePlan:
    return plan_resume(stamped(state, **header))


def test_plan_has_the_fields_of_the_contract_in_their_order() -> None:
    plan = plan_of({"cost_accumulated": 4.5}, phase="phase_1_plan", trigger="phase_complete")

    assert list(json.loads(plan.to_bytes())) == [
        "run_id",
        "checkpoint_id",
        "sequence_number",
        "source",
        "status",
        "resumable",
        "resume_at",
        "completed",
        "remaining",
        "retry_current",
        "state",
        "cost_accumulated",
        "warnings",
        "phase",
        "trigger",
        "saved_at",
        "age_s",
        "context_fields",
        "needs_review",
        "review",
    ]
    assert json.loads(plan.to_bytes()) == plan.to_mapping()


def test_state_and_cost_are_written_as_they_were_stored() -> None:
    text = (
        b'{"cost_accumulated":12.50,"big":123456789012345678901234567890,"small":1E-400,"deep":[{"x":1.0}]}'
    )
    envelope = stamped({"placeholder": 1})
    content = envelope.content.replace(b'{"placeholder":1}', text)

    plan = plan_resume(type(envelope)(envelope.header, content))

    assert b'"state":' + text in plan.to_bytes()
    assert b'"cost_accumulated":12.50,"warnings"' in plan.to_bytes()
    assert "Cost so far: $12.50" in plan.message


@pytest.mark.parametrize(
    "progress",
    [
        {"style": "phases"},
        {"style": "tasks", "tasks": {"a": {"status": "failed"}}},
        {"style": "steps", "state": {"kind": "before_step", "step_index": 0}},
    ],
    ids=lambda progress: progress["style"],
)
def test_completed_run_repeats_nothing(progress: dict[str, Any]) -> None:
    envelope = stamped({"progress": progress}, status="completed", phase="complete")

    assert not plan_resume(envelope).retry_current


def test_a_phase_cannot_begin_a_line_of_the_message() -> None:
    plan = plan_of({"phase_outputs": {"a\u2028::error::": 1}}, phase="p\n::error::forged", trigger="manual")

    assert len(plan.message.splitlines()) == 4
    assert "p\\n::error::forged" in plan.message


def test_message_is_the_specifications() -> None:
    plan = plan_of(
        {"cost_accumulated": 3, "phase_outputs": {"phase_0": 1, "phase_1": 2}},
        phase="phase_1_plan",
        trigger="phase_complete",
    )

    assert plan.message == (
        f"RESUME: Continuing run r from checkpoint {plan.checkpoint_id}\n"
        "Resume point: phase_2\n"
        "Phases completed: phase_0, phase_1\n"
        "Cost so far: $3"
    )


def test_message_calls_the_parts_of_a_run_as_its_style_does() -> None:
    tasks = {"style": "tasks", "tasks": {"lint": {"status": "completed"}, "test": {"status": "pending"}}}

    assert "Tasks completed: lint\n" in plan_resume(stamped({"progress": tasks})).message
    assert "Resume point: unspecified (the checkpoint names no phase)\n" in plan_resume(stamped({})).message


def test_message_of_a_completed_run_speaks_of_no_going_on() -> None:
    plan = plan_resume(stamped({}, status="completed", phase="complete"))

    assert plan.message.startswith("RESUME: Nothing to continue in completed run r from checkpoint ")


def test_message_does_not_make_up_what_is_not_known() -> None:
    plan = plan_of(17, phase="build", trigger="phase_complete")

    assert "Resume point: not known" in plan.message
    assert "Cost so far: not recorded" in plan.message
    assert plan.state == 17
    assert plan.cost_accumulated is None


@pytest.mark.parametrize(
    ("status", "resumable"),
    [("in_progress", True), ("failed", True), ("interrupted", True), ("completed", False)],
)
def test_all_but_completed_can_be_resumed(status: str, resumable: bool) -> None:
    assert plan_of({}, status=status).resumable is resumable


def test_style_that_is_not_known_gives_the_state_and_no_place() -> None:
    plan = plan_of({"progress": {"style": "waves"}, "x": 1})

    assert (plan.resume_at, plan.remaining, plan.state["x"]) == (None, None, 1)
    assert "'waves'" in plan.warnings[0]


@pytest.mark.parametrize("style", [3, None, ["steps"]])
def test_style_that_is_no_name_is_a_warning(style: Any) -> None:
    assert plan_of({"progress": {"style": style}}).warnings


def test_warnings_of_the_loading_come_first_and_none_twice() -> None:
    plan = plan_resume(stamped({"progress": {"style": "waves"}}), warnings=["latest.json: damaged"] * 2)

    assert plan.warnings[0] == "latest.json: damaged"
    assert len(plan.warnings) == 2


@pytest.mark.parametrize(
    ("active", "is_warned"),
    [
        (None, False),
        ([{"id": 1, "text": "a"}, "b"], False),
        (["b", {"text": "a", "id": 1}], False),
        (["b"], True),
        ([{"id": 1, "text": "a"}, "b", "c"], True),
        ([], True),
    ],
)
def test_changed_lessons_are_a_warning_whatever_their_order(active: Any, is_warned: bool) -> None:
    envelope = stamped({"active_lessons": [{"id": 1, "text": "a"}, "b"]})

    warnings = plan_resume(envelope, active_lessons=active).warnings

    assert any("lessons" in warning for warning in warnings) is is_warned


def test_flaws_are_those_of_the_progress_alone() -> None:
    assert find_flaws(stamped({"progress": {"style": "tasks"}}))
    assert find_flaws(stamped({"progress": {"style": "tasks", "tasks": {}}})) == []


@pytest.mark.slow
@pytest.mark.parametrize("output", ["", "x" * 3_000_000])
@pytest.mark.parametrize(
    ("state", "style"),
    [
        ({"progress": {"style": "layers"}}, "layers"),
        ({"progress": {"style": "layers"}, "other": 1}, "layers"),
        ({}, "phases"),
        ([], "phases"),
    ],
)
def test_style_of_a_stored_text_is_the_same_however_large_its_state_is(
    state: Any, style: str, output: str
) -> None:
    state = {**state, "output": output} if isinstance(state, dict) else [*state, output]
    assert style_of_text(orjson.dumps({"run_id": "r", "state_snapshot": state})) == style
    assert style_of_text(orjson.dumps({"run_id": output, "state_snapshot": state})) == style


def test_each_place_where_a_credential_was_taken_out_is_told_with_its_kind() -> None:
    places = [
        {"path": "/state_snapshot/a", "kind": "jwt"},
        {"path": "/context_fields/b", "kind": "npm-token"},
    ]
    assert tell_redacted(stamped({}, redacted=places)) == [
        "/state_snapshot/a: a credential (jwt) was taken out here; give it anew",
        "/context_fields/b: a credential (npm-token) was taken out here; give it anew",
    ]


def test_nothing_is_told_where_no_credential_was_taken_out() -> None:
    assert tell_redacted(stamped({"a": "redacted"})) == []
    assert tell_redacted(stamped({}, redacted="a field of another program")) == []
