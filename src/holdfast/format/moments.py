"""Moments of time as the stored files write them."""

from datetime import UTC, datetime


def format_moment(seconds: float) -> str:
    """Return a moment, given in seconds since the epoch, as ISO 8601 in UTC.

    >>> format_moment(0)
    '1970-01-01T00:00:00.000Z'
    """
    return datetime.fromtimestamp(seconds, UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")


def epoch(moment: str) -> float:
    """Return a moment in seconds since the epoch; 0 if it is none.

    >>> epoch("1970-01-01T00:01:00Z"), epoch("")
    (60.0, 0.0)
    """
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
