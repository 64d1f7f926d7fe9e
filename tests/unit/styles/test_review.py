from typing import Any

import pytest

from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index
from holdfast.format.review import Review, parse_held
from holdfast.format.stored_file import entry_of
from holdfast.styles.resume import ResumePlan, plan_resume
from holdfast.styles.review import Past, carry_review, failed_gate, is_waiting, lost_review, open_breaker
from tests.fakes.saved import stamped

PROGRESS: dict[str, Any] = {
    "phases": {"style": "phases"},
    "layers": {"style": "layers", "layer_index": 1, "dag_structure": {"layers": [["a"], ["b"]]}, "tasks": []},
    "agents": {"style": "agents", "phase": 2, "agents": {"planner": {"status": "active"}}},
    "tasks": {"style": "tasks", "tasks": {"lint": {"status": "pending"}}},
    "steps": {"style": "steps", "state": {"kind": "before_step", "step_index": 3}, "completed_steps": []},
}
BREAKER = {"circuit_breaker_state": {"status": "open", "reason": "5 errors"}}


def past_of(*envelopes: Envelope, review: Review | None = None) -> Past:
    entries = [entry_of(envelope, f"cp_{envelope.sequence}") for envelope in envelopes]
    by_id = {envelope.checkpoint_id: envelope for envelope in envelopes}
    return Past(entries, review, lambda entry: by_id[entry.checkpoint_id])


def plan_of(*envelopes: Envelope, review: Review | None = None) -> ResumePlan:
    return plan_resume(envelopes[-1], past=past_of(*envelopes, review=review))


@pytest.mark.parametrize("style", PROGRESS)
@pytest.mark.parametrize(
    ("trigger", "state", "kind", "reason"),
    [
        ("circuit_breaker", {}, "circuit_breaker", "the circuit breaker tripped"),
        ("circuit_breaker", BREAKER, "circuit_breaker", "5 errors"),
        ("escalation", {"escalation": {"reason": "unsure"}}, "escalation", "unsure"),
    ],
)
@pytest.mark.parametrize("after", ["error", "interrupted", "manual", "interval"])
def test_a_run_of_any_style_waits_until_a_review(
    style: str, trigger: str, state: dict[str, Any], kind: str, reason: str, after: str
) -> None:
    progress = {"progress": PROGRESS[style]}
    opener = stamped({**progress, **state}, trigger=trigger, phase="phase_2", sequence=1)
    later = stamped(progress, trigger=after, sequence=2)

    plan = plan_of(opener, later)

    assert (plan.resume_at, plan.needs_review, plan.retry_current) == ("human_review", True, False)
    assert plan.resumable
    assert plan.review == Review(kind, reason, "phase_2", opener.header.timestamp, opener.checkpoint_id)  # type: ignore[arg-type]
    assert f"because {reason}, until a review decides" in plan.warnings[0]


@pytest.mark.parametrize("style", PROGRESS)
def test_a_failed_gate_holds_a_run_of_any_style(style: str) -> None:
    state = {"progress": PROGRESS[style], "gate_history": [{"gate_id": "phase_2", "decision": "fail"}]}
    gate = stamped(state, trigger="gate_decision", phase="phase_2", sequence=1)
    later = stamped({"progress": PROGRESS[style]}, trigger="error", phase="phase_3", sequence=2)

    plan = plan_of(gate, later)

    assert (plan.resume_at, plan.review and plan.review.kind) == ("phase_2_gate", "gate")


def test_a_review_closes_what_came_before_it() -> None:
    opener = stamped(BREAKER, trigger="circuit_breaker", sequence=1)
    review = stamped({}, trigger="review", sequence=2, context_fields={"review": {"decision": "continue"}})
    later = stamped({}, trigger="error", phase="phase_2", sequence=3)

    assert not plan_of(opener, review).needs_review
    assert plan_of(opener, review, later).resume_at == "phase_2"


def test_a_breaker_that_trips_again_needs_another_review() -> None:
    review = stamped({}, trigger="review", sequence=2)
    again = stamped(BREAKER, trigger="manual", sequence=3)

    assert plan_of(review, again).needs_review


def test_the_index_tells_of_a_checkpoint_that_is_no_longer_listed() -> None:
    stored = Review("circuit_breaker", "5 errors", "phase_2", "2026-11-16T10:00:00Z", "gone")
    newest = stamped({}, trigger="error", sequence=150)

    assert plan_of(newest, review=stored).review == stored


