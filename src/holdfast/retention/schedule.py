"""Sweeps again and again while a service runs, and keeps to that when the service is started anew."""

from dataclasses import dataclass
from math import inf

from holdfast.clock import Deadline
from holdfast.errors import HoldfastError
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.retention.sweep import Sweeper

# After a start, what was spooled goes first.
FIRST_PAUSE_S = 60.0
RETRY_S = 600.0

_NOTE = "swept_at"


@dataclass(frozen=True)
class Schedule:
    """Sweeps every `every_s` seconds; when it last did is noted, so that restarts do not put it off."""

    sweeper: Sweeper
    spool: Queue
    deadline: Deadline
    every_s: float

    def run(self) -> None:
        """Sweep until we are asked to stop. What goes wrong is logged, and tried again before long."""
        wait_s = self._due_in_s()
        while True:
            self.deadline.wait(wait_s)
            if self.deadline.is_stopping():
                return
            wait_s = self.every_s if self._sweep() else min(self.every_s, RETRY_S)

    def _due_in_s(self) -> float:
        try:
            swept_at = float(self.spool.notes().get(_NOTE, b"-inf"))
        except (HoldfastError, ValueError):
            swept_at = -inf
        # A clock that was set back must not put it off for longer than usual.
        return min(self.every_s, max(FIRST_PAUSE_S, swept_at + self.every_s - self.deadline.clock.now()))

    def _sweep(self) -> bool:
        """Sweep once, and return whether that was done."""
        try:
            report = self.sweeper.sweep()
            if report.rest_because:
                log.warning("sweep_cut_short", cause=report.rest_because)
                return False
            self.spool.note(_NOTE, repr(self.deadline.clock.now()).encode())
        except HoldfastError as error:
            log.warning("sweep_failed", cause=str(error))
            return False
        except Exception:  # whatever it is, the service goes on, and so does the schedule
            log.exception("sweep_failed")
            return False
        return True
