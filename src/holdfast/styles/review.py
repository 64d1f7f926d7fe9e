"""Human review: what makes a run wait for a person, in every style, until a `review` decides.

A run waits from an open circuit breaker, an escalation or a failed gate on, whatever checkpoints come after
it. Writers carry that on in the index, so that it is not forgotten when the checkpoint itself is far behind;
readers of an index that does not say it go by the triggers that it names.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from holdfast.format.checkpoint import Envelope, Header, RunStatus
from holdfast.format.index import Index, IndexEntry
from holdfast.format.review import Review, ReviewKind
from holdfast.format.triggers import Trigger
from holdfast.jsontext.members import parse_document
from holdfast.styles.phases import name_phase
from holdfast.styles.values import as_mapping, as_sequence

HUMAN_REVIEW = "human_review"

_KINDS: Mapping[str, ReviewKind] = {
    Trigger.CIRCUIT_BREAKER.value: "circuit_breaker",
    Trigger.ESCALATION.value: "escalation",
}
_FAILED = frozenset({"fail", "failed", "failure", "reject", "rejected", "deny", "denied", "block", "blocked"})
_FAILED_TOO = frozenset({"no_go", "nogo", "stop", "halt", "escalate", "escalated", "false"})
_GATE = re.compile(r"(?:gate_)?(.+?)(?:_gate)?")
# A checkpoint without any of these in it says nothing of a review.
_SIGNS = (b'"circuit_breaker_state"', b'"gate_history"')


@dataclass(frozen=True, slots=True)
class Reviewed:
    """A checkpoint as far as a review is concerned; `state` is empty where it is no object."""

    header: Header
    state: Mapping[str, Any]
    context: Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Past:
    """The checkpoints before the newest: what the index and the spool name, and how one of them is read.

    `review` is what the index says that the run waits for.
    """

    entries: Sequence[IndexEntry] = ()
    review: Review | None = None
    read: Callable[[IndexEntry], Envelope | None] = lambda _: None


def open_reviewed(envelope: Envelope) -> Reviewed:
    """Return a checkpoint with its state and its context read."""
    document = parse_document(envelope.content).value
    state, context = document.get("state_snapshot"), document.get("context_fields")
    return Reviewed(envelope.header, as_mapping(state), as_mapping(context))


def find_review(newest: Reviewed, past: Past) -> Review | None:
    """Return what the run waits for at its newest checkpoint; None if it may go on."""
    return review_after(None if _is_decided(newest) else _open_before(newest, past), newest)


def review_after(before: Review | None, moment: Reviewed) -> Review | None:
    """Return what a run waits for after a checkpoint, given what it waited for before it."""
    if _is_decided(moment):
        return None
    own = opened_by(moment)
    if before is None:
        return own
    if before.kind == "gate" and _has_gates(moment.state) and failed_gate(moment.state) is None:
        return own
    return own if own and before.kind == "gate" and own.kind != "gate" else before


def carry_review(before: Review | None, envelopes: Iterable[Envelope]) -> Review | None:
    """Return what the index must say once these checkpoints are stored as well."""
    for envelope in sorted(envelopes, key=lambda each: each.sequence):
        before = review_after(before, _glance(envelope))
    return before


def tell_review(review: Review, run_id: str) -> str:
    """Return in a sentence what a run waits for, and how a person decides that."""
    advice = f"holdfast review {run_id} --decision continue, retry or stop"
    return f"the run waits for a person since {review.since}, because {review.reason}: {advice}"


def is_waiting(index: Index) -> bool:
    """Whether a run waits for a person, as far as its index tells."""
    if index.status is RunStatus.COMPLETED:
        return False
    reviewed = _last_review(index.entries)
    return index.review is not None or any(
        entry.trigger in _KINDS for entry in index.entries if entry.sequence > reviewed
    )


def opened_by(moment: Reviewed) -> Review | None:
    """Return what one checkpoint makes its run wait for, by itself."""
    header, state = moment.header, moment.state
    breaker = open_breaker(state)
    if breaker is not None or header.trigger is Trigger.CIRCUIT_BREAKER:
        return _review("circuit_breaker", breaker or "the circuit breaker tripped", header)
    if header.trigger is Trigger.ESCALATION:
        return _review("escalation", _reason_of(moment) or "it was escalated to a person", header)
    gate = failed_gate(state)
    if gate is None:
        return None
    phase, reason = _gate_phase(gate, moment), f"the gate {gate.get('gate_id')} decided {gate['decision']}"
    return _review("gate", reason, header, phase)


def open_breaker(state: Mapping[str, Any]) -> str | None:
    """Return why a circuit breaker of a state is open, in its own words; None if all are closed.

    >>> open_breaker({"circuit_breaker_state": {"status": "open", "reason": "5 errors"}})
    '5 errors'
    """
    breakers = as_mapping(state.get("circuit_breaker_state"))
    if _is_open(breakers):
        return str(breakers.get("reason") or "the circuit breaker is open")
    for name, breaker in breakers.items():
        if _is_open(as_mapping(breaker)) or (name not in ("status", "state") and _says_open(breaker)):
            return str(as_mapping(breaker).get("reason") or f"the circuit breaker {name} is open")
    return None


def failed_gate(state: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the last decision of a gate that failed, and has not passed since; None if none has."""
    newest: dict[str, Mapping[str, Any]] = {}
    for decision in map(as_mapping, as_sequence(state.get("gate_history"))):
        newest[str(decision.get("gate_id"))] = decision
    return next((each for each in newest.values() if _is_failed(each.get("decision"))), None)


