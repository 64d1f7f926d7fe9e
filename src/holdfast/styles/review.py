"""Human review: what makes a run wait for a person, in every style, until a `review` decides.

A run waits from an open circuit breaker, an escalation or a failed gate on, whatever checkpoints come after
it; and one that a review has stopped stays stopped. Writers carry that on in the index, so that it is not
forgotten when the checkpoint itself is far behind; readers of an index that does not say it go by the
triggers that it names.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from holdfast.format.checkpoint import Envelope
from holdfast.format.header import UNNAMED_PHASE, Header, RunStatus
from holdfast.format.index import Index, IndexEntry
from holdfast.format.review import Held, Review, ReviewKind, Stop
from holdfast.format.triggers import Trigger
from holdfast.jsontext.members import parse_document
from holdfast.styles.agents import failed_agents, lost_agents, spent_agents
from holdfast.styles.phases import name_phase, parse_ordinal
from holdfast.styles.review_signs import TELLING, has_signs
from holdfast.styles.values import as_mapping, as_sequence, name_all

HUMAN_REVIEW = "human_review"

_KINDS: Mapping[str, ReviewKind] = {
    Trigger.CIRCUIT_BREAKER.value: "circuit_breaker",
    Trigger.ESCALATION.value: "escalation",
}
_FAILED = frozenset({"fail", "failed", "failure", "reject", "rejected", "deny", "denied", "block", "blocked"})
_FAILED_TOO = frozenset({"no_go", "nogo", "stop", "halt", "escalate", "escalated", "false"})
_GATE = re.compile(r"(?:gate_)?(.+?)(?:_gate)?")


class Reviewed(NamedTuple):
    """A checkpoint as far as a review is concerned; `state` is empty where it is no object."""

    header: Header
    state: Mapping[str, Any]
    context: Mapping[str, Any]


class Past(NamedTuple):
    """The checkpoints before the newest: what the index and the spool name, and how one of them is read.

    `review` is what the run waits for by what the index and the spool say, or that it was stopped.
    """

    entries: Sequence[IndexEntry] = ()
    review: Held | None = None
    read: Callable[[IndexEntry], Envelope | None] = lambda _: None


def open_reviewed(envelope: Envelope) -> Reviewed:
    """Return a checkpoint with its state and its context read."""
    return read_reviewed(envelope.header, envelope.content)


def read_reviewed(header: Header, body: bytes) -> Reviewed:
    """Return a checkpoint, stamped or not, with its state and its context read. Raises InvalidCheckpoint."""
    document = parse_document(body).value
    state, context = document.get("state_snapshot"), document.get("context_fields")
    return Reviewed(header, as_mapping(state), as_mapping(context))


def find_review(newest: Reviewed, past: Past) -> Held | None:
    """Return what the run waits for at its newest checkpoint, or that it was stopped; None if neither."""
    return review_after(_open_before(newest, past), newest)


def review_after(before: Held | None, moment: Reviewed) -> Held | None:
    """Return what a run waits for after a checkpoint, given what it waited for before it."""
    if isinstance(before, Stop):
        return before
    if moment.header.trigger is Trigger.REVIEW:
        is_stopped = moment.header.status is RunStatus.FAILED
        return Stop(moment.header.timestamp, moment.header.checkpoint_id) if is_stopped else None
    if moment.header.status is RunStatus.COMPLETED:
        return None
    own = opened_by(moment)
    if before is None:
        return own
    if before.kind == "gate" and _has_gates(moment.state) and failed_gate(moment.state) is None:
        return own
    return own if own and before.kind == "gate" and own.kind != "gate" else before


def carry_review(before: Held | None, envelopes: Iterable[Envelope]) -> Held | None:
    """Return what the index must say once these checkpoints are stored as well."""
    for envelope in sorted(envelopes, key=lambda each: each.sequence):
        before = review_after(before, _glance(envelope))
    return before


def tell_review(review: Review) -> str:
    """Return in a sentence what a run waits for."""
    return f"the run waits for a person since {review.since}, because {review.reason}, until a review decides"


def tell_stop(stop: Stop) -> str:
    """Return in a sentence that a run was stopped, and how its work can go on all the same."""
    return f"the run was stopped by a review at {stop.since} and does not go on; a fork of it can"


def is_stopped(index: Index) -> bool:
    """Whether a review has stopped a run, as far as its index tells."""
    return isinstance(index.review, Stop) or any(map(_is_stop, index.entries))


def is_waiting(index: Index) -> bool:
    """Whether a run waits for a person, as far as its index tells."""
    return waits_for(index) is not None


def waits_for(index: Index) -> Review | None:
    """Return what a run waits for that needs a person, as far as its index tells."""
    if index.status is RunStatus.COMPLETED or is_stopped(index):
        return None
    if isinstance(index.review, Review):
        return index.review
    reviewed = _last_review(index.entries)
    opener = next((e for e in index.entries if e.sequence > reviewed and e.trigger in _KINDS), None)
    return _unread(opener, f"checkpoint {opener.sequence} says so") if opener else None


def opened_by(moment: Reviewed) -> Review | None:
    """Return what one checkpoint makes its run wait for, by itself."""
    header, state = moment.header, moment.state
    kind = _KINDS.get(_trigger_in_force(moment))
    breaker = open_breaker(state)
    if breaker is not None or kind == "circuit_breaker":
        return _review("circuit_breaker", breaker or "the circuit breaker tripped", header)
    if kind == "escalation":
        return _review("escalation", _reason_of(moment) or "it was escalated to a person", header)
    gate = failed_gate(state)
    if gate is None:
        lost = lost_agents(as_mapping(state.get("progress")), header.sequence_number)
        return lost_review(lost, header) if lost else None
    phase, reason = _gate_phase(gate, moment), f"the gate {gate.get('gate_id')} decided {gate['decision']}"
    return _review("gate", reason, header, phase)


def lost_review(agents: Sequence[str], header: Header, *, is_past_unread: bool = False) -> Review:
    """Return what a run waits for whose agents failed too often, with nothing to go back to any more.

    With `is_past_unread` there may be something, but GitHub does not answer.
    """
    why = ", and what the run could go back to cannot be read now" if is_past_unread else ""
    review = _review("escalation", f"{_tell_lost(agents)}{why}", header)
    return replace(review, agents=tuple(agents))


def reviewed_agents(review: Review, progress: Mapping[str, Any]) -> list[str]:
    """Return the agents that a review is about, as far as the progress shows them as failed.

    A review that was stored before reviews named their agents is known by its reason.
    """
    failed = failed_agents(progress)
    if review.agents:
        return [agent for agent in failed if agent in review.agents]
    groups = (spent_agents(progress), failed)
    return next((group for group in groups if group and _tell_lost(group) == review.reason), [])


def _tell_lost(agents: Sequence[str]) -> str:
    return f"{name_all(agents)} failed too often"


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


def _trigger_in_force(moment: Reviewed) -> str:
    """Return the trigger; a rollback stands for what it went back to, where a person may have been asked."""
    if moment.header.trigger is Trigger.ROLLBACK:
        return str(as_mapping(moment.context.get("rollback")).get("trigger"))
    return moment.header.trigger.value


def _open_before(newest: Reviewed, past: Past) -> Held | None:
    number = newest.header.sequence_number or 0
    entries = [entry for entry in past.entries if entry.sequence < number]
    stop = next((entry for entry in entries if _is_stop(entry)), None)
    if stop:
        return Stop(stop.timestamp, stop.checkpoint_id)
    reviewed = _last_review(entries)
    if past.review and not _is_closed(past.review, entries, reviewed):
        return past.review
    since = [entry for entry in entries if entry.sequence > reviewed]
    opener = next((entry for entry in since if entry.trigger in _KINDS), None)
    if opener:
        return _read_review(opener, past) or _unread(opener, "its checkpoint cannot be read")
    gates = [entry for entry in since if entry.trigger == Trigger.GATE_DECISION]
    return _read_review(gates[-1], past) if gates and not _has_gates(newest.state) else None


def _is_stop(entry: IndexEntry) -> bool:
    return entry.trigger == Trigger.REVIEW and entry.status == RunStatus.FAILED


def _unread(opener: IndexEntry, reason: str) -> Review:
    """Return what a checkpoint makes its run wait for, by what the index says of it."""
    kind = _KINDS[opener.trigger]
    return Review(kind, reason, opener.phase, opener.timestamp, opener.checkpoint_id)


def _read_review(entry: IndexEntry, past: Past) -> Review | None:
    envelope = past.read(entry)
    return opened_by(open_reviewed(envelope)) if envelope else None


def _is_closed(held: Held, entries: Iterable[IndexEntry], reviewed: int) -> bool:
    if isinstance(held, Stop):
        return False
    return any(e.checkpoint_id == held.checkpoint_id and e.sequence < reviewed for e in entries)


def _last_review(entries: Iterable[IndexEntry]) -> int:
    return max((entry.sequence for entry in entries if entry.trigger == Trigger.REVIEW), default=0)


def _glance(envelope: Envelope) -> Reviewed:
    """Return a checkpoint with its state only if that says anything of a review."""
    if envelope.header.trigger in TELLING or has_signs(envelope.content):
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
    """Return the phase that a gate is named after; of another gate, the phase that it was decided in."""
    match = _GATE.fullmatch(str(gate.get("gate_id") or ""))
    named = match[1] if match else moment.header.phase
    named = f"phase_{named}" if named[:1].isdigit() else named
    known = _known_phases(moment)
    phase = name_phase(named, known)
    return phase if parse_ordinal(phase) or phase in known or not known else known[0]


def _known_phases(moment: Reviewed) -> list[str]:
    """Return the phases that a checkpoint names, that of the checkpoint itself first."""
    state = moment.state
    current = as_mapping(state.get("current_phase_state")).get("phase")
    listed = as_sequence(as_mapping(state.get("progress")).get("phases"))
    outputs = list(as_mapping(state.get("phase_outputs")))
    names = [moment.header.phase, current, *reversed(outputs), *listed]
    return [name for name in names if isinstance(name, str) and name not in ("", UNNAMED_PHASE)]


def _is_open(breaker: Mapping[str, Any]) -> bool:
    return _says_open(breaker.get("status")) or _says_open(breaker.get("state"))


def _says_open(word: object) -> bool:
    return isinstance(word, str) and word.lower() == "open"


def _is_failed(decision: object) -> bool:
    word = str(decision).strip().lower().replace("-", "_")
    return decision is not None and (word in _FAILED or word in _FAILED_TOO)


def _has_gates(state: Mapping[str, Any]) -> bool:
    return bool(as_sequence(state.get("gate_history")))
