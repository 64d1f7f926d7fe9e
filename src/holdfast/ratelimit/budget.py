"""How many calls are left, and how long to wait for more.

Two kinds of limits: those that GitHub's headers show (calls an hour for each resource), and those that no
header shows (content-creating requests a minute and an hour, points a minute, a pause between two writes),
for which we count ourselves.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf
from typing import NamedTuple

from holdfast.errors import ThrottleKind
from holdfast.ratelimit.clock_skew import ClockSkew
from holdfast.ratelimit.limits import GO, Cost, Limits, Need, Quota, Room, Wait, parse_quota
from holdfast.ratelimit.window import SlidingWindow

MINUTE_S = 60.0
HOUR_S = 3600.0
SECONDARY_WAIT_S = 60.0
LONGEST_SECONDARY_WAIT_S = 1800.0
SLOW_FOR_S = 600.0  # how long we keep to half our rate after a secondary limit
ROUNDING_S = 1e-6  # about the smallest difference of two epoch seconds in a float, so not a wait
REFUSALS = frozenset({403, 429})  # the statuses that may mean that we ask too much
EVERYTHING = "all"  # the name under which a block holds for every resource


class Block(NamedTuple):
    """GitHub told us to stay away until `until`, in steady time."""

    until: float
    kind: ThrottleKind
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What is known of GitHub's limits. Every `now` is in the local clock's epoch seconds."""

    limits: Limits = field(default_factory=Limits)
    clock_skew: ClockSkew = field(default_factory=ClockSkew)
    quotas: Mapping[str, Quota] = field(default_factory=dict)
    blocks: Mapping[str, Block] = field(default_factory=dict)
    content: SlidingWindow = field(default_factory=lambda: SlidingWindow(HOUR_S))
    points: Mapping[str, SlidingWindow] = field(default_factory=dict)
    last_mutation_at: float = -inf
    strikes: int = 0
    slow_until: float = -inf
    last_resource: str = "core"
    calls_this_run: int = 0
    told_low: Mapping[str, float] = field(default_factory=dict)
    """The reset of the window, by resource, of which it was told that little is left."""

    def at(self, now: float) -> "Budget":
        """Return the budget after the local clock was seen at `now`, which corrects a jump back."""
        return replace(self, clock_skew=self.clock_skew.at(now))

    def is_slow(self, now: float) -> bool:
        """Whether we keep to half our rate because GitHub complained lately."""
        return self.clock_skew.steady_time(now) < self.slow_until

    # What happens

    def spend(self, cost: Cost, now: float) -> "Budget":
        """Return the budget after a call of `cost` is sent."""
        clock_skew = self.clock_skew.at(now)
        steady = clock_skew.steady_time(now)
        points = self._points_of(cost.resource).add(steady, cost.points)
        return replace(
            self,
            clock_skew=clock_skew,
            quotas=_quotas_after_one(self, cost.resource, now),
            content=self.content.add(steady) if cost.creates_content else self.content,
            points={**self.points, cost.resource: points},
            last_mutation_at=steady if cost.is_mutation else self.last_mutation_at,
            calls_this_run=self.calls_this_run + 1,
        )

    def observe(
        self, status: int, headers: Mapping[str, str], now: float, resource: str = "core"
    ) -> "Budget":
        """Return the budget after an answer with these headers, whose names are in lower case."""
        clock_skew = self.clock_skew.at(now).synchronised(headers.get("date", ""), now)
        is_forgiven = status < 400 and not self.is_slow(now)
        budget = replace(self, clock_skew=clock_skew, strikes=0 if is_forgiven else self.strikes)
        quota = parse_quota(headers)
        if quota is None:
            return budget
        name = headers.get("x-ratelimit-resource") or resource
        seen = replace(budget, quotas={**self.quotas, name: quota}, last_resource=name)
        # Kept as one with the headers: whoever dies before the refusal is understood must know of it.
        is_used_up = status in REFUSALS and quota.remaining == 0
        return seen.block("primary", None, name, now) if is_used_up else seen

    def tell_low(self) -> "tuple[Budget, Quota | None]":
        """Return the quota that an answer has just shown to be low, once in each window, and that it is told.

        What was spent before that answer cannot tell when it fell so low: that was expected already.
        """
        name = self.last_resource
        quota = self.quotas.get(name)
        if quota is None or quota.remaining >= self.limits.low_budget:
            return self, None
        if abs(self.told_low.get(name, -inf) - quota.reset_at) < MINUTE_S:
            return self, None
        return replace(self, told_low={**self.told_low, name: quota.reset_at}), quota

    def block(
        self, kind: ThrottleKind, retry_after_s: float | None, resource: str, now: float, reason: str = ""
    ) -> "Budget":
        """Return the budget after GitHub refused a call for its rate; our own budget blocks nothing.

        A primary limit ends some seconds after the reset; that of `core` holds for every resource. A
        secondary limit holds for every resource, as long as GitHub asks, or for a minute. Each further one
        soon after doubles the wait, and for a while we keep to half our rate.
        """
        budget = self.at(now)
        if kind == "own_budget":
            return budget
        if kind == "primary":
            until = _end_of_primary(budget, resource, retry_after_s, now)
            name = resource if resource == "graphql" else EVERYTHING
            return _with_block(budget, name, Block(until, kind, reason or "GitHub's calls are used up"))
        strikes = budget.strikes + 1 if budget.is_slow(now) else 1
        until = budget.clock_skew.steady_time(now) + _secondary_wait_s(strikes, retry_after_s or 0.0)
        block = Block(until, kind, reason or "GitHub asked us to slow down")
        slowed = replace(budget, strikes=strikes, slow_until=until + SLOW_FOR_S)
        return _with_block(slowed, EVERYTHING, block)

    # What is left

    def remaining(self, resource: str, now: float) -> int | None:
        """Return how many calls the headers leave us, or None if that is not known."""
        quota = self.quotas.get(resource)
        return quota.remaining_at(self.server_time(now)) if quota else self.limits.requests_per_hour

    def is_low(self, now: float, resource: str = "core") -> bool:
        """Whether fewer calls remain than HOLDFAST_LOW_BUDGET."""
        remaining = self.remaining(resource, now)
        return remaining is not None and remaining < self.limits.low_budget

    def content_capacity(self, now: float, *, is_critical: bool = False) -> tuple[float, float]:
        """Return how many content-creating requests we plan for a minute and for an hour at most."""
        limits = self.limits
        minute = limits.capacity(
            limits.content_per_minute, is_critical=is_critical, is_slow=self.is_slow(now)
        )
        return minute, limits.capacity(limits.content_per_hour, is_critical=is_critical)

    def content_spent(self, now: float, span_s: float = HOUR_S) -> int:
        """Return how many content-creating requests were sent in the last `span_s` seconds."""
        return self.content.total(self.clock_skew.steady_time(now), span_s)

    def room(self, resource: str, now: float, *, is_critical: bool = False) -> Room:
        """Return what may be spent on `resource` now; the last share is for critical checkpoints alone."""
        minute, hour = self.content_capacity(now, is_critical=is_critical)
        points = self.limits.points_capacity(resource, is_slow=self.is_slow(now))
        points_spent = self._points_of(resource).total(self.clock_skew.steady_time(now))
        return Room(
            requests=max(0.0, _calls_left(self, resource, now, is_critical=is_critical)),
            content_minute=max(0.0, minute - self.content_spent(now, MINUTE_S)),
            content_hour=max(0.0, hour - self.content_spent(now)),
            points=max(0.0, points - points_spent),
        )

    def seconds_to_reset(self, resource: str, now: float) -> float:
        """Return how long until the calls of `resource` are restored; 0 if nothing is known of them."""
        quota = self.quotas.get(resource)
        return max(0.0, quota.reset_at - self.server_time(now)) if quota else 0.0

    # How long to wait

    def delay(self, cost: Cost, now: float, *, is_critical: bool = False) -> Wait:
        """Return how long a call of `cost` waits, and why."""
        for_room = self.delay_for(cost.need, now, is_critical=is_critical)
        if not cost.is_mutation:
            return for_room
        spacing_s = self.last_mutation_at + self._interval_s(now) - self.clock_skew.steady_time(now)
        return _longest([for_room, Wait(spacing_s, "GitHub asks for a pause between two writes")])

    def delay_for(self, need: Need, now: float, *, is_critical: bool = False) -> Wait:
        """Return how long until there is room for `need`; the pause between writes is not counted."""
        wait = self._delay_for(need, now, is_critical=is_critical)
        if wait.seconds and not is_critical and not self._delay_for(need, now, is_critical=True).seconds:
            return wait._replace(reason=f"{wait.reason}, but for those kept for critical checkpoints")
        return wait

    def _delay_for(self, need: Need, now: float, *, is_critical: bool) -> Wait:
        steady = self.clock_skew.steady_time(now)
        minute, hour = self.content_capacity(now, is_critical=is_critical)
        points = self.limits.points_capacity(need.resource, is_slow=self.is_slow(now))
        points_wait_s = self._points_of(need.resource).wait_for(need.points, points, steady)
        return _longest(
            [
                *self._blocks_of(need.resource, now),
                _delay_for_calls(self, need, now, is_critical=is_critical),
                Wait(
                    self.content.wait_for(need.content, minute, steady, MINUTE_S),
                    "the content-creating requests of this minute are used up",
                ),
                Wait(
                    self.content.wait_for(need.content, hour, steady),
                    "the content-creating requests of this hour are used up",
                ),
                Wait(points_wait_s, "this minute's points are used up"),
            ]
        )

    def seconds_for_content(
        self, requests: int, now: float, *, begin_in_s: float = 0.0, is_critical: bool = False
    ) -> float:
        """Return in about how many seconds `requests` content-creating requests are done."""
        minute, hour = self.content_capacity(now, is_critical=is_critical)
        return max(
            begin_in_s + requests * self._interval_s(now),
            self._seconds_within(minute, MINUTE_S, requests, now),
            self._seconds_within(hour, HOUR_S, requests, now),
        )

    def seconds_for_calls(
        self, requests: int, resource: str, now: float, *, is_critical: bool = False
    ) -> float:
        """Return in how many seconds the headers' limits leave room for the last of `requests` calls."""
        quota = self.quotas.get(resource)
        later = requests - _calls_left(self, resource, now, is_critical=is_critical)
        if quota is None or later <= 0:
            return 0.0
        an_hour = max(1, quota.limit - self.limits.calls_kept_back(quota.limit))
        wait = _delay_for_calls(self, Need(resource, requests), now, is_critical=is_critical)
        return wait.seconds + (ceil(later / an_hour) - 1) * HOUR_S

    def longest_block(self, now: float) -> Wait:
        """Return how long even a critical call of some resource must stay away, and why."""
        blocks = (*self._blocks_of("graphql", now), *self._blocks_of("core", now))
        return _longest([*blocks, self.delay(Cost(self.last_resource), now, is_critical=True)])

    def server_time(self, now: float) -> float:
        """Return GitHub's time."""
        return self.clock_skew.server_time(now)

    def _interval_s(self, now: float) -> float:
        return self.limits.write_interval_s * (2 if self.is_slow(now) else 1)

    def _seconds_within(self, capacity: float, span_s: float, requests: int, now: float) -> float:
        """Return in how many seconds the last of `requests` stays within `capacity` of every `span_s`."""
        wait_s = self.content.wait_for(requests, capacity, self.clock_skew.steady_time(now), span_s)
        beyond = requests - capacity
        return wait_s + (beyond * span_s / capacity if beyond > 0 else 0.0)

    def _points_of(self, resource: str) -> SlidingWindow:
        return self.points.get(resource, SlidingWindow(MINUTE_S))

    def _blocks_of(self, resource: str, now: float) -> list[Wait]:
        steady = self.clock_skew.steady_time(now)
        return [
            Wait(block.until - steady, block.reason, block.kind)
            for name, block in self.blocks.items()
            if name in (EVERYTHING, resource)
        ]


