"""A gateway that lets a shutdown through."""

import threading
from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Stopped
from holdfast.github.gateway import Call, Gateway, ResultT

# Enough to verify and index the checkpoint under way, and within the 7.5 s that a cancelled job has.
GRACE_S = 4.0


@dataclass
class StoppableGateway:
    """Performs calls until `stop` is set, and for a short grace after it, for the write under way."""

    inner: Gateway
    clock: Clock
    stop: threading.Event
    grace_s: float = GRACE_S
    _deadline: float | None = None

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Stopped once the grace is over."""
        if self.stop.is_set():
            now = self.clock.now()
            self._deadline = self._deadline or now + self.grace_s
            if now > self._deadline:
                raise Stopped("we were asked to stop; what is not stored yet stays in the spool")
        return self.inner.perform(call)
