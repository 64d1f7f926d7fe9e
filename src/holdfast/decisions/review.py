"""A person's decision on what a run waits for, as the checkpoint that says it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.decisions.carrying import carry_on
from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import UNNAMED_PHASE, RunStatus
from holdfast.format.review import Review
from holdfast.format.triggers import Trigger
from holdfast.jsontext.members import parse_document
from holdfast.jsontext.parse import parse_exact
from holdfast.styles import agents, phases, tasks
from holdfast.styles.known import STYLES
from holdfast.styles.resume import trigger_in_force
from holdfast.styles.review import failed_gate, open_reviewed, reviewed_agents
from holdfast.styles.values import as_mapping, as_sequence

DECISIONS = ("continue", "retry", "stop")


@dataclass(frozen=True, slots=True)
class ReviewDecision:
    """What was decided, by whom, and why."""

    decision: str
    note: str | None = None
    by: str | None = None

    def __post_init__(self) -> None:
        if self.decision not in DECISIONS:
            raise InvalidCheckpoint("decision", f"{self.decision!r} is not one of {', '.join(DECISIONS)}")


def write_review(newest: Envelope, review: Review, decided: ReviewDecision) -> bytes:
    """Return the checkpoint that decides what a run waits for, on top of its newest one.

    `continue` closes every breaker and lets the gates pass, `retry` closes the breakers and has the place
    where the run began to wait, or the phase that a gate failed, done again, `stop` leaves the state as it is
    and ends the run as failed.
    """
    is_stopped = decided.decision == "stop"
    phase, trigger = _place(newest, review, decided)
    header = {
        "run_id": newest.header.run_id,
        "trigger": Trigger.REVIEW,
        "phase": phase,
        "status": RunStatus.FAILED if is_stopped else RunStatus.IN_PROGRESS,
        "workflow": newest.header.workflow,
    }
    context = {
        "review": {"decision": decided.decision, "note": decided.note, "by": decided.by},
        "reviewed": {**review.to_mapping(), "trigger": trigger},
    }
    state = {} if is_stopped else _settled(newest, review, decided)
    return carry_on(newest, header, state=state, context=context)


def _place(newest: Envelope, review: Review, decided: ReviewDecision) -> tuple[str, Trigger]:
    """Return the phase that the run goes on from, and the trigger that says whether that is completed.

    What continues goes on where it had come to meanwhile; what is retried, where it began to wait.
    """
    own = newest.header.phase
    has_come_on = review.kind != "gate" and own not in ("", UNNAMED_PHASE)
    if decided.decision == "continue" and has_come_on:
        return own, trigger_in_force(newest)
    return review.phase or own, Trigger.REVIEW


def _state_of(envelope: Envelope) -> Mapping[str, Any]:
    text = parse_document(envelope.content).members.get("state_snapshot", b"null")
    return as_mapping(parse_exact(text))


def _lost_agents(envelope: Envelope, review: Review) -> list[str]:
    """Return the agents that the run has lost: those that it had gone back for, and that are reviewed now."""
    progress = as_mapping(open_reviewed(envelope).state.get("progress"))
    return list(dict.fromkeys((*agents.lost_agents(progress), *reviewed_agents(review, progress))))


def _settled(newest: Envelope, review: Review, decided: ReviewDecision) -> dict[str, Any]:
    """Return the members of the state that change so that nothing in it waits any more."""
    state = _state_of(newest)
    changed: dict[str, Any] = {}
    if as_mapping(state.get("circuit_breaker_state")):
        changed["circuit_breaker_state"] = _closed(state["circuit_breaker_state"])
    while gate := failed_gate({**state, **changed}):
        changed |= _decide_gate({**state, **changed}, str(gate.get("gate_id")), decided)
    progress = as_mapping(state.get("progress"))
    if tasks.cut_off(progress):
        changed["progress"] = tasks.settle(progress, are_done=decided.decision == "continue")
    if lost := _lost_agents(newest, review):
        changed["progress"] = agents.settle(progress, lost, are_done=decided.decision == "continue")
    if decided.decision == "retry":
        changed |= _undone({**state, **changed}, review.phase)
    return changed


def _undone(state: Mapping[str, Any], place: str) -> dict[str, Any]:
    """Return the members of the state that change so that a place is done again, if it was completed."""
    outputs, progress = as_mapping(state.get("phase_outputs")), as_mapping(state.get("progress"))
    kept = {name: each for name, each in outputs.items() if not _is_same(name, place)}
    style = STYLES.get(str(progress.get("style")))
    again = style.repeat(progress, place) if style else progress
    return {
        **({"phase_outputs": kept} if len(kept) < len(outputs) else {}),
        **({"progress": again} if again is not progress else {}),
    }


def _decide_gate(state: Mapping[str, Any], gate_id: str, decided: ReviewDecision) -> dict[str, Any]:
    word = "pass" if decided.decision == "continue" else "retry"
    history = phases.decide(state, gate_id, decision=word, score=None, iteration=None)["gate_history"]
    entry = {**history[-1], "by": decided.by or "review", "note": decided.note}
    return {"gate_history": [*as_sequence(history)[:-1], entry]}


def _closed(breaker: Any) -> Any:
    """Return a breaker, or all breakers by name, closed."""
    if isinstance(breaker, str):
        return "closed" if breaker.lower() == "open" else breaker
    if not isinstance(breaker, dict):
        return breaker
    return {
        name: _closed(value)
        if name in ("status", "state") or isinstance(value, dict) or _is_word(value)
        else value
        for name, value in breaker.items()
    }


def _is_word(value: Any) -> bool:
    return isinstance(value, str) and value.lower() == "open"


def _is_same(name: str, phase: str) -> bool:
    return phases.name_phase(phase, [name]) == phases.name_phase(name, [phase])
