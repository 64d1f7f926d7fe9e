"""A pending write: what is about to be written, kept on disk until it is known to be done.

After a crash the note says which checkpoints were under way together, and which files they may
have left behind, so that the same write is finished and nothing is stored twice.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace

import orjson

_NAME = "write/"


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
        return _NAME + self.run_id

    def adding(self, files: Iterable[tuple[str, str]]) -> "PendingWrite":
        """Return the pending write with more files that may come to exist."""
        return replace(self, files={**self.files, **dict(files)})

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(
            {
                "run_id": self.run_id,
                "checkpoint_ids": self.checkpoint_ids,
                "is_batch": self.is_batch,
                "files": dict(self.files),
            }
        )


def is_pending_write(name: str) -> bool:
    """Return whether a note of this name is a pending write."""
    return name.startswith(_NAME)


def parse_pending_write(content: bytes) -> PendingWrite:
    """Return the pending write that a note holds."""
    values = orjson.loads(content)
    return PendingWrite(
        values["run_id"], tuple(values["checkpoint_ids"]), bool(values["is_batch"]), dict(values["files"])
    )
