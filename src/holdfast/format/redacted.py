"""What was taken out of a checkpoint: the mark in its place, and the list of places, never the values."""

from dataclasses import dataclass

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.parse import parse_value

REDACTED_MEMBER = "redacted"
"""The member of a checkpoint that lists what was taken out of it."""

MARK = "[redacted by holdfast]"
"""What stands where a credential stood. One for all kinds, so that the same content always ends the same."""

_ADVICE = "this name is kept for the list of what was taken out; use another one"


@dataclass(frozen=True, slots=True)
class Redacted:
    """A place in a checkpoint, as a JSON pointer, and the kind of credential that stood there."""

    path: str
    kind: str


def format_redacted(places: tuple[Redacted, ...]) -> bytes:
    """Return the member's text.

    >>> format_redacted((Redacted("/state_snapshot/key", "npm-token"),))
    b'[{"path":"/state_snapshot/key","kind":"npm-token"}]'
    """
    return orjson.dumps(places)


def parse_redacted(text: bytes | memoryview) -> tuple[Redacted, ...]:
    """Return the places that a member lists. Raises InvalidCheckpoint if it is no such list."""
    try:
        return tuple(Redacted(str(each["path"]), str(each["kind"])) for each in parse_value(bytes(text)))
    except (TypeError, KeyError) as error:
        raise InvalidCheckpoint(REDACTED_MEMBER, _ADVICE) from error
