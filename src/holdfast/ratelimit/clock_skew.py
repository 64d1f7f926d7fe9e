"""Our own time and GitHub's, told from a local clock that may be wrong and may jump back."""

from dataclasses import dataclass, replace
from email.utils import parsedate_to_datetime
from math import inf

CLOCK_NOISE_S = 2.0  # `Date` has whole seconds, and threads read the clock in any order


@dataclass(frozen=True, slots=True)
class Timeline:
    """What was seen of the clocks. Every `now` is in the local clock's epoch seconds.

    Our own time is the local clock with its jumps back taken out (`shift_s`): it never runs backwards,
    so no wait grows. The server's time is `server_ahead_s` ahead of it.
    """

    seen_at: float = -inf
    shift_s: float = 0.0
    server_ahead_s: float = 0.0

    def at(self, now: float) -> "Timeline":
        """Return the timeline having seen the local clock at `now`."""
        own = now + self.shift_s
        if own >= self.seen_at - CLOCK_NOISE_S:
            return replace(self, seen_at=max(own, self.seen_at))
        return replace(self, shift_s=self.shift_s + self.seen_at - own)

    def own_time(self, now: float) -> float:
        """Return our own time."""
        return max(now + self.shift_s, self.seen_at)

    def server_time(self, now: float) -> float:
        """Return what o'clock it is at GitHub."""
        return self.own_time(now) + self.server_ahead_s

    def synchronised(self, date: str, now: float) -> "Timeline":
        """Return the timeline after an answer with this `Date` header, received at `now`."""
        try:
            ahead = parsedate_to_datetime(date).timestamp() - self.own_time(now)
        except ValueError:
            return self
        if abs(ahead - self.server_ahead_s) <= CLOCK_NOISE_S:
            return self
        return replace(self, server_ahead_s=ahead)
