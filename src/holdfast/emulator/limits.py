"""GitHub's rate limits: the hourly budget that headers show, and the secondary limits that none does."""

import math
import threading
from collections import defaultdict, deque
from dataclasses import dataclass
from typing import Literal

from holdfast.emulator.apps import ANYONE, Caller
from holdfast.emulator.exchange import Answer, Refusal, json_answer
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.shapes import format_time

Resource = Literal["core", "graphql"]

HOUR_S = 3600.0
MINUTE_S = 60.0
PRIMARY_DOCUMENTATION = "https://docs.github.com/rest/using-the-rest-api/rate-limits-for-the-rest-api"
SECONDARY_DOCUMENTATION = (
    "https://docs.github.com/rest/overview/resources-in-the-rest-api#secondary-rate-limits"
)
SECONDARY_MESSAGE = (
    "You have exceeded a secondary rate limit. Please wait a few minutes before you try again."
)
CONTENT_MESSAGE = (
    "You have exceeded a secondary rate limit and have been temporarily blocked from content creation. "
    "Please retry your request again later."
)


@dataclass(frozen=True)
class Cost:
    """What one request draws: from which budget, how many secondary points, and whether it makes content."""

    resource: Resource
    points: int
    is_content: bool = False
    is_free: bool = False


class SlidingWindow:
    """A sum over the last `span_s` seconds."""

    def __init__(self, span_s: float) -> None:
        self._span_s = span_s
        self._spent: deque[tuple[float, int]] = deque()
        self._total = 0

    def wait_s(self, now: float, amount: int, limit: int) -> float:
        """Return how long to wait until `amount` more fits under `limit`; 0 if it fits now."""
        while self._spent and self._spent[0][0] <= now - self._span_s:
            self._total -= self._spent.popleft()[1]
        excess = self._total + amount - limit
        for when, spent in self._spent:
            if excess <= 0:
                break
            excess -= spent
            wait = when + self._span_s - now
        else:
            return 0.0 if self._total + amount <= limit else self._span_s
        return wait if self._total + amount > limit else 0.0

    def spend(self, now: float, amount: int) -> None:
        """Count `amount` at this moment."""
        self._spent.append((now, amount))
        self._total += amount


class _Spent:
    """What one caller has drawn."""

    def __init__(self) -> None:
        self.primary: dict[Resource, tuple[float, int]] = {}
        self.content = (SlidingWindow(MINUTE_S), SlidingWindow(HOUR_S))
        self.points: dict[Resource, SlidingWindow] = {
            "core": SlidingWindow(MINUTE_S),
            "graphql": SlidingWindow(MINUTE_S),
        }


