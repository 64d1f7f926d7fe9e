"""What a run and a checkpoint may be called."""

import re
from datetime import datetime
from uuid import UUID

from holdfast.format.paths import MOST_DIGITS, PRESERVED_RUNS, RETENTION_LOG

_RUN_ID = re.compile(r"[A-Za-z0-9][A-Za-z0-9._-]{0,127}")
_USUAL_UUID = re.compile(r"[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12}")
# A checkout of the repository must work on every system, also where these names are devices.
_DEVICE = re.compile(r"(con|prn|aux|nul|com\d|lpt\d)(\..*)?", re.IGNORECASE)
_TAKEN = frozenset({PRESERVED_RUNS, RETENTION_LOG})

At = int | str
"""Which checkpoint of a run is meant: its sequence number, or its id."""


def parse_run_id(text: str) -> str:
    """Return `text` if it can name a run; nothing is ever cleaned up silently.

    >>> parse_run_id("build-42")
    'build-42'

    Raises ValueError with what is allowed.
    """
    if not _RUN_ID.fullmatch(text):
        raise ValueError("use 1 to 128 characters of A-Z a-z 0-9 . _ - that begin with a letter or a digit")
    if ".." in text or text.endswith("."):
        raise ValueError("a run_id has no '..' in it and no dot at its end")
    if text in _TAKEN or _DEVICE.fullmatch(text):
        raise ValueError(f"{text!r} is the name of something else; choose another")
    return text


def parse_checkpoint_id(text: str) -> str:
    """Return the UUID in its usual spelling.

    >>> parse_checkpoint_id("550E8400-E29B-41D4-A716-446655440000")
    '550e8400-e29b-41d4-a716-446655440000'

    Raises ValueError if it is not a UUID.
    """
    if _USUAL_UUID.fullmatch(text):  # a tenth of the time that the class takes, with every save
        return text
    try:
        return str(UUID(text))
    except ValueError:
        raise ValueError("use a UUID, or leave it out and one is made") from None


def is_checkpoint_id(text: str) -> bool:
    """Whether `text` can be the id of a checkpoint."""
    try:
        return bool(parse_checkpoint_id(text))
    except ValueError:
        return False


def parse_at(text: str) -> At:
    """Return the sequence number, or the checkpoint's id, that `text` is.

    >>> parse_at("7"), parse_at("550E8400-E29B-41D4-A716-446655440000")
    (7, '550e8400-e29b-41d4-a716-446655440000')

    Raises ValueError if it is neither.
    """
    is_number = text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS
    if is_number and int(text) > 0:
        return int(text)
    try:
        return parse_checkpoint_id(text)
    except ValueError:
        raise ValueError("use a checkpoint's number, which counts from 1, or its id") from None


def parse_timestamp(text: str) -> str:
    """Return `text` as it is if it names one moment of time in ISO 8601.

    >>> parse_timestamp("2026-11-16T10:00:00Z")
    '2026-11-16T10:00:00Z'

    Raises ValueError if it is not a time, or has no time zone.
    """
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        raise ValueError("use ISO 8601, such as 2026-11-16T10:00:00Z, or leave it out") from None
    if moment.tzinfo is None:
        raise ValueError("say the time zone, such as 2026-11-16T10:00:00Z")
    return text
