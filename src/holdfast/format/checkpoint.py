"""The envelope: the record of one checkpoint, from what a caller hands in to what the repository holds.

A submission becomes a Draft (checked, everything filled in but its number), a draft's body waits in
the spool, and a stamped body (with its integrity) is a file of the repository. The caller's own bytes
go through all of this untouched.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Protocol

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.git_ids import blob_sha
from holdfast.format.header import (
    FENCE,
    HEADER_END,
    HEADER_FIELDS,
    Header,
    check_header,
    header_values,
    read_header,
    refuse_faults,
)
from holdfast.format.redacted import REDACTED_MEMBER, Redacted
from holdfast.format.state import find_faults_of_context, find_faults_of_state, within
from holdfast.format.triggers import Priority, Trigger, parse_trigger
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import (
    Document,
    canonical_bytes,
    canonical_sha256,
    join_members,
    parse_document,
)

TRACE_MEMBER = "traceparent"
"""The member of a checkpoint that names the span which saved it. It says nothing of the run itself."""

PARTS_MEMBER = "parts"
"""The member of a stored checkpoint that lists the places whose values lie in files of their own."""

# What a checkpoint says besides its state and context, whoever sends it and whenever.
_IDENTIFYING_FIELDS = ("run_id", "trigger", "phase", "status", "priority", "workflow")
# A caller that sends again is in another span, and may have fewer credentials to lose.
_UNSAID = frozenset({REDACTED_MEMBER, TRACE_MEMBER})
# Members that are looked into however large they are.
_READ_WHOLE = frozenset({*HEADER_FIELDS, "integrity", "gate_history"})
_OURS = frozenset({*HEADER_FIELDS, FENCE, "integrity", "context_fields", "state", "state_snapshot"})

Text = bytes | memoryview


@dataclass(frozen=True)
class Draft:
    """A checked checkpoint that waits for its number.

    It `is_named` if its caller knows the id, and may send it again. `kept_fingerprint` is for one whose body
    does not tell what was said, so that the fingerprint must be stored beside it. `redacted` are the places
    where a credential stood.
    """

    header: Header
    texts: Mapping[str, Text]
    is_named: bool
    kept_fingerprint: str | None = None
    redacted: tuple[Redacted, ...] = ()

    @cached_property
    def fingerprint(self) -> str | None:
        """Return a digest of the content by which a repetition is known; None if nobody else knows the id.

        Making it takes as long as encoding. Neither the time nor the number count: a caller that sends
        again makes them anew.
        """
        if not self.is_named:
            return None
        return self.kept_fingerprint or fingerprint_of(self.header, self.texts)

    @property
    def tells_fingerprint(self) -> bool:
        """Whether its fingerprint can be made of its body, by `fingerprint_body`."""
        return self.is_named and self.kept_fingerprint is None

    @property
    def checkpoint_id(self) -> str:
        """Return the id, the caller's or the one made for it."""
        return self.header.checkpoint_id

    @property
    def run_id(self) -> str:
        """Return the run that it belongs to."""
        return self.header.run_id

    @property
    def trigger(self) -> Trigger:
        """Return why it was made."""
        return self.header.trigger

    @property
    def priority(self) -> Priority:
        """Return how urgent it is."""
        return self.header.priority

    @property
    def sequence(self) -> int | None:
        """Return the number that its caller asked for, if any."""
        return self.header.sequence_number

    @property
    def size_bytes(self) -> int:
        """Return how large the caller's part of it is."""
        return sum(len(text) for text in self.texts.values())

    def body(self, sequence: int) -> bytes:
        """Return the checkpoint as one JSON object, under its number, still without its integrity."""
        return _compose(self.header, sequence, self.texts)

    def with_fence(self, fence: int) -> "Draft":
        """Return the same checkpoint as one of the claim with this fence."""
        return replace(self, header=replace(self.header, fence=fence))

    def within_trace(self, traceparent: str | None) -> "Draft":
        """Return the same checkpoint with the span that saves it, unless its caller named one."""
        if traceparent is None or TRACE_MEMBER in self.texts:
            return self
        return replace(self, texts={**self.texts, TRACE_MEMBER: orjson.dumps(traceparent)})

    def without_number(self) -> "Draft":
        """Return the same checkpoint, asking for the run's next number."""
        return replace(self, header=replace(self.header, sequence_number=None))


