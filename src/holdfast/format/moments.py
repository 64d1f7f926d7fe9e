"""Moments of time as the stored files write them."""

from datetime import UTC, datetime
from functools import lru_cache


def format_moment(seconds: float) -> str:
    """Return a moment, given in seconds since the epoch, as ISO 8601 in UTC.

    >>> format_moment(0)
    '1970-01-01T00:00:00.000Z'
    """
    second, microsecond = divmod(round(seconds * 1_000_000), 1_000_000)
    return f"{_format_second(second)}.{microsecond // 1000:03d}Z"


@lru_cache(maxsize=8)  # a sidecar writes hundreds of moments within one
def _format_second(second: int) -> str:
    return datetime.fromtimestamp(second, UTC).isoformat().removesuffix("+00:00")


def epoch(moment: str) -> float:
    """Return a moment in seconds since the epoch; 0 if it is none.

    >>> epoch("1970-01-01T00:01:00Z"), epoch("")
    (60.0, 0.0)
    """
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0
