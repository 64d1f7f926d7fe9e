"""GitHub's clock: what is old must not depend on a local clock that may be wrong."""

from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.ratelimit.shared_file import RateLimiter


@dataclass(frozen=True, slots=True)
class ServerClock:
    """Tells the time as GitHub's answers last told it, and waits by the local clock."""

    inner: Clock
    rate_limiter: RateLimiter

    def now(self) -> float:
        """Return the seconds since the epoch, as GitHub believes."""
        return self.rate_limiter.budget.timeline.server_time(self.inner.now())

    def sleep(self, seconds: float) -> None:
        """Wait that long."""
        self.inner.sleep(seconds)