@dataclass(frozen=True)
class Envelope:
    """A checkpoint as a file of the repository: its header, and its bytes with their integrity.

    `parts` are the files that it refers to, by their names within the run, when it was too large for one.
    """

    header: Header
    content: bytes
    parts: Mapping[str, bytes] = field(default_factory=dict)

    @property
    def checkpoint_id(self) -> str:
        """Return the id."""
        return self.header.checkpoint_id

    @property
    def sequence(self) -> int:
        """Return its number within the run."""
        return self.header.sequence_number or 0

    @cached_property
    def blob_sha(self) -> str:
        """Return the id that git gives to these bytes."""
        return blob_sha(self.content)


class _Source(Protocol):
    """What a draft is made of."""

    @property
    def values(self) -> Mapping[str, Any]: ...

    def text(self, name: str) -> Text: ...


class _TextSource:
    """A JSON document; of large values only what there is to check."""

    def __init__(self, text: bytes) -> None:
        self._document = parse_document(text)
        self.values = self._document.outline(_READ_WHOLE)

    def text(self, name: str) -> Text:
        return self._document.view(name)


class _MappingSource:
    """A Python mapping."""

    def __init__(self, values: Mapping[str, Any]) -> None:
        self.values = values

    def text(self, name: str) -> Text:
        return encode(self.values[name], name)


def draft_from_text(
    text: bytes,
    *,
    now: str,
    new_id: Callable[[], str],
    run_id: str | None = None,
    checkpoint_id: str | None = None,
) -> Draft:
    """Return the draft of a JSON document, whole or in the short form, keeping the caller's bytes.

    `run_id` is the run that the caller named beside the document. A document that names no id gets
    `checkpoint_id`, as if its caller had named it, or else a new one. Raises InvalidCheckpoint.
    """
    return _draft(_TextSource(text), now=now, new_id=new_id, run_id=run_id, checkpoint_id=checkpoint_id)


def draft_from_mapping(
    mapping: Mapping[str, Any],
    *,
    now: str,
    new_id: Callable[[], str],
    run_id: str | None = None,
    checkpoint_id: str | None = None,
) -> Draft:
    """Return the draft of a checkpoint given as a Python mapping. Raises InvalidCheckpoint."""
    return _draft(_MappingSource(mapping), now=now, new_id=new_id, run_id=run_id, checkpoint_id=checkpoint_id)


def renumber_body(body: bytes, sequence: int) -> bytes:
    """Return the same checkpoint under another number.

    >>> renumber_body(b'{"sequence_number":1,"state_snapshot":{}}', 2)
    b'{"sequence_number":2,"state_snapshot":{}}'
    """
    end = body.index(HEADER_END)
    header = orjson.loads(body[:end] + b"}")
    header["sequence_number"] = sequence
    return b"".join((orjson.dumps(header)[:-1], memoryview(body)[end:]))


def stamp(body: bytes, sign: Callable[[bytes], str] | None = None) -> Envelope:
    """Return the checkpoint as the repository will hold it. The same body always gives the same bytes.

    `sign` gives a signature over the canonical form of the body.
    """
    values = {"sha256": canonical_sha256(body)}
    if sign:
        values["signature"] = sign(canonical_bytes(body))
    integrity = b',"integrity":%b}' % orjson.dumps(values)
    return Envelope(read_header(body), b"".join((memoryview(body)[:-1], integrity)))


def open_stored(content: bytes, path: str) -> tuple[Envelope, Document]:
    """Return a checkpoint that was read from `path`, and its members, after checking its integrity.

    Raises IntegrityFailure with the file and the reason.
    """
    try:
        document = parse_document(content)
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error
    return open_document(document, content, path), document


def open_document(document: Document, content: bytes, path: str) -> Envelope:
    """Return a checkpoint whose content was parsed, after checking its integrity. Raises IntegrityFailure."""
    try:
        header = check_header(header_values(document.value))
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error
    check_integrity(document, path)
    return Envelope(header, content)


def check_integrity(document: Document, path: str) -> None:
    """Raise IntegrityFailure unless the document has the content that its own digest stands for."""
    stated = document.value.get("integrity")
    stated_digest = stated.get("sha256") if isinstance(stated, dict) else None
    if stated_digest is None:
        raise IntegrityFailure(path, "it has no integrity.sha256, so nothing shows that it is whole")
    if document.sha256_without("integrity") != stated_digest:
        raise IntegrityFailure(path, "its content does not match its integrity.sha256")


