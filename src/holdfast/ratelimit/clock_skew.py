"""GitHub's time and a time that never runs backwards, from a local clock that may be wrong and may jump."""

from email.utils import parsedate_to_datetime
from math import inf
from typing import NamedTuple

CLOCK_NOISE_S = 2.0  # `Date` has whole seconds, and threads read the clock in any order


class ClockSkew(NamedTuple):
    """How wrong the local clock is. Every `now` is in its epoch seconds.

    Steady time is the local clock with its jumps back taken out (`shift_s`): it never runs backwards, so no
    wait grows. The server's time is `server_ahead_s` ahead of it.
    """

    seen_at: float = -inf
    shift_s: float = 0.0
    server_ahead_s: float = 0.0

    def at(self, now: float) -> "ClockSkew":
        """Return the skew after the local clock was seen at `now`."""
        steady = now + self.shift_s
        if steady >= self.seen_at - CLOCK_NOISE_S:
            return self._replace(seen_at=max(steady, self.seen_at))
        return self._replace(shift_s=self.shift_s + self.seen_at - steady)

    def steady_time(self, now: float) -> float:
        """Return the steady time."""
        return max(now + self.shift_s, self.seen_at)

    def server_time(self, now: float) -> float:
        """Return GitHub's time."""
        return self.steady_time(now) + self.server_ahead_s

    def synchronised(self, date: str, now: float) -> "ClockSkew":
        """Return the skew after an answer with this `Date` header, received at `now`."""
        try:
            ahead = parsedate_to_datetime(date).timestamp() - self.steady_time(now)
        except ValueError:
            return self
        if abs(ahead - self.server_ahead_s) <= CLOCK_NOISE_S:
            return self
        return self._replace(server_ahead_s=ahead)