def test_a_rollback_is_no_review() -> None:
    opener = stamped(BREAKER, trigger="circuit_breaker", sequence=1)
    rollback = stamped({}, trigger="rollback", sequence=2, context_fields={"rollback": {"trigger": "manual"}})

    assert plan_of(opener, rollback).needs_review


def test_a_completed_run_waits_for_nothing() -> None:
    opener = stamped(BREAKER, trigger="circuit_breaker", sequence=1)
    done = stamped(BREAKER, trigger="run_complete", status="completed", sequence=2)

    assert not plan_of(opener, done).needs_review


@pytest.mark.parametrize(
    ("breakers", "reason"),
    [
        ({"status": "OPEN"}, "the circuit breaker is open"),
        ({"state": "open", "reason": "x"}, "x"),
        ({"cost": {"state": "open"}}, "the circuit breaker cost is open"),
        ({"cost": "open"}, "the circuit breaker cost is open"),
        ({"status": "closed", "cost": {"status": "half_open"}}, None),
        (None, None),
        ("open", None),
    ],
)
def test_an_open_breaker_is_known_in_every_usual_form(breakers: Any, reason: str | None) -> None:
    assert open_breaker({"circuit_breaker_state": breakers}) == reason


@pytest.mark.parametrize(
    ("decisions", "is_failed"),
    [
        ([("g", "fail")], True),
        ([("g", "No-Go")], True),
        ([("g", "fail"), ("g", "pass")], False),
        ([("g", "fail"), ("h", "pass")], True),
        ([("g", "iterate")], False),
        ([("g", None)], False),
    ],
)
def test_the_last_decision_of_each_gate_counts(decisions: list[tuple[str, Any]], is_failed: bool) -> None:
    history = [{"gate_id": gate, "decision": decision} for gate, decision in decisions]

    assert (failed_gate({"gate_history": history}) is not None) == is_failed


def test_a_gate_is_named_by_the_phase_that_it_stands_after() -> None:
    state = {
        "phase_outputs": {"phase_2_build": {}},
        "gate_history": [{"gate_id": "gate_2", "decision": "fail"}],
    }
    newest = stamped(state, trigger="error", phase="phase_3")

    assert plan_of(newest).resume_at == "phase_2_build_gate"


def test_the_writer_carries_on_and_closes_what_the_index_says() -> None:
    opener = stamped(BREAKER, trigger="circuit_breaker", sequence=1)
    bare = stamped({}, trigger="error", sequence=2)
    gate = stamped({"gate_history": [{"gate_id": "g", "decision": "fail"}]}, trigger="manual", sequence=3)
    review = stamped({}, trigger="review", sequence=4)

    first = carry_review(None, [bare, opener])

    assert first
    assert first.checkpoint_id == opener.checkpoint_id
    assert carry_review(first, [gate]) == first
    assert carry_review(first, [review]) is None
    closed = carry_review(None, [review, gate])
    assert closed is None


def test_an_index_that_does_not_say_it_tells_by_its_triggers() -> None:
    envelopes = [
        stamped({}, trigger=trigger, sequence=n) for n, trigger in enumerate(("escalation", "error"), 1)
    ]
    entries = [entry_of(envelope, "x") for envelope in envelopes]
    index = Index("r").with_entries(entries, workflow=None, now="")
    reviewed = index.with_entries(
        [entry_of(stamped({}, trigger="review", sequence=3), "x")], workflow=None, now=""
    )

    assert is_waiting(index)
    assert not is_waiting(reviewed)


def test_a_review_keeps_the_agents_that_it_names() -> None:
    header = stamped({}, trigger="error").header
    lost = lost_review(["m", "n"], header)

    assert lost.to_mapping()["agents"] == ["m", "n"]
    assert lost.reason == "m, n failed too often"
    assert parse_held(lost.to_mapping()) == lost
    assert "agents" not in Review("gate", "no", "p", "", "x").to_mapping()


@pytest.mark.parametrize("agents", [None, "m", {"m": 1}, [1, None]])
def test_agents_of_a_review_that_make_no_sense_are_none(agents: Any) -> None:
    held = parse_held({"kind": "escalation", "agents": agents})

    assert isinstance(held, Review)
    assert held.agents == ()


@pytest.mark.parametrize("value", [None, [], {}, {"kind": "mood"}, {"kind": ["gate"]}])
def test_a_review_that_makes_no_sense_is_none(value: Any) -> None:
    assert parse_held(value) is None
