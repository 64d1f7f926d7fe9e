"""Notes about writes, kept on disk until all that they may leave behind is known.

A pending write says which checkpoints were under way together and which files they may have become, so that
after a crash the same write is finished and nothing is stored twice.

An orphan file is what an abandoned attempt may still leave behind: GitHub may carry out a request some time
after its connection was cut. If its checkpoint was stored under another number meanwhile, the late file is a
second copy, so it is looked for once more. That GitHub finds no such file proves nothing, as a server may lag
behind; a listing of the folder without it does, once no request can be under way any more.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace

import orjson

from holdfast.drain.chunks import BatchStep, SinglesStep, Step, order_items
from holdfast.drain.notes import read_note
from holdfast.format.receipt import QueueItem

LONGEST_REQUEST_S = 300.0
"""How long a request may still be under way; no server keeps one for so long."""

MOST_TRIES = 10
"""How often an orphan file is looked for while GitHub does not list its folder: that may be gone for good."""

# The names are those of earlier versions: a note of theirs must be understood.
_PENDING_WRITE = "write/"
_ORPHAN_FILE = "litter/"


@dataclass(frozen=True, slots=True)
class PendingWrite:
    """Checkpoints of one run that are written together; `files` has every path ever tried, with its blob."""

    run_id: str
    checkpoint_ids: tuple[str, ...]
    is_batch: bool
    files: Mapping[str, str] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Return the name of the note; a run has one write under way at a time."""
        return pending_write_name(self.run_id)

    def adding(self, files: Iterable[tuple[str, str]]) -> "PendingWrite":
        """Return the pending write with more files that may come to exist."""
        return replace(self, files={**self.files, **dict(files)})

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(asdict(self))


def pending_write_name(run_id: str) -> str:
    """Return the name of the note about a run's pending write."""
    return _PENDING_WRITE + run_id


def pending_writes(notes: Mapping[str, bytes]) -> list[PendingWrite]:
    """Return every pending write among the notes. Raises SpoolUnwritable if one is of a newer format."""
    return [
        _parse_pending_write(name, content)
        for name, content in notes.items()
        if name.startswith(_PENDING_WRITE)
    ]


def _parse_pending_write(name: str, content: bytes) -> PendingWrite:
    write = read_note(PendingWrite, name, content)
    return replace(write, checkpoint_ids=tuple(write.checkpoint_ids))


@dataclass(frozen=True, slots=True)
class Unfinished:
    """How pending writes are finished, and which of them are about nothing that still waits."""

    steps: tuple[Step, ...]
    obsolete: tuple[PendingWrite, ...]


def plan_unfinished(
    writes: Sequence[PendingWrite], due: Sequence[QueueItem], waiting: Collection[str]
) -> Unfinished:
    """Return the steps that finish what was begun, and the notes about nothing that still waits.

    They come before all others, so that nothing is stored twice. `due` may be written now; `waiting` are the
    ids of all checkpoints in the queue.
    """
    steps: list[Step] = []
    obsolete = []
    ordered = order_items(due)
    for write in writes:
        items = tuple(item for item in ordered if item.checkpoint_id in write.checkpoint_ids)
        if items:
            steps.append((BatchStep if write.is_batch else SinglesStep)(write.run_id, items))
        elif not any(identity in waiting for identity in write.checkpoint_ids):
            obsolete.append(write)
    return Unfinished(tuple(steps), tuple(obsolete))


@dataclass(frozen=True, slots=True)
class OrphanFile:
    """A file that was deleted, or never seen, and when to delete it once more."""

    path: str
    blob_sha: str
    due_at: float
    tries: int = 0

    @property
    def name(self) -> str:
        """Return the name of the note."""
        return orphan_name(self.path)

    def is_due(self, now: float) -> bool:
        """Whether no request for it can be under way any more."""
        return self.due_at <= now

    def as_of(self, now: float) -> "OrphanFile":
        """Return it due no later than a request can last: the clock may have been set back since."""
        return replace(self, due_at=min(self.due_at, now + LONGEST_REQUEST_S))

    def later(self, now: float, *, is_tried: bool = True) -> "OrphanFile | None":
        """Return it with the time of its next try; None if it was tried often enough."""
        tries = self.tries + is_tried
        return replace(self, due_at=now + LONGEST_REQUEST_S, tries=tries) if tries < MOST_TRIES else None

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(asdict(self))


def orphan_name(path: str) -> str:
    """Return the name of the note about an orphan file."""
    return _ORPHAN_FILE + path


def orphan_files(notes: Mapping[str, bytes]) -> list[OrphanFile]:
    """Return every orphan file that the notes are about. Raises SpoolUnwritable for a newer format."""
    return [
        read_note(OrphanFile, name, content)
        for name, content in notes.items()
        if name.startswith(_ORPHAN_FILE)
    ]
