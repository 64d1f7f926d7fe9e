"""The final checkpoint of a run: its newest state, carried on under a new status."""

import orjson

from holdfast.format.checkpoint import PARTS_MEMBER, Envelope
from holdfast.format.header import HEADER_MEMBERS, RunStatus
from holdfast.format.triggers import Trigger
from holdfast.jsontext.members import join_members, parse_document

KEEP = "keep"
RETENTION = "retention"
"""`context_fields.retention` of a final checkpoint: `keep` says that its run is not deleted on success."""

_CONTEXT = "context_fields"


def is_final(envelope: Envelope, status: RunStatus, *, is_kept: bool) -> bool:
    """Whether a run has ended with this checkpoint already, in just this way."""
    header = envelope.header
    context = parse_document(envelope.content).value.get(_CONTEXT)
    marked = isinstance(context, dict) and context.get(RETENTION) == KEEP
    return header.trigger is Trigger.RUN_COMPLETE and header.status is status and marked == is_kept


def write_final(envelope: Envelope, status: RunStatus, *, is_kept: bool) -> bytes:
    """Return the text of the checkpoint that ends a run, with every byte of the state as it was.

    `is_kept` marks the run so that it is not deleted on success.
    """
    stored = parse_document(envelope.content).members
    dropped = {*HEADER_MEMBERS, "integrity", PARTS_MEMBER}
    header = {
        "run_id": envelope.header.run_id,
        "trigger": Trigger.RUN_COMPLETE,
        "phase": envelope.header.phase,
        "status": status,
        "workflow": envelope.header.workflow,
    }
    members = {name: orjson.dumps(value) for name, value in header.items() if value is not None}
    members |= {name: text for name, text in stored.items() if name not in dropped}
    members[_CONTEXT] = _mark(members.get(_CONTEXT, b"{}"), is_kept=is_kept)
    return join_members(members)


def _mark(context: bytes, *, is_kept: bool) -> bytes:
    members = dict(parse_document(context).members) if context[:1] == b"{" else {}
    if not is_kept and RETENTION not in members:
        return context
    members.pop(RETENTION, None)
    return join_members(members | ({RETENTION: orjson.dumps(KEEP)} if is_kept else {}))
