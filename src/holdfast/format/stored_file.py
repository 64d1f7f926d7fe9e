"""Checkpoint files as the repository holds them: one checkpoint, or a batch of them."""

from collections.abc import Mapping, Sequence, Set
from dataclasses import replace
from typing import Any, NamedTuple

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, NewerFormat
from holdfast.format.checkpoint import (
    Envelope,
    check_integrity,
    draft_from_text,
    open_document,
    open_stored,
    stamp,
)
from holdfast.format.index import IndexEntry
from holdfast.format.paths import is_single, parse_sequences
from holdfast.format.versions import is_newer, refuse_newer
from holdfast.jsontext.members import Document, join_members, parse_document, split_items

_REQUIRED = (
    "checkpoint_id",
    "run_id",
    "timestamp",
    "trigger",
    "phase",
    "sequence_number",
    "state_snapshot",
)

_BATCH_MEMBER = "checkpoints"


def open_file(content: bytes, path: str) -> list[tuple[Envelope, IndexEntry]]:
    """Return every checkpoint in a file, each with the entry that an index would have for it.

    Raises IntegrityFailure when the file, or any checkpoint in it, is not what was written.
    """
    envelopes = [open_stored(text, path)[0] for text in split_file(content, path)]
    return [(envelope, entry_of(envelope, path)) for envelope in envelopes]


class Contents(NamedTuple):
    """What a file holds: its good checkpoints by number, and what is wrong with the others.

    `unstamped` are the numbers of those that are of the format before ours, and so have no integrity.
    """

    envelopes: Mapping[int, Envelope]
    unstamped: Set[int]
    failures: Sequence[IntegrityFailure]

    def entries(self, path: str) -> list[IndexEntry]:
        """Return what an index would say of the good ones, in the file at `path`."""
        found = [entry_of(envelope, path) for envelope in self.envelopes.values()]
        # The file of an older format has other bytes than the checkpoint that is made of it.
        return [replace(entry, blob_sha="") if entry.sequence in self.unstamped else entry for entry in found]

    def find(self, sequence: int) -> Envelope | None:
        """Return the checkpoint with this number; None if it is not among these.

        Raises IntegrityFailure when it may be one of those that are damaged.
        """
        if sequence not in self.envelopes and self.failures:
            raise self.failures[0]
        return self.envelopes.get(sequence)


def open_contents(content: bytes, path: str) -> Contents:
    """Return what is good in a file, even if other checkpoints in the same batch are damaged.

    Raises NewerFormat if one of them is of a later format, IntegrityFailure if the file cannot be read.
    """
    envelopes: dict[int, Envelope] = {}
    unstamped: set[int] = set()
    failures: list[IntegrityFailure] = []
    for text in split_file(content, path):
        try:
            envelope = open_checkpoint(text, path)
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            # Without its traceback, which would keep the whole document in memory.
            failures.append(IntegrityFailure(failure.path, failure.reason))
            continue
        envelopes.setdefault(envelope.sequence, envelope)
        if envelope.content != text:
            unstamped.add(envelope.sequence)
    return Contents(envelopes, unstamped, failures)


def open_checkpoint(content: bytes, path: str) -> Envelope:
    """Return a checkpoint of our format, or of the one before it: the specification's own, without integrity.

    Raises NewerFormat if it is whole but of a later one, IntegrityFailure if it is not whole.
    """
    document = _parse(content, path)
    if is_unstamped(document.value):
        return _stamp_older(document, content, path)
    if is_newer(document.value):
        check_integrity(document, path)
        refuse_newer(document.value, path)
    return open_document(document, content, path)


def is_unstamped(document: Mapping[str, Any]) -> bool:
    """Whether a checkpoint is of the specification's own format: without version and integrity."""
    return "integrity" not in document and "format_version" not in document


def _stamp_older(document: Document, content: bytes, path: str) -> Envelope:
    """Return a checkpoint of the older format in ours; all that the specification requires must be there."""
    lacking = [name for name in _REQUIRED if document.value.get(name) is None]
    if lacking:
        raise IntegrityFailure(path, f"it has neither an integrity nor {', '.join(lacking)}")
    try:
        draft = draft_from_text(content, now="", new_id=lambda: "")
        return stamp(draft.body(draft.sequence or 0))
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error


def _parse(content: bytes, path: str) -> Document:
    try:
        return parse_document(content)
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error


def split_file(content: bytes, path: str) -> list[bytes]:
    """Return the text of every checkpoint in a file. Its name alone tells whether it is a batch.

    A caller's own field `checkpoints` makes none of a single checkpoint. Raises IntegrityFailure.
    """
    name = path.rpartition("/")[2]
    return split_batch(content, path) if parse_sequences(name) and not is_single(name) else [content]


def split_batch(content: bytes, path: str) -> list[bytes]:
    """Return the text of every checkpoint in a batch. Raises IntegrityFailure."""
    members = _parse(content, path).members
    if _BATCH_MEMBER not in members:
        raise IntegrityFailure(path, "it is named as a batch, but holds no checkpoints")
    try:
        return split_items(members[_BATCH_MEMBER])
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error


def join_batch(texts: Sequence[bytes], numbers: Sequence[int]) -> bytes:
    """Return the file that holds these checkpoints, in the order of their numbers.

    >>> join_batch([b"{}", b"{}"], [3, 5])
    b'{"checkpoints":[{},{}],"batch_metadata":{"first_sequence":3,"last_sequence":5,"checkpoint_count":2}}'
    """
    metadata = {
        "first_sequence": numbers[0],
        "last_sequence": numbers[-1],
        "checkpoint_count": len(numbers),
    }
    return b'{"checkpoints":[%s],"batch_metadata":%s}' % (b",".join(texts), orjson.dumps(metadata))


def renew_batch(content: bytes, texts: Sequence[bytes]) -> bytes:
    """Return a batch with other texts for its checkpoints, in the same order; all else stays as it is."""
    members = parse_document(content).members
    renewed = {name: members[name] for name in members}
    return join_members({**renewed, _BATCH_MEMBER: b"[" + b",".join(texts) + b"]"})


def entry_of(envelope: Envelope, path: str) -> IndexEntry:
    """Return the index entry of a checkpoint that lies in the file at `path`."""
    header = envelope.header
    return IndexEntry(
        sequence=envelope.sequence,
        checkpoint_id=header.checkpoint_id,
        trigger=header.trigger.value,
        timestamp=header.timestamp,
        file_path=path,
        status=header.status.value,
        blob_sha=envelope.blob_sha,
        phase=header.phase,
        fence=header.fence or 0,
    )
