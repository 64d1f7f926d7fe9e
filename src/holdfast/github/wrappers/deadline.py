"""How long a drain goes on about what fails: at its deadline pauses end, and nothing is repeated any more."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from math import inf

from holdfast.clock import Clock
from holdfast.errors import Stopped, Unavailable
from holdfast.github.calls import Call, Gateway, ResultT


@dataclass
class Patience:
    """Knows the deadline of the drain under way; there is none unless it is given one."""

    deadline: float = inf

    @contextmanager
    def until(self, deadline: float) -> Iterator[None]:
        """Have this deadline meanwhile."""
        before, self.deadline = self.deadline, deadline
        try:
            yield
        finally:
            self.deadline = before


@dataclass(frozen=True, slots=True)
class HurriedClock:
    """A clock whose pauses end at the deadline, but for those up to `kept_s`, which are GitHub's due."""

    inner: Clock
    patience: Patience
    kept_s: float = 0.0

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self.inner.now()

    def sleep(self, seconds: float) -> None:
        """Wait that long, or until the deadline."""
        left_s = max(0.0, self.patience.deadline - self.now())
        self.inner.sleep(seconds if seconds <= self.kept_s else min(seconds, left_s))


@dataclass(frozen=True, slots=True)
class HurriedGateway:
    """Performs calls through `inner`. After the deadline, one without an answer ends the work."""

    inner: Gateway
    clock: Clock
    patience: Patience

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Stopped, caused by Unavailable, where nobody may repeat it."""
        try:
            return self.inner.perform(call)
        except Unavailable as error:
            if self.clock.now() < self.patience.deadline:
                raise
            raise Stopped(f"the time for this is over: {error}") from error
