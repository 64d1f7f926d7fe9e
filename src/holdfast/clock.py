"""The one door to time: what o'clock it is, waiting that a shutdown can end, and until when work goes on."""

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from math import inf
from typing import Protocol

from holdfast.errors import Stopped

# A pause this short is GitHub's due between two writes: it is kept even when we are asked to stop.
SHORT_PAUSE_S = 2.5
# Enough to verify and index the checkpoint under way, and within the 7.5 s that a cancelled job has.
GRACE_S = 4.0
# As long as GitHub has not answered yet, a drain that was given less time waits that long for an answer.
LEAST_WAIT_S = 2.0
_STEP_S = 0.05
_BOOT_TIME: int | None = getattr(time, "CLOCK_BOOTTIME", None)


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return the seconds since the epoch, as this machine believes."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long; a long wait ends when someone asks us to stop."""
        ...


class SystemClock:
    """The machine's clock; `stop` ends every long wait at once."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> float:
        return time.time()

    def monotonic(self) -> float:
        """Return seconds that never jump, and that go on while the machine is suspended, where it tells."""
        return time.clock_gettime(_BOOT_TIME) if _BOOT_TIME is not None else time.monotonic()

    def sleep(self, seconds: float) -> None:
        if seconds <= SHORT_PAUSE_S:
            time.sleep(max(0.0, seconds))
        else:
            self._stop.wait(seconds)


class Stopwatch:
    """Tells how long ago it was made, by the clock, which may be set, and by one that never is."""

    def __init__(self, clock: Clock) -> None:
        self._clocks: list[Callable[[], float]] = [clock.now]
        if isinstance(clock, SystemClock):
            self._clocks.append(clock.monotonic)
        self._started = [each() for each in self._clocks]

    def most_s(self) -> float:
        """Return how many seconds have gone by, by whichever clock saw more of them."""
        return max(self._elapsed())

    def least_s(self) -> float:
        """Return how many seconds have gone by, by whichever clock saw fewer of them."""
        return max(0.0, min(self._elapsed()))

    def _elapsed(self) -> list[float]:
        return [each() - start for each, start in zip(self._clocks, self._started, strict=True)]


@dataclass
class Deadline:
    """Until when work goes on: until its time is over, or until `stop` asks us to end.

    After an order to stop there is a grace, in which the write under way may be finished. There is no end
    to the time unless `until` gives one.
    """

    clock: Clock
    stop: threading.Event = field(default_factory=threading.Event)
    grace_s: float = GRACE_S
    random_share: Callable[[], float] = lambda: 1.0
    _ends_at: float = inf
    _grace_ends_at: float | None = None
    _is_answered: bool = False

    def expired(self) -> bool:
        """Whether nothing may be repeated any more."""
        return self.is_stopping() or self.is_late()

    def is_stopping(self) -> bool:
        """Whether we were asked to stop."""
        return self.stop.is_set()

    def is_late(self) -> bool:
        """Whether the time is over."""
        return self.clock.now() >= self._ends_at

    def longest_wait_s(self) -> float:
        """Return how long an answer may be waited for.

        A GitHub that has answered since the time began gets the grace for each further answer, also after
        the time: work gets done by it. One that has not is waited for until the end.
        """
        least_s = self.grace_s if self._is_answered else LEAST_WAIT_S
        return max(self._ends_at - self.clock.now(), least_s)

    def note_answer(self) -> None:
        """Take note that GitHub answers."""
        self._is_answered = True

    def check_grace(self) -> None:
        """Raise Stopped once the grace after an order to stop is over."""
        if self.is_stopping():
            now = self.clock.now()
            self._grace_ends_at = self._grace_ends_at or now + self.grace_s
            if now > self._grace_ends_at:
                raise self.stopped()

    def stopped(self, cause: object = "") -> Stopped:
        """Return the error that ends the work; `cause` is what failed last."""
        why = "we were asked to stop" if self.is_stopping() else f"the time for this is over: {cause}"
        return Stopped(f"{why}; what is not stored yet stays in the spool")

    def pause(self, seconds: float) -> None:
        """Wait for between half and all of that, so that several who got in each other's way come apart."""
        self.wait(seconds * (0.5 + 0.5 * self.random_share()))

    def wait(self, seconds: float) -> None:
        """Wait that long, or until the deadline: for a pause before something is repeated."""
        left_s = min(seconds, self._ends_at - self.clock.now())
        # What was slept is counted down: by the clock, which may be set back, a pause could last for hours.
        while left_s > 0 and not self.is_stopping():
            # A stop ends a long sleep, but not a short one.
            step_s = left_s if left_s > SHORT_PAUSE_S else min(_STEP_S, left_s)
            self.clock.sleep(step_s)
            left_s -= step_s

    def wait_for_room(self, seconds: float) -> None:
        """Wait that long: for a pause that is GitHub's due. Only a long one ends at the deadline."""
        left_s = max(0.0, self._ends_at - self.clock.now())
        self.clock.sleep(seconds if seconds <= SHORT_PAUSE_S else min(seconds, left_s))

    @contextmanager
    def until(self, moment: float) -> Iterator[None]:
        """Have the time end at `moment` meanwhile."""
        before, self._ends_at = self._ends_at, moment
        self._is_answered = False
        try:
            yield
        finally:
            self._ends_at = before
