"""How many calls are left, and how long to wait for more.

Two kinds of limits: those that GitHub's headers show (calls an hour, by resource), and those that no
header shows (content-creating requests a minute and an hour, points a minute, a pause between two
mutations), which only our own count can keep.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from math import ceil, inf

from holdfast.errors import ThrottleKind
from holdfast.ratelimit.clock_skew import Timeline
from holdfast.ratelimit.limits import GO, Cost, Limits, Need, Room, Wait
from holdfast.ratelimit.window import Tally

MINUTE_S = 60.0
HOUR_S = 3600.0
RESET_GRACE_S = 5.0  # after a reset, so that every clock of GitHub's has passed it
SECONDARY_WAIT_S = 60.0
LONGEST_SECONDARY_WAIT_S = 1800.0
SLOW_FOR_S = 600.0  # how long we keep to half our rate after a secondary limit
ROUNDING_S = 1e-6  # about what a float can tell apart in epoch seconds, so no wait at all
EVERYTHING = "all"  # the name under which a block holds for every resource


@dataclass(frozen=True, slots=True)
class Window:
    """What the headers said last of one resource; `reset_at` is in the server's epoch seconds."""

    limit: int
    remaining: int
    used: int
    reset_at: float


@dataclass(frozen=True, slots=True)
class Block:
    """GitHub told us to stay away until `until`, in our own time."""

    until: float
    kind: ThrottleKind
    reason: str


