"""What lets a shutdown through: a gateway and a clock that do not keep it waiting."""

import threading
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Stopped, Unavailable
from holdfast.github.calls import Call, Gateway, ResultT

# Enough to verify and index the checkpoint under way, and within the 7.5 s that a cancelled job has.
GRACE_S = 4.0
STEP_S = 0.05


@dataclass
class StoppableGateway:
    """Performs calls until `stop` is set, and for a short grace after it, for the write under way.

    The grace ends with the first call that has no answer: repeating it would only use up the time.
    """

    inner: Gateway
    clock: Clock
    stop: threading.Event
    grace_s: float = GRACE_S
    _deadline: float | None = None

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Stopped once the grace is over."""
        self._check_time()
        try:
            return self.inner.perform(call)
        except Unavailable as error:
            if self.stop.is_set():
                raise _stopped() from error
            raise

    def _check_time(self) -> None:
        if self.stop.is_set():
            now = self.clock.now()
            self._deadline = self._deadline or now + self.grace_s
            if now > self._deadline:
                raise _stopped()


def _stopped() -> Stopped:
    return Stopped("we were asked to stop; what is not stored yet stays in the spool")


@dataclass(frozen=True)
class ImpatientClock:
    """A clock for the pauses between attempts: each ends shortly after `stop` is set.

    The clock itself keeps short pauses, which are GitHub's due between two writes; these are nobody's due.
    """

    inner: Clock
    stop: threading.Event

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self.inner.now()

    def sleep(self, seconds: float) -> None:
        """Wait that long, or until `stop` is set."""
        end = self.now() + seconds
        while not self.stop.is_set() and (left_s := end - self.now()) > 0:
            self.inner.sleep(min(STEP_S, left_s))