def _draft(
    source: _Source,
    *,
    now: str,
    new_id: Callable[[], str],
    run_id: str | None,
    checkpoint_id: str | None,
) -> Draft:
    values = source.values
    state = _state_name(values)
    if PARTS_MEMBER in values:
        raise InvalidCheckpoint(PARTS_MEMBER, "this name is kept for the parts of large checkpoints")
    given = header_values(values)
    if checkpoint_id is not None:
        given.setdefault("checkpoint_id", checkpoint_id)
    is_id_given = "checkpoint_id" in given
    header = _fill_in(given, now=now, new_id=new_id, run_id=run_id)
    _check_snapshot(values, state)
    # Where each member of the stored checkpoint comes from.
    names = {"state_snapshot": state, "context_fields": "context_fields"}
    names |= {name: name for name in values if name not in _OURS}
    texts = {name: source.text(each) if each in values else b"{}" for name, each in names.items()}
    draft = Draft(header, texts, is_id_given)
    if values.get("integrity") is not None:
        stated = {name: source.text(name) for name in values if name != "integrity"}
        _check_claim(draft, stated, values["integrity"])
    return draft


def fingerprint_of(header: Header, texts: Mapping[str, Text]) -> str:
    """Return the digest of what a checkpoint says, however it is spelled, without its time and number.

    What was taken out counts by the marks in its places, and the trace that it was saved in does not.
    """
    identity = {name: getattr(header, name) for name in _IDENTIFYING_FIELDS}
    name = "header"
    while name in texts:  # a member of the caller's own must not hide it
        name += "_"
    said = {each: text for each, text in texts.items() if each not in _UNSAID}
    return canonical_sha256(join_members({name: orjson.dumps(identity), **said}))


def fingerprint_body(body: bytes) -> str:
    """Return the fingerprint of the checkpoint that has this body. Raises InvalidCheckpoint, ValueError."""
    document = parse_document(body)
    ours = (*HEADER_FIELDS, FENCE)
    texts = {name: document.view(name) for name in document.members if name not in ours}
    return fingerprint_of(read_header(body), texts)


def _check_claim(draft: Draft, given: Mapping[str, Text], claim: object) -> None:
    """Refuse a checkpoint whose integrity its content contradicts, as it was given and as it is stored."""
    advice = "leave integrity out to have it made anew"
    claimed = claim.get("sha256") if isinstance(claim, dict) else None
    if not isinstance(claimed, str):
        raise InvalidCheckpoint("integrity", f'it is not {{"sha256": "…"}}; {advice}')
    whole = join_members(given) if draft.sequence is None else draft.body(draft.sequence)
    if claimed not in map(canonical_sha256, (join_members(given), whole)):
        raise InvalidCheckpoint("integrity.sha256", f"the content does not match it; {advice}")


def _state_name(values: Mapping[str, Any]) -> str:
    if "state" in values and "state_snapshot" in values:
        raise InvalidCheckpoint("state", "give either state or state_snapshot, not both")
    for name in ("state_snapshot", "state"):
        if name in values:
            return name
    raise InvalidCheckpoint("state", "is missing; a checkpoint needs state (or state_snapshot)")


def _fill_in(given: dict[str, Any], *, now: str, new_id: Callable[[], str], run_id: str | None) -> Header:
    if run_id is not None and given.setdefault("run_id", run_id) != run_id:
        raise InvalidCheckpoint("run_id", f"{given['run_id']!r} here, but {run_id!r} was named beside it")
    if "checkpoint_id" not in given:
        given["checkpoint_id"] = new_id()
    given.setdefault("timestamp", now)
    # A wrong trigger is reported as such below; until then any priority will do.
    if "priority" not in given:
        given["priority"] = _priority_of(given.get("trigger"))
    return check_header(given)


def _priority_of(trigger: object) -> Priority:
    try:
        return parse_trigger(str(trigger)).priority
    except ValueError:
        return Priority.MEDIUM


def _check_snapshot(values: Mapping[str, Any], state: str) -> None:
    if isinstance(values[state], dict):
        refuse_faults(within(state, find_faults_of_state(values[state])))
    context = values.get("context_fields")
    if context is not None:
        refuse_faults(within("context_fields", find_faults_of_context(context)))


def _compose(header: Header, sequence: int, texts: Mapping[str, Text]) -> bytes:
    values = {name: getattr(header, name) for name in HEADER_FIELDS}
    values["sequence_number"] = sequence
    if header.fence is not None:  # a run that nobody claimed is stored as if there were no claims
        values[FENCE] = header.fence
    # One join: each further copy of a large state would cost as much as half of its digest.
    pieces: list[Text] = [orjson.dumps(values)[:-1]]
    for name, text in texts.items():
        pieces += (b",", orjson.dumps(name), b":", text)
    return b"".join((*pieces, b"}"))
