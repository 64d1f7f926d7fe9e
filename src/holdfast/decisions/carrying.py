"""Checkpoints that carry the state of another one on, with every byte of it that does not change.

So a run goes on from an older one: in the same run, or as another one.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.format.checkpoint import PARTS_MEMBER, Envelope
from holdfast.format.header import HEADER_MEMBERS, RunStatus
from holdfast.format.triggers import Trigger
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.members import join_members, parse_document
from holdfast.styles.resume import trigger_in_force

# What was said of an earlier decision does not hold for the next checkpoint.
_OF_ONE_DECISION = frozenset({"review", "reviewed", "rollback"})
_DROPPED = frozenset({*HEADER_MEMBERS, "integrity", PARTS_MEMBER, "redacted", "forked_from"})


def carry_on(
    envelope: Envelope,
    header: Mapping[str, Any],
    *,
    state: Mapping[str, Any] | None = None,
    context: Mapping[str, Any] | None = None,
    others: Mapping[str, Any] | None = None,
    keeps_decision: bool = False,
) -> bytes:
    """Return the text of a checkpoint with the state of `envelope` under another header.

    `state` and `context` are members that change, `others` are further members of the checkpoint itself.
    """
    stored = parse_document(envelope.content).members
    members = {name: text for name, text in stored.items() if name not in _DROPPED}
    before = members.get("context_fields", b"{}")
    forgotten = frozenset() if keeps_decision else _OF_ONE_DECISION
    members["context_fields"] = _with(before, context or {}, forgotten)
    members["state_snapshot"] = _with(members.get("state_snapshot", b"null"), state or {})
    own = {name: value for name, value in {**header, **(others or {})}.items() if value is not None}
    return join_members({name: encode_exact(value) for name, value in own.items()} | members)


def _with(text: bytes, changes: Mapping[str, Any], forgotten: frozenset[str] = frozenset()) -> bytes:
    """Return an object with some members changed and some left out; anything else is returned as it is."""
    if not text.lstrip().startswith(b"{"):
        return text
    members = dict(parse_document(text).members)
    if not changes and forgotten.isdisjoint(members):
        return text
    kept = {name: value for name, value in members.items() if name not in forgotten}
    return join_members(kept | {name: encode_exact(value) for name, value in changes.items()})


def write_rollback(target: Envelope, note: str | None) -> bytes:
    """Return the checkpoint that carries an older one's state on, so that the run goes on from there.

    `context_fields.rollback` names that one, and its trigger, which says where the run goes on.
    """
    header = target.header
    back_to = {
        "checkpoint_id": target.checkpoint_id,
        "sequence_number": target.sequence,
        "trigger": trigger_in_force(target),
        "note": note,
    }
    own = {
        "run_id": header.run_id,
        "trigger": Trigger.ROLLBACK,
        "phase": header.phase,
        "status": RunStatus.IN_PROGRESS,
        "workflow": header.workflow,
    }
    return carry_on(target, own, context={"rollback": back_to})


def ends_run(envelope: Envelope) -> bool:
    """Whether a checkpoint is the review that has stopped its run."""
    return envelope.header.trigger is Trigger.REVIEW and envelope.header.status is RunStatus.FAILED


def write_fork(source: Envelope, run_id: str) -> bytes:
    """Return the first checkpoint of another run, which goes on where the source does and names it."""
    header = source.header
    own = {
        "run_id": run_id,
        "trigger": Trigger.MANUAL if header.trigger is Trigger.RUN_COMPLETE else header.trigger,
        "phase": header.phase,
        "status": RunStatus.IN_PROGRESS,
        "workflow": header.workflow,
    }
    origin = {"run_id": header.run_id, "checkpoint_id": source.checkpoint_id}
    return carry_on(source, own, others={"forked_from": origin}, keeps_decision=True)