@dataclass(frozen=True, slots=True)
class Budget:
    """What is known of GitHub's limits. Every `now` is in the local clock's epoch seconds."""

    limits: Limits = field(default_factory=Limits)
    timeline: Timeline = field(default_factory=Timeline)
    windows: Mapping[str, Window] = field(default_factory=dict)
    blocks: Mapping[str, Block] = field(default_factory=dict)
    content: Tally = field(default_factory=lambda: Tally(HOUR_S))
    points: Mapping[str, Tally] = field(default_factory=dict)
    last_mutation_at: float = -inf
    strikes: int = 0
    slow_until: float = -inf
    last_resource: str = "core"
    calls_this_run: int = 0

    def at(self, now: float) -> "Budget":
        """Return the budget having seen the local clock at `now`; a jump back counts no more from here."""
        return replace(self, timeline=self.timeline.at(now))

    def is_slow(self, now: float) -> bool:
        """Whether we keep to half our rate because GitHub complained lately."""
        return self.timeline.own_time(now) < self.slow_until

    # What happens

    def spend(self, cost: Cost, now: float) -> "Budget":
        """Return the budget after a call of `cost` is sent."""
        timeline = self.timeline.at(now)
        own = timeline.own_time(now)
        points = self.points.get(cost.resource, Tally(MINUTE_S)).add(own, cost.points)
        return replace(
            self,
            timeline=timeline,
            windows=_windows_after_one(self, cost.resource, now),
            content=self.content.add(own) if cost.creates_content else self.content,
            points={**self.points, cost.resource: points},
            last_mutation_at=own if cost.is_mutation else self.last_mutation_at,
            calls_this_run=self.calls_this_run + 1,
        )

    def observe(
        self, status: int, headers: Mapping[str, str], now: float, resource: str = "core"
    ) -> "Budget":
        """Return the budget after an answer with these headers, whose names are in lower case."""
        timeline = self.timeline.at(now).synchronised(headers.get("date", ""), now)
        is_forgiven = status < 400 and not self.is_slow(now)
        budget = replace(self, timeline=timeline, strikes=0 if is_forgiven else self.strikes)
        window = _parse_window(headers)
        if window is None:
            return budget
        name = headers.get("x-ratelimit-resource") or resource
        return replace(budget, windows={**self.windows, name: window}, last_resource=name)

    def block(
        self, kind: ThrottleKind, retry_after_s: float | None, resource: str, now: float, reason: str = ""
    ) -> "Budget":
        """Return the budget after GitHub refused a call for its rate; our own budget blocks nothing.

        A primary limit ends some seconds after the reset; that of `core` holds for every resource. A
        secondary limit holds for every resource, as long as GitHub asks, or a minute, twice as long
        each time it comes again soon; then we keep to half our rate for a while.
        """
        budget = self.at(now)
        if kind == "own_budget":
            return budget
        if kind == "primary":
            until = _end_of_primary(budget, resource, retry_after_s, now)
            name = resource if resource == "graphql" else EVERYTHING
            return _with_block(budget, name, Block(until, kind, reason or "GitHub's calls are used up"))
        strikes = budget.strikes + 1 if budget.is_slow(now) else 1
        until = budget.timeline.own_time(now) + _secondary_wait_s(strikes, retry_after_s or 0.0)
        block = Block(until, kind, reason or "GitHub asked us to slow down")
        slowed = replace(budget, strikes=strikes, slow_until=until + SLOW_FOR_S)
        return _with_block(slowed, EVERYTHING, block)

    # What is left

    def remaining(self, resource: str, now: float) -> int | None:
        """Return how many calls the headers leave us; a passed reset restores them; None: not known."""
        window = self.windows.get(resource)
        if window is None:
            return self.limits.requests_per_hour
        return window.limit if self.timeline.server_time(now) >= window.reset_at else window.remaining

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

    def content_spent(self, now: float) -> int:
        """Return how many content-creating requests were sent in the last hour."""
        return self.content.total(self.timeline.own_time(now))

    def room(self, resource: str, now: float, *, is_critical: bool = False) -> Room:
        """Return what may be spent on `resource` now; the last share is for critical checkpoints alone."""
        own = self.timeline.own_time(now)
        minute, hour = self.content_capacity(now, is_critical=is_critical)
        points = self.limits.points_capacity(resource, is_slow=self.is_slow(now))
        return Room(
            requests=max(0.0, _calls_left(self, resource, now, is_critical=is_critical)),
            content_minute=max(0.0, minute - self.content.total(own, MINUTE_S)),
            content_hour=max(0.0, hour - self.content.total(own)),
            points=max(0.0, points - self.points.get(resource, Tally(MINUTE_S)).total(own)),
        )

    def seconds_to_reset(self, resource: str, now: float) -> float:
        """Return how long until the headers' limit is new; 0 if it is, or if nothing is known of it."""
        window = self.windows.get(resource)
        return max(0.0, window.reset_at - self.timeline.server_time(now)) if window else 0.0

    # How long to wait

    def wait_before(self, cost: Cost, now: float, *, is_critical: bool = False) -> float:
        """Return the seconds to wait before a call of `cost`; 0 means: go."""
        return self.delay(cost, now, is_critical=is_critical).seconds

    def delay(self, cost: Cost, now: float, *, is_critical: bool = False) -> Wait:
        """Return how long a call of `cost` waits, and why."""
        for_room = self.delay_for(cost.need, now, is_critical=is_critical)
        if not cost.is_mutation:
            return for_room
        spacing_s = self.last_mutation_at + self._interval_s(now) - self.timeline.own_time(now)
        return _longest([for_room, Wait(spacing_s, "GitHub asks for a pause between two writes")])

    def delay_for(self, need: Need, now: float, *, is_critical: bool = False) -> Wait:
        """Return how long until there is room for `need`; the pause between writes is not counted."""
        wait = self._delay_for(need, now, is_critical=is_critical)
        if wait.seconds and not is_critical and not self._delay_for(need, now, is_critical=True).seconds:
            return wait._replace(reason=f"{wait.reason}, but for those kept for critical checkpoints")
        return wait

    def _delay_for(self, need: Need, now: float, *, is_critical: bool) -> Wait:
        own = self.timeline.own_time(now)
        minute, hour = self.content_capacity(now, is_critical=is_critical)
        points = self.limits.points_capacity(need.resource, is_slow=self.is_slow(now))
        points_tally = self.points.get(need.resource, Tally(MINUTE_S))
        return _longest(
            [
                *self._blocks_of(need.resource, own),
                _delay_for_calls(self, need, now, is_critical=is_critical),
                Wait(
                    self.content.wait_for(need.content, minute, own, MINUTE_S),
                    "the content-creating requests of this minute are used up",
                ),
                Wait(
                    self.content.wait_for(need.content, hour, own),
                    "the content-creating requests of this hour are used up",
                ),
                Wait(points_tally.wait_for(need.points, points, own), "this minute's points are used up"),
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
        window = self.windows.get(resource)
        if window is None or requests <= _calls_left(self, resource, now, is_critical=is_critical):
            return 0.0
        an_hour = max(1, window.limit - self.limits.calls_kept_back(window.limit))
        later = requests - _calls_left(self, resource, now, is_critical=is_critical)
        wait = _delay_for_calls(self, Need(resource, requests), now, is_critical=is_critical)
        return wait.seconds + (ceil(later / an_hour) - 1) * HOUR_S

    def report(
        self, now: float, *, spool_depth: int = 0, drain_forecast_s: float | None = 0.0
    ) -> dict[str, object]:
        """Return the budget as `status` shows it. Moments are told by the local clock, but for `last_reset`,
        which is what GitHub said; a forecast of None is not known.
        """
        own = self.timeline.own_time(now)
        window = self.windows.get(self.last_resource)
        room = self.room(self.last_resource, now, is_critical=True)
        exhausted = self.delay(Cost(self.last_resource), now, is_critical=True)
        blocked = _longest([*self._blocks_of("graphql", own), *self._blocks_of("core", own), exhausted])
        return {
            "last_remaining": window.remaining if window else None,
            "last_reset": int(window.reset_at) if window else None,
            "resets_at": round(now + self.seconds_to_reset(self.last_resource, now), 3) if window else None,
            "calls_this_run": self.calls_this_run,
            "resource": self.last_resource,
            "limit": window.limit if window else self.limits.requests_per_hour,
            "is_low": self.is_low(now, self.last_resource),
            "blocked_until": round(now + blocked.seconds, 3) if blocked.seconds else None,
            "blocked_because": blocked.reason or None,
            "content_used_minute": self.content.total(own, MINUTE_S),
            "content_used_hour": self.content_spent(now),
            "content_left_minute": _finite(room.content_minute),
            "content_left_hour": _finite(room.content_hour),
            "spool_depth": spool_depth,
            "drain_forecast_s": None if drain_forecast_s is None else round(drain_forecast_s, 1),
        }

    def _interval_s(self, now: float) -> float:
        return self.limits.write_interval_s * (2 if self.is_slow(now) else 1)

    def _seconds_within(self, capacity: float, span_s: float, requests: int, now: float) -> float:
        """Return in how many seconds the last of `requests` stays within `capacity` of every `span_s`."""
        wait_s = self.content.wait_for(requests, capacity, self.timeline.own_time(now), span_s)
        beyond = requests - capacity
        return wait_s + (beyond * span_s / capacity if beyond > 0 else 0.0)

    def _blocks_of(self, resource: str, own: float) -> list[Wait]:
        return [
            Wait(block.until - own, block.reason, block.kind)
            for name, block in self.blocks.items()
            if name in (EVERYTHING, resource)
        ]


def _secondary_wait_s(strikes: int, asked_s: float) -> float:
    """Return GitHub's own wait the first time; after that, no less than one that doubles."""
    grown_s = min(SECONDARY_WAIT_S * 2.0 ** min(strikes - 1, 10), LONGEST_SECONDARY_WAIT_S)
    return asked_s if strikes == 1 and asked_s > 0 else max(asked_s, grown_s)


def _end_of_primary(budget: Budget, resource: str, retry_after_s: float | None, now: float) -> float:
    own = budget.timeline.own_time(now)
    asked = own + (retry_after_s or SECONDARY_WAIT_S)
    window = budget.windows.get(resource)
    if window is None or window.remaining > 0:
        return asked
    reset = window.reset_at + RESET_GRACE_S - budget.timeline.server_ahead_s
    return max(asked, reset) if retry_after_s else max(own, reset)


def _with_block(budget: Budget, name: str, block: Block) -> Budget:
    """Return the budget with `block`, unless a longer one of that name is in force."""
    known = budget.blocks.get(name)
    if known and known.until >= block.until:
        return budget
    return replace(budget, blocks={**budget.blocks, name: block})


def _windows_after_one(budget: Budget, resource: str, now: float) -> Mapping[str, Window]:
    """Return the windows after one more call, as far as we can tell before its answer."""
    left = budget.remaining(resource, now)
    if left is None:
        return budget.windows
    window = budget.windows.get(resource)
    server = budget.timeline.server_time(now)
    if window is None or server >= window.reset_at:
        window = Window(limit=left, remaining=left, used=0, reset_at=server + HOUR_S)
    spent = replace(window, remaining=max(0, window.remaining - 1), used=window.used + 1)
    return {**budget.windows, resource: spent}


def _calls_left(budget: Budget, resource: str, now: float, *, is_critical: bool) -> float:
    """Return the calls that the headers leave; a reset restores them once its grace is over too."""
    window = budget.windows.get(resource)
    limit = window.limit if window else budget.limits.requests_per_hour
    if limit is None:
        return inf
    is_over = window is None or budget.timeline.server_time(now) >= window.reset_at + RESET_GRACE_S
    left = limit if window is None or is_over else window.remaining
    return left - (0 if is_critical else budget.limits.calls_kept_back(limit))


def _delay_for_calls(budget: Budget, need: Need, now: float, *, is_critical: bool) -> Wait:
    """Return the wait for the reset; a need of more calls than a whole hour has goes right after it."""
    window = budget.windows.get(need.resource)
    if window is None or need.requests <= _calls_left(budget, need.resource, now, is_critical=is_critical):
        return GO
    wait_s = window.reset_at + RESET_GRACE_S - budget.timeline.server_time(now)
    return Wait(wait_s, f"too few of this hour's {need.resource} calls are left")


def _longest(waits: Iterable[Wait]) -> Wait:
    longest = max(waits, key=lambda wait: wait.seconds, default=GO)
    return longest if longest.seconds > ROUNDING_S else GO


def _finite(room: float) -> int | None:
    return None if room == inf else int(room)


def _parse_window(headers: Mapping[str, str]) -> Window | None:
    """Return what `x-ratelimit-*` say, or None if they say nothing of use."""
    try:
        limit = int(headers["x-ratelimit-limit"])
        remaining = int(headers["x-ratelimit-remaining"])
        reset_at = float(int(headers["x-ratelimit-reset"]))
        used = int(headers.get("x-ratelimit-used", limit - remaining))
    except (KeyError, ValueError):
        return None
    return Window(limit=limit, remaining=remaining, used=used, reset_at=reset_at)