class Limits:
    """Counts every request against every limit that is switched on, for each caller by itself."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._spent: defaultdict[str, _Spent] = defaultdict(_Spent)
        self.primary_refusals = 0
        self.secondary_refusals = 0

    def admit(
        self, options: EmulatorOptions, now: float, cost: Cost, request_id: str, caller: Caller = ANYONE
    ) -> Answer | None:
        """Charge a request, or return the answer that turns it away."""
        with self._lock:
            spent = self._spent[caller.name]
            start, used = _window(options, spent, cost.resource, now)
            if not cost.is_free and used >= _limit(options, caller):
                self.primary_refusals += 1
                return _primary_refusal(options, cost.resource, now, request_id, caller)
            refused = _secondary_refusal(options, spent, now, cost)
            if refused is not None:
                self.secondary_refusals += 1
                return refused
            if not cost.is_free:
                spent.primary[cost.resource] = (start, used + 1)
            spent.points[cost.resource].spend(now, cost.points)
            if cost.is_content:
                for window in spent.content:
                    window.spend(now, 1)
            return None

    def refund(self, resource: Resource, caller: Caller = ANYONE) -> None:
        """Give back what an unchanged (304) answer was charged."""
        with self._lock:
            primary = self._spent[caller.name].primary
            start, used = primary.get(resource, (0.0, 0))
            primary[resource] = (start, max(0, used - 1))

    def headers(
        self, options: EmulatorOptions, now: float, resource: Resource, caller: Caller = ANYONE
    ) -> dict[str, str]:
        """Return the headers that tell the caller about its budget."""
        numbers = self._numbers(options, now, resource, caller)
        return {f"x-ratelimit-{name}": str(value) for name, value in numbers.items()} | {
            "x-ratelimit-resource": resource
        }

    def overview(
        self, options: EmulatorOptions, now: float, caller: Caller = ANYONE
    ) -> dict[str, dict[str, int]]:
        """Return every resource's numbers, as `GET /rate_limit` shows them."""
        unused = {"limit": 30, "remaining": 30, "used": 0, "reset": math.ceil(now + MINUTE_S)}
        return {
            "core": self._numbers(options, now, "core", caller),
            "search": unused,
            "graphql": self._numbers(options, now, "graphql", caller),
        }

    def spend_primary(
        self,
        options: EmulatorOptions,
        now: float,
        resource: Resource,
        remaining: int,
        caller: Caller = ANYONE,
    ) -> None:
        """Draw the hourly budget of a caller down until only `remaining` requests are left."""
        with self._lock:
            spent = self._spent[caller.name]
            start, _ = _window(options, spent, resource, now)
            spent.primary[resource] = (start, max(0, _limit(options, caller) - remaining))

    def _numbers(
        self, options: EmulatorOptions, now: float, resource: Resource, caller: Caller
    ) -> dict[str, int]:
        with self._lock:
            start, used = _window(options, self._spent[caller.name], resource, now)
        limit = _limit(options, caller)
        return {
            "limit": limit,
            "remaining": max(0, limit - used),
            "reset": math.ceil(start + HOUR_S),
            "used": used,
        }


def _limit(options: EmulatorOptions, caller: Caller) -> int:
    return options.primary_limit if caller.limit is None else caller.limit


def _window(options: EmulatorOptions, spent: _Spent, resource: Resource, now: float) -> tuple[float, int]:
    first = now - now % HOUR_S if options.is_hour_fixed else now
    start, used = spent.primary.get(resource, (first, 0))
    # A reset is announced in whole seconds, so the window ends on one.
    if now >= math.ceil(start + HOUR_S):
        return now, 0
    return start, used


def _secondary_refusal(options: EmulatorOptions, spent: _Spent, now: float, cost: Cost) -> Answer | None:
    limits = (options.content_per_minute, options.content_per_hour)
    if cost.is_content:
        for window, limit in zip(spent.content, limits, strict=True):
            if limit is not None and (wait_s := window.wait_s(now, 1, limit)) > 0:
                return _secondary_answer(options, CONTENT_MESSAGE, wait_s)
    points = options.points_per_minute if cost.resource == "core" else options.graphql_points_per_minute
    if points is not None:
        wait_s = spent.points[cost.resource].wait_s(now, cost.points, points)
        if wait_s > 0:
            return _secondary_answer(options, SECONDARY_MESSAGE, wait_s)
    return None


def _secondary_answer(options: EmulatorOptions, message: str, wait_s: float) -> Answer:
    headers = {"retry-after": str(math.ceil(wait_s))} if options.secondary_with_retry_after else {}
    refusal = Refusal(
        options.secondary_status, message, documentation=SECONDARY_DOCUMENTATION, headers=headers
    )
    return refusal.answer()


def _primary_refusal(
    options: EmulatorOptions, resource: Resource, now: float, request_id: str, caller: Caller
) -> Answer:
    message = (
        f"API rate limit exceeded for {caller.name}. If you reach out to GitHub Support for help, please "
        f"include the request ID {request_id} and timestamp {format_time(now)}."
    )
    if resource == "graphql":
        error = {"type": "RATE_LIMITED", "message": f"API rate limit exceeded for {caller.name}."}
        return json_answer({"errors": [error]})
    return Refusal(options.primary_status, message, documentation=PRIMARY_DOCUMENTATION).answer()
