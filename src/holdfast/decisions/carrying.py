"""Checkpoints that carry the state of another one on, with every byte of it that does not change."""

from collections.abc import Mapping
from typing import Any

from holdfast.format.checkpoint import PARTS_MEMBER, Envelope
from holdfast.format.header import HEADER_MEMBERS
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.members import join_members, parse_document

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
