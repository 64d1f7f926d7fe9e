"""Litter: what an abandoned attempt may still leave behind, long after everyone has stopped waiting for it.

GitHub may carry out a request whose connection was cut some time later. If its checkpoint was stored under
another number meanwhile, the late file would be a second copy; so it is looked for once more.
"""

from dataclasses import asdict, dataclass

import orjson

PATIENCE_S = 300.0
"""How long a request may still be under way; no server keeps one for so long."""

_NAME = "litter/"


@dataclass(frozen=True, slots=True)
class Litter:
    """A file that was deleted, or never seen, and when to delete it once more."""

    path: str
    blob_sha: str
    due_at: float

    @property
    def name(self) -> str:
        """Return the name of the note."""
        return _NAME + self.path

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(asdict(self))


def is_litter(name: str) -> bool:
    """Return whether a note of this name is about litter."""
    return name.startswith(_NAME)


def parse_litter(content: bytes) -> Litter:
    """Return the litter that a note tells of."""
    return Litter(**orjson.loads(content))
