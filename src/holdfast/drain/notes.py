"""Reading the notes in the spool: one that a newer Holdfast has written is told of, and left alone."""

from typing import TypeVar

import orjson

from holdfast.errors import SpoolUnwritable

NoteT = TypeVar("NoteT")

OUTAGE_NOTE = "trouble"
"""The name of the note in the spool that remembers an outage across restarts."""


def read_note(kind: type[NoteT], name: str, content: bytes) -> NoteT:
    """Return what a note says. Raises SpoolUnwritable if it says more, or other things, than we know of."""
    try:
        return kind(**orjson.loads(content))
    except TypeError as error:
        raise SpoolUnwritable(
            f"the note {name!r} in the spool is of a newer format than this Holdfast knows; "
            "use the version that wrote it"
        ) from error
