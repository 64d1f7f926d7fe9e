"""Checkpoint files as the repository holds them: one checkpoint, or a batch of them."""

from holdfast.core.encoding import parse_document, split_items
from holdfast.core.envelope import Envelope, open_stored
from holdfast.core.index import IndexEntry
from holdfast.errors import IntegrityFailure, InvalidCheckpoint


def open_file(content: bytes, path: str) -> list[tuple[Envelope, IndexEntry]]:
    """Return every checkpoint in a file, each with the entry that an index would have for it.

    Raises IntegrityFailure when the file, or any checkpoint in it, is not what was written.
    """
    envelopes = [open_stored(text, path)[0] for text in split_file(content, path)]
    return [(envelope, entry_of(envelope, path)) for envelope in envelopes]


def find_in_file(content: bytes, path: str, sequence: int) -> Envelope:
    """Return the checkpoint with this number, even if others in the same batch are damaged.

    Raises IntegrityFailure when it is damaged itself, or not there.
    """
    damage: IntegrityFailure | None = None
    for text in split_file(content, path):
        try:
            envelope, _ = open_stored(text, path)
        except IntegrityFailure as failure:
            damage = damage or failure
            continue
        if envelope.sequence == sequence:
            return envelope
    raise damage or IntegrityFailure(path, f"it does not hold checkpoint {sequence}")


def split_file(content: bytes, path: str) -> list[bytes]:
    """Return the text of every checkpoint in a file. Raises IntegrityFailure."""
    try:
        members = parse_document(content).members
        return split_items(members["checkpoints"]) if "checkpoints" in members else [content]
    except InvalidCheckpoint as error:
        raise IntegrityFailure(path, str(error)) from error


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
    )
