import json
from typing import Any

import pytest

from holdfast.decisions.review import DECISIONS, ReviewDecision, write_review
from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Envelope, draft_from_text, stamp
from holdfast.format.review import Review
from holdfast.styles.resume import ResumePlan, plan_resume
from holdfast.styles.review import lost_review
from tests.fakes.saved import NOW, stamped


def decide(newest: Envelope, decision: str) -> tuple[dict[str, Any], ResumePlan]:
    review = plan_resume(newest).review
    assert review
    text = write_review(newest, review, ReviewDecision(decision, "note", "ada"))
    envelope = stamp(draft_from_text(text, now=NOW, new_id=lambda: newest.checkpoint_id).body(2))
    return json.loads(envelope.content), plan_resume(envelope)


def test_continue_closes_every_breaker_and_keeps_each_other_byte() -> None:
    breakers = {"status": "open", "reason": "open", "cost": {"state": "open", "limit": 1.5}, "api": "open"}
    state = {"circuit_breaker_state": breakers, "big": 123456789012345678901234567890}
    newest = stamped(state, trigger="circuit_breaker", phase="phase_2_build", context_fields={"warnings": []})

    document, plan = decide(newest, "continue")

    stored = document["state_snapshot"]
    assert stored["big"] == 123456789012345678901234567890
    assert stored["circuit_breaker_state"]["status"] == "closed"
    assert stored["circuit_breaker_state"]["cost"] == {"state": "closed", "limit": 1.5}
    assert stored["circuit_breaker_state"]["api"] == "closed"
    assert document["context_fields"]["warnings"] == []
    assert document["context_fields"]["review"] == {"decision": "continue", "note": "note", "by": "ada"}
    assert document["context_fields"]["reviewed"]["kind"] == "circuit_breaker"
    assert (plan.needs_review, plan.resume_at, plan.resumable) == (False, "phase_2_build", True)


@pytest.mark.parametrize(
    ("decision", "resume_at", "completed", "is_repeated"),
    [
        ("continue", "phase_3", ["phase_1", "phase_2_build"], False),
        ("retry", "phase_2_build", ["phase_1"], True),
    ],
)
def test_a_failed_gate_is_passed_or_its_phase_done_again(
    decision: str, resume_at: str, completed: list[str], is_repeated: bool
) -> None:
    state = {
        "phase_outputs": {"phase_1": {}, "phase_2_build": {}},
        "gate_history": [{"gate_id": "phase_2", "decision": "fail", "score": 0.4, "iteration": 1}],
    }
    newest = stamped(state, trigger="gate_decision", phase="phase_2_build")

    document, plan = decide(newest, decision)

    assert (plan.resume_at, plan.completed, plan.retry_current) == (resume_at, completed, is_repeated)
    added = document["state_snapshot"]["gate_history"][-1]
    assert (added["gate_id"], added["iteration"], added["by"]) == ("phase_2", 2, "ada")


def test_stop_ends_the_run_for_good() -> None:
    newest = stamped({"circuit_breaker_state": {"status": "open"}}, trigger="circuit_breaker")

    document, plan = decide(newest, "stop")

    assert document["state_snapshot"] == {"circuit_breaker_state": {"status": "open"}}
    assert (plan.status, plan.resumable, plan.needs_review) == ("failed", False, False)


def test_retry_repeats_a_phase_that_was_completed_after_its_breaker_had_opened() -> None:
    names = ["phase_1", "phase_2", "phase_3"]
    state = {
        "phase_outputs": {"phase_1": {}, "phase_2": {}},
        "circuit_breaker_state": {"status": "open"},
        "progress": {"phases": names},
    }

    document, plan = decide(stamped(state, trigger="circuit_breaker", phase="phase_2"), "retry")

    assert list(document["state_snapshot"]["phase_outputs"]) == ["phase_1"]
    assert (plan.resume_at, plan.completed, plan.remaining) == ("phase_2", ["phase_1"], names[1:])


def test_retry_repeats_the_place_that_failed() -> None:
    progress = {"style": "steps", "state": {"kind": "before_step", "step_index": 3}, "completed_steps": []}

    _, plan = decide(stamped({"progress": progress}, trigger="escalation"), "retry")

    assert (plan.resume_at, plan.retry_current) == (3, True)


