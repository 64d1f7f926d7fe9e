"""An hour that passes in seconds: a clock that moves only by waiting, and what arrives meanwhile."""

from collections import deque
from collections.abc import Callable, Iterable
from dataclasses import dataclass

START = 1_800_000_000.0


@dataclass(frozen=True)
class Arrival:
    """Something that happens at a moment, in seconds since the start."""

    at_s: float
    happen: Callable[[], None]


class ArrivalClock:
    """Stands still but for sleeping, which moves it on at once; what arrives meanwhile, arrives on time."""

    def __init__(self) -> None:
        self._now = START
        self._arrivals: deque[Arrival] = deque()

    def expect(self, arrivals: Iterable[Arrival]) -> None:
        """Let these happen as time passes, in their order."""
        self._arrivals.extend(arrivals)

    @property
    def is_quiet(self) -> bool:
        """Whether nothing more is to arrive."""
        return not self._arrivals

    @property
    def elapsed_s(self) -> float:
        """The seconds since the start."""
        return self._now - START

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self._now

    def sleep(self, seconds: float) -> None:
        """Move on, and let what arrives in that time happen."""
        end = self._now + max(0.0, seconds)
        while self._arrivals and START + self._arrivals[0].at_s <= end:
            arrival = self._arrivals.popleft()
            self._now = max(self._now, START + arrival.at_s)
            arrival.happen()
        self._now = max(self._now, end)

    def sleep_to_arrival(self) -> None:
        """Move on to the next arrival."""
        self.sleep(max(0.0, START + self._arrivals[0].at_s - self._now))
