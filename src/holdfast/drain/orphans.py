"""Orphan files: what an abandoned attempt may still leave behind, long after everyone stopped waiting for it.

GitHub may carry out a request whose connection was cut some time later. If its checkpoint was stored under
another number meanwhile, the late file would be a second copy; so it is looked for once more. An answer that
there is no such file proves nothing, as it may come from a server that lags behind; a listing of the folder
without it does, once no request can be under way any more.
"""

from dataclasses import asdict, dataclass, replace

import orjson

PATIENCE_S = 300.0
"""How long a request may still be under way; no server keeps one for so long."""

MOST_TRIES = 10
"""How often it is looked for where nobody lists the folder, as that is gone with all that was in it."""

_NAME = "litter/"


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
        return _NAME + self.path

    def later(self, now: float, *, is_tried: bool = True) -> "OrphanFile | None":
        """Return it with the time of its next try; None if it was tried often enough."""
        tries = self.tries + is_tried
        return replace(self, due_at=now + PATIENCE_S, tries=tries) if tries < MOST_TRIES else None

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(asdict(self))


def is_orphan(name: str) -> bool:
    """Return whether a note of this name is about orphan."""
    return name.startswith(_NAME)


def parse_orphan(content: bytes) -> OrphanFile:
    """Return the orphan that a note tells of."""
    return OrphanFile(**orjson.loads(content))
