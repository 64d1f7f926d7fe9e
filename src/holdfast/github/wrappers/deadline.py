"""A gateway that lets nothing be repeated after a deadline, and no call leave after the grace of a stop."""

from dataclasses import dataclass

from holdfast.clock import Deadline
from holdfast.errors import Unavailable
from holdfast.github.calls import Call, Gateway, ResultT


@dataclass(frozen=True, slots=True)
class DeadlineGateway:
    """Performs calls through `inner`. After the deadline, one without an answer ends the work.

    It lies within what repeats calls: whoever would repeat one gets Stopped, which nobody repeats.
    """

    inner: Gateway
    deadline: Deadline

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Stopped, caused by Unavailable if a call had no answer."""
        self.deadline.check_grace()
        try:
            return self.inner.perform(call)
        except Unavailable as error:
            if not self.deadline.expired():
                raise
            raise self.deadline.stopped(error) from error
