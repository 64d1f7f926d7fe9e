"""The values of the budget: what GitHub allows and its headers say, what a call costs, how long to wait.

The numbers are GitHub's own, see
https://docs.github.com/en/rest/using-the-rest-api/rate-limits-for-the-rest-api
"""

from collections.abc import Mapping
from math import ceil, inf
from typing import NamedTuple

from holdfast.errors import ThrottleKind

LEAST_CAPACITY = 3  # the requests of one checkpoint: its file, index.json, latest.json
RESET_GRACE_S = 5.0  # after a reset, so that every clock of GitHub's has passed it


class Limits(NamedTuple):
    """What GitHub allows; 0 means no limit. A server without content limits has no points either."""

    write_interval_s: float = 1.0
    content_per_minute: int = 80
    content_per_hour: int = 500
    pushes_per_minute: int = 6
    rest_points_per_minute: int = 900
    graphql_points_per_minute: int = 2000
    low_budget: int = 100
    requests_per_hour: int | None = None
    critical_share: float = 0.05
    margin: float = 0.1

    @property
    def has_content_limits(self) -> bool:
        """Whether limits hold that no header shows: not on the embedded GitHub, nor on Enterprise Server."""
        return bool(self.content_per_minute or self.content_per_hour)

    def points_capacity(self, resource: str, *, is_slow: bool) -> float:
        """Return the points a minute that we plan for `resource`."""
        limit = self.graphql_points_per_minute if resource == "graphql" else self.rest_points_per_minute
        if not self.has_content_limits:
            return inf
        return self.capacity(limit, is_critical=True, is_slow=is_slow)

    def capacity(self, limit: int, *, is_critical: bool, is_slow: bool = False) -> float:
        """Return how much we plan to use of a `limit` that no header shows, as others may share the token."""
        if not limit:
            return inf
        usable = max(int(limit * (1 - self.margin)), min(limit, LEAST_CAPACITY))
        if is_slow:
            usable = max(usable // 2, min(usable, LEAST_CAPACITY))
        if is_critical:
            return usable
        reserve = max(ceil(limit * self.critical_share), min(LEAST_CAPACITY, usable // 4))
        return max(usable - reserve, min(usable, LEAST_CAPACITY))

    def calls_kept_back(self, limit: int) -> int:
        """Return how many of the calls that the headers show only critical checkpoints may use."""
        return min(ceil(limit * self.critical_share), max(self.low_budget // 2, LEAST_CAPACITY))


class Quota(NamedTuple):
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
        return self._replace(remaining=max(0, self.remaining - 1), used=self.used + 1)


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


class Cost(NamedTuple):
    """What one call costs."""

    resource: str = "core"
    is_mutation: bool = False
    creates_content: bool = False

    @property
    def points(self) -> int:
        """Return the price on GitHub's scale of points a minute."""
        return 5 if self.is_mutation else 1

    @property
    def need(self) -> "Need":
        """Return the cost as a need for room."""
        return Need(self.resource, requests=1, content=int(self.creates_content), points=self.points)


class Need(NamedTuple):
    """The room that one or several calls need."""

    resource: str = "core"
    requests: int = 0
    content: int = 0
    points: int = 0

    def plus(self, other: "Need") -> "Need":
        """Return both needs together."""
        return Need(
            self.resource,
            self.requests + other.requests,
            self.content + other.content,
            self.points + other.points,
        )


class Room(NamedTuple):
    """What may be spent now; infinite where there is no limit."""

    requests: float
    content_minute: float
    content_hour: float
    points: float

    def fits(self, need: Need) -> bool:
        """Whether `need` stays within the room."""
        return (
            need.requests <= self.requests
            and need.content <= min(self.content_minute, self.content_hour)
            and need.points <= self.points
        )


class Wait(NamedTuple):
    """How long to wait and why; zero seconds mean: go."""

    seconds: float
    reason: str
    kind: ThrottleKind = "own_budget"


GO = Wait(0.0, "")