def _secondary_wait_s(strikes: int, asked_s: float) -> float:
    """Return GitHub's own wait the first time; after that, no less than one that doubles."""
    grown_s = min(SECONDARY_WAIT_S * 2.0 ** min(strikes - 1, 10), LONGEST_SECONDARY_WAIT_S)
    return asked_s if strikes == 1 and asked_s > 0 else max(asked_s, grown_s)


def _end_of_primary(budget: Budget, resource: str, retry_after_s: float | None, now: float) -> float:
    steady = budget.clock_skew.steady_time(now)
    asked = steady + (retry_after_s or SECONDARY_WAIT_S)
    quota = budget.quotas.get(resource)
    if quota is None or quota.remaining > 0:
        return asked
    renewed = quota.renewed_at - budget.clock_skew.server_ahead_s
    return max(asked, renewed) if retry_after_s else max(steady, renewed)


def _with_block(budget: Budget, name: str, block: Block) -> Budget:
    """Return the budget with `block`, unless a longer one of that name is in force."""
    known = budget.blocks.get(name)
    if known and known.until > block.until:
        return budget
    return replace(budget, blocks={**budget.blocks, name: block})


def _quotas_after_one(budget: Budget, resource: str, now: float) -> Mapping[str, Quota]:
    """Return the quotas after one more call, as far as we can tell before its answer."""
    left = budget.remaining(resource, now)
    if left is None:
        return budget.quotas
    quota, server_time = budget.quotas.get(resource), budget.server_time(now)
    if quota is None or server_time >= quota.reset_at:
        quota = Quota(limit=left, remaining=left, used=0, reset_at=server_time + HOUR_S)
    return {**budget.quotas, resource: quota.less_one()}


def _calls_left(budget: Budget, resource: str, now: float, *, is_critical: bool) -> float:
    """Return the calls that the headers leave; some seconds after the reset all of them."""
    quota = budget.quotas.get(resource)
    limit = quota.limit if quota else budget.limits.requests_per_hour
    if limit is None:
        return inf
    left = quota.reliable_at(budget.server_time(now)) if quota else limit
    return left - (0 if is_critical else budget.limits.calls_kept_back(limit))


def _delay_for_calls(budget: Budget, need: Need, now: float, *, is_critical: bool) -> Wait:
    """Return the wait for the reset; a need of more calls than a whole hour has goes right after it."""
    quota = budget.quotas.get(need.resource)
    if quota is None or need.requests <= _calls_left(budget, need.resource, now, is_critical=is_critical):
        return GO
    wait_s = quota.renewed_at - budget.server_time(now)
    return Wait(wait_s, f"too few of this hour's {need.resource} calls are left")


def _longest(waits: Iterable[Wait]) -> Wait:
    longest = max(waits, key=lambda wait: wait.seconds, default=GO)
    return longest if longest.seconds > ROUNDING_S else GO
