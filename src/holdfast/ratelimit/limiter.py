"""The rate limiter: one budget for all who use a token, wherever it is kept."""

from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol, TypeVar

from holdfast.clock import Clock
from holdfast.errors import Throttled
from holdfast.format.moments import format_moment
from holdfast.logs import log
from holdfast.ratelimit.budget import REFUSALS, Budget
from holdfast.ratelimit.limits import Cost, Limits, Need, Quota, Wait
from holdfast.ratelimit.record import report_budget

ResultT = TypeVar("ResultT")


class RateAnswer(Protocol):
    """What the rate limiter looks at in an answer of GitHub's.

    `headers` have lower-case names; `received_at` is in local epoch seconds.
    """

    @property
    def status(self) -> int: ...

    @property
    def headers(self) -> Mapping[str, str]: ...

    @property
    def received_at(self) -> float: ...

    @property
    def resource(self) -> str: ...


class RateLimiter(ABC):
    """Keeps one budget, together with all others that spend from it.

    Each change is applied to what is kept at that moment. Where that cannot be reached, the rate limiter says
    so once and keeps the budget in memory.
    """

    def __init__(self, limits: Limits, clock: Clock) -> None:
        self._limits = limits
        self._clock = clock
        self._budget = Budget(limits)

    @property
    @abstractmethod
    def budget(self) -> Budget:
        """The budget as it is now."""

    @abstractmethod
    def close(self) -> None:
        """Store what is not stored yet."""

    @abstractmethod
    def _change(
        self, change: Callable[[Budget, float], tuple[Budget, ResultT]], *, is_synced: bool = False
    ) -> ResultT:
        """Apply `change` to the newest budget, and return its result; `is_synced` survives a power cut."""

    def begin_run(self) -> None:
        """Count `calls_this_run` from here."""
        self._change(lambda budget, _: (replace(budget, calls_this_run=0), None))

    def take(self, cost: Cost, *, is_critical: bool = False) -> Wait:
        """Spend `cost` if there is room for it, or spend nothing and return how long to wait."""

        def spend_if_allowed(budget: Budget, now: float) -> tuple[Budget, Wait]:
            seen = budget.at(now)
            wait = seen.delay(cost, now, is_critical=is_critical)
            return (seen if wait.seconds else seen.spend(cost, now)), wait

        return self._change(spend_if_allowed)

    def blocked_by_urgency(self, need: Need) -> dict[bool, bool]:
        """Return, for critical checkpoints (True) and for others (False), whether `need` has to wait now."""
        budget, now = self.budget, self._clock.now()
        return {
            is_critical: budget.delay_for(need, now, is_critical=is_critical).seconds > 0
            for is_critical in (True, False)
        }

    def observe(self, answer: RateAnswer) -> None:
        """Learn from the headers of `answer`; that little is left is told once in each window."""

        def learn(budget: Budget, _: float) -> tuple[Budget, Quota | None]:
            after = budget.observe(answer.status, answer.headers, answer.received_at, answer.resource)
            return after.tell_low()

        # What a refusal says must outlive us, whatever happens next: who begins anew would ask at once.
        low = self._change(learn, is_synced=answer.status in REFUSALS)
        if low is not None:
            reset = format_moment(low.reset_at)
            log.warning("budget_low", remaining=low.remaining, limit=low.limit, reset=reset)

    def block(self, throttled: Throttled) -> float:
        """Remember that GitHub told us to stay away, and return for how many seconds; it survives a crash."""

        def blocked(budget: Budget, now: float) -> tuple[Budget, float]:
            after = budget.block(
                throttled.kind, throttled.retry_after_s, throttled.resource, now, throttled.reason
            )
            wait = after.delay(Cost(throttled.resource), now, is_critical=True)
            return after, max(wait.seconds, throttled.retry_after_s)

        return self._change(blocked, is_synced=True)

    def report(self, *, spool_depth: int = 0, drain_forecast_s: float | None = 0.0) -> dict[str, object]:
        """Return the budget as `status` shows it."""
        return report_budget(
            self.budget, self._clock.now(), spool_depth=spool_depth, drain_forecast_s=drain_forecast_s
        )


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Tells GitHub's time, so that a wrong local clock makes nothing older; waits by the local clock."""

    inner: Clock
    rate_limiter: RateLimiter

    def now(self) -> float:
        """Return the seconds since the epoch, as GitHub's answers last told them."""
        return self.rate_limiter.budget.server_time(self.inner.now())

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        self.inner.sleep(seconds)
