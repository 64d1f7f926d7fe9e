"""What users name: a run, a file, a number. A WrongUse says what to change where one cannot be used."""

import math
from pathlib import Path

from holdfast.presentation.exits import WrongUse


def check_run_id(text: str) -> str:
    """Return `text` if it can name a run. Raises WrongUse."""
    from holdfast.format.ids import parse_run_id

    try:
        return parse_run_id(text)
    except ValueError as error:
        raise WrongUse(f"{text!r} names no run: {error}") from error


def parse_number(text: str) -> float:
    """Return the number that `text` spells; if it spells none, NaN, which is in no range.

    >>> parse_number("1.5"), parse_number("soon")
    (1.5, nan)
    """
    try:
        return float(text)
    except ValueError:
        return math.nan


def read_file(name: str | Path) -> bytes:
    """Return the whole of a file that may hold a checkpoint. Raises WrongUse."""
    from holdfast.settings import MOST_BYTES

    try:
        with Path(name).open("rb") as file:
            content = file.read(MOST_BYTES + 1)
    except (OSError, ValueError) as error:
        reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
        raise WrongUse(f"{name} cannot be read: {reason}") from error
    return check_size(content, str(name))


def check_size(content: bytes, label: str) -> bytes:
    """Return `content` if a checkpoint may be that large. Raises WrongUse."""
    from holdfast.settings import MOST_BYTES

    if len(content) > MOST_BYTES:
        raise WrongUse(
            f"{label} has more than {MOST_BYTES:,} bytes, which is the most that a checkpoint may have; "
            "keep large outputs elsewhere and store references to them"
        )
    return content


def check_filled(content: bytes, label: str) -> bytes:
    """Return `content` if there is something in it. Raises WrongUse."""
    if not content.strip():
        raise WrongUse(f"{label} is empty; a checkpoint is a JSON document")
    return content