@pytest.mark.parametrize(
    ("phase", "progress", "completed"),
    [
        ("b", {"style": "tasks", "tasks": {name: {"status": "completed"} for name in "abc"}}, ["a", "c"]),
        (
            "b",
            {
                "style": "steps",
                "state": {"kind": "completed", "step_index": 2},
                "completed_steps": [{"step_index": index} for index in range(3)],
                "known_steps": ["a", "b", "c"],
            },
            [0, 2],
        ),
        (
            "layer_1",
            {
                "style": "layers",
                "layer_index": 2,
                "dag_structure": {"layers": [["a"], ["b", "c"], ["d"]]},
                "tasks": [{"task_id": name, "score": 1.0} for name in "abcd"],
            },
            ["a", "d"],
        ),
        (
            "phase_1",
            {
                "style": "agents",
                "phase": 2,
                "agents": {name: {"status": "completed", "phase": n} for n, name in enumerate("abc")},
            },
            ["a", "c"],
        ),
    ],
)
def test_retry_repeats_what_was_completed_after_the_run_began_to_wait(
    phase: str, progress: dict[str, Any], completed: list[Any]
) -> None:
    newest = stamped({"progress": progress}, trigger="circuit_breaker", phase=phase)

    document, plan = decide(newest, "retry")

    assert plan.completed == completed
    assert plan.resume_at == {"layer_1": 1, "phase_1": 1}.get(phase, 1 if 0 in completed else phase)
    assert plan.warnings == []
    again, _ = decide(stamped(document["state_snapshot"], trigger="circuit_breaker", phase=phase), "retry")
    assert again["state_snapshot"] == document["state_snapshot"]


def test_retry_of_a_step_that_ended_out_of_turn_goes_past_no_earlier_one() -> None:
    progress = {
        "style": "steps",
        "state": {"kind": "completed", "step_index": 0},
        "completed_steps": [{"step_index": 3}, {"step_index": 0}],
        "known_steps": ["a", "b", "c", "d"],
        "total_steps": 4,
    }

    _, plan = decide(stamped({"progress": progress}, trigger="circuit_breaker", phase="d"), "retry")

    assert (plan.resume_at, plan.completed, plan.remaining, plan.warnings) == (1, [0], [1, 2, 3], [])


def test_retry_of_a_step_that_only_the_state_calls_completed() -> None:
    state = {"kind": "completed", "step_index": 1}
    progress = {"style": "steps", "state": state, "completed_steps": [], "known_steps": ["a", "b"]}

    _, plan = decide(stamped({"progress": progress}, trigger="circuit_breaker", phase="b"), "retry")

    assert plan.resume_at == 1


@pytest.mark.parametrize(
    ("place", "progress"),
    [
        ("layer_0", {"style": "layers", "layer_index": 1, "tasks": {"a": 1}}),
        ("phase_0", {"style": "agents", "phase": 1, "agents": ["a"]}),
    ],
)
def test_retry_leaves_progress_as_it_is_that_it_does_not_understand(
    place: str, progress: dict[str, Any]
) -> None:
    document, _ = decide(stamped({"progress": progress}, trigger="circuit_breaker", phase=place), "retry")

    assert document["state_snapshot"]["progress"] == progress


@pytest.mark.parametrize("is_past_unread", [True, False])
def test_a_lost_agent_is_settled_also_if_the_run_was_looked_at_while_github_was_away(
    is_past_unread: bool,
) -> None:
    agent = {"status": "failed", "recovery_attempts": 3}
    newest = stamped({"progress": {"style": "agents", "phase": 1, "agents": {"m": agent}}}, trigger="error")
    review = lost_review(["m"], newest.header, is_past_unread=is_past_unread)

    document = json.loads(write_review(newest, review, ReviewDecision("continue")))

    settled = document["state_snapshot"]["progress"]["agents"]["m"]
    assert settled == {"status": "completed", "recovery_attempts": 0}


def test_only_the_agents_that_a_review_names_are_settled() -> None:
    failed = {"status": "failed"}  # how often each was restarted, the checkpoints before tell
    agents = {"m": failed, "n": failed, "done": {"status": "completed"}}
    newest = stamped({"progress": {"style": "agents", "phase": 1, "agents": agents}}, trigger="error")
    review = lost_review(["m", "done", "gone"], newest.header)

    document = json.loads(write_review(newest, review, ReviewDecision("continue")))

    settled = document["state_snapshot"]["progress"]["agents"]
    assert settled == {**agents, "m": {"status": "completed", "recovery_attempts": 0}}
    assert document["context_fields"]["reviewed"]["agents"] == ["m", "done", "gone"]


@pytest.mark.parametrize("number", [1, 2])
def test_a_review_that_was_stored_before_reviews_named_their_agents_is_known_by_its_reason(
    number: int,
) -> None:
    names = ["m", "n"][:number]
    agents = {name: {"status": "failed"} for name in names}
    newest = stamped({"progress": {"style": "agents", "phase": 1, "agents": agents}}, trigger="error")
    reason = f"{', '.join(names)} failed too often"
    stored = Review("escalation", reason, "phase_1", newest.header.timestamp, newest.checkpoint_id)

    document = json.loads(write_review(newest, stored, ReviewDecision("retry")))

    settled = document["state_snapshot"]["progress"]["agents"]
    assert {record["status"] for record in settled.values()} == {"pending"}


@pytest.mark.parametrize("decision", DECISIONS)
def test_a_state_that_is_no_object_is_carried_on(decision: str) -> None:
    document, _ = decide(stamped([1.5], trigger="escalation"), decision)

    assert document["state_snapshot"] == [1.5]


def test_another_decision_is_refused() -> None:
    with pytest.raises(InvalidCheckpoint, match="continue, retry, stop"):
        ReviewDecision("maybe")