def gate_id_of(state: Mapping[str, Any]) -> str | None:
    """Return the id of the gate that failed, if one has."""
    gate = failed_gate(state)
    return None if gate is None else str(gate.get("gate_id"))


def _open_before(newest: Reviewed, past: Past) -> Review | None:
    number = newest.header.sequence_number or 0
    entries = [entry for entry in past.entries if entry.sequence < number]
    reviewed = _last_review(entries)
    if past.review and not _is_closed(past.review, entries, reviewed):
        return past.review
    since = [entry for entry in entries if entry.sequence > reviewed]
    opener = next((entry for entry in since if entry.trigger in _KINDS), None)
    if opener:
        return _read_review(opener, past) or Review(
            _KINDS[opener.trigger],
            "its checkpoint cannot be read",
            opener.phase,
            opener.timestamp,
            opener.checkpoint_id,
        )
    gates = [entry for entry in since if entry.trigger == Trigger.GATE_DECISION]
    return _read_review(gates[-1], past) if gates and not _has_gates(newest.state) else None


def _read_review(entry: IndexEntry, past: Past) -> Review | None:
    envelope = past.read(entry)
    return opened_by(open_reviewed(envelope)) if envelope else None


def _is_closed(review: Review, entries: Iterable[IndexEntry], reviewed: int) -> bool:
    return any(e.checkpoint_id == review.checkpoint_id and e.sequence < reviewed for e in entries)


def _last_review(entries: Iterable[IndexEntry]) -> int:
    return max((entry.sequence for entry in entries if entry.trigger == Trigger.REVIEW), default=0)


def _is_decided(moment: Reviewed) -> bool:
    return moment.header.trigger is Trigger.REVIEW or moment.header.status is RunStatus.COMPLETED


def _glance(envelope: Envelope) -> Reviewed:
    """Return a checkpoint with its state only if that says anything of a review."""
    is_telling = envelope.header.trigger in (Trigger.CIRCUIT_BREAKER, Trigger.ESCALATION)
    if is_telling or any(sign in envelope.content for sign in _SIGNS):
        return open_reviewed(envelope)
    return Reviewed(envelope.header, {}, {})


def _review(kind: ReviewKind, reason: str, header: Header, phase: str | None = None) -> Review:
    return Review(kind, reason, phase or header.phase, header.timestamp, header.checkpoint_id)


def _reason_of(moment: Reviewed) -> str:
    """Return why a checkpoint was escalated, where callers usually say it."""
    escalation = moment.state.get("escalation", moment.context.get("escalation"))
    if isinstance(escalation, str):
        return escalation
    words = (as_mapping(escalation).get("reason"), moment.context.get("reason"))
    return next((word for word in words if isinstance(word, str) and word), "")


def _gate_phase(gate: Mapping[str, Any], moment: Reviewed) -> str:
    match = _GATE.fullmatch(str(gate.get("gate_id") or ""))
    named = match[1] if match else moment.header.phase
    names = [moment.header.phase, *as_mapping(moment.state.get("phase_outputs"))]
    return name_phase(named if not named[:1].isdigit() else f"phase_{named}", names)


def _is_open(breaker: Mapping[str, Any]) -> bool:
    return _says_open(breaker.get("status")) or _says_open(breaker.get("state"))


def _says_open(word: object) -> bool:
    return isinstance(word, str) and word.lower() == "open"


def _is_failed(decision: object) -> bool:
    word = str(decision).strip().lower().replace("-", "_")
    return decision is not None and (word in _FAILED or word in _FAILED_TOO)


def _has_gates(state: Mapping[str, Any]) -> bool:
    return bool(as_sequence(state.get("gate_history")))
