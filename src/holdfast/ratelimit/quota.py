"""What GitHub's headers say of one resource: so many calls until the reset."""

from collections.abc import Mapping
from dataclasses import dataclass, replace

RESET_GRACE_S = 5.0  # after a reset, so that every clock of GitHub's has passed it


@dataclass(frozen=True, slots=True)
class Quota:
    """The calls of one resource, as the headers last told; every time is in the server's epoch seconds."""

    limit: int
    remaining: int
    used: int
    reset_at: float

    @property
    def renewed_at(self) -> float:
        """When the calls can be relied on again: some seconds after the reset."""
        return self.reset_at + RESET_GRACE_S

    def remaining_at(self, server_time: float) -> int:
        """Return how many calls are left; the reset restores them."""
        return self.limit if server_time >= self.reset_at else self.remaining

    def reliable_at(self, server_time: float) -> int:
        """Return how many calls we may count on: they are restored some seconds after the reset."""
        return self.limit if server_time >= self.renewed_at else self.remaining

    def less_one(self) -> "Quota":
        """Return the quota after one more call, as far as we can tell before its answer."""
        return replace(self, remaining=max(0, self.remaining - 1), used=self.used + 1)


def parse_quota(headers: Mapping[str, str]) -> Quota | None:
    """Return what the headers `x-ratelimit-*` say, or None if they say nothing of use.

    >>> parse_quota({"x-ratelimit-limit": "60", "x-ratelimit-remaining": "59", "x-ratelimit-reset": "7"})
    Quota(limit=60, remaining=59, used=1, reset_at=7.0)
    """
    try:
        limit = int(headers["x-ratelimit-limit"])
        remaining = int(headers["x-ratelimit-remaining"])
        reset_at = float(int(headers["x-ratelimit-reset"]))
        used = int(headers.get("x-ratelimit-used", limit - remaining))
    except (KeyError, ValueError):
        return None
    return Quota(limit=limit, remaining=remaining, used=used, reset_at=reset_at)
