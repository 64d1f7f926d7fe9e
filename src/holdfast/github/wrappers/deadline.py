"""A gateway that waits for nothing beyond a deadline, and lets no call leave after the grace of a stop."""

from dataclasses import dataclass

from holdfast.clock import Deadline
from holdfast.errors import GatewayError, Unavailable
from holdfast.github.calls import Call, Gateway, ResultT
from holdfast.github.patience import waiting_at_most


@dataclass(frozen=True, slots=True)
class DeadlineGateway:
    """Performs calls through `inner`, and waits for no answer longer than until the deadline.

    After the deadline, a call without an answer ends the work; those that are answered go on.
    It lies within what repeats calls: whoever would repeat one gets Stopped, which nobody repeats.
    """

    inner: Gateway
    deadline: Deadline

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Stopped, caused by Unavailable if a call had no answer."""
        self.deadline.check_grace()
        try:
            with waiting_at_most(self.deadline.longest_wait_s()):
                result = self.inner.perform(call)
        except Unavailable as error:
            if not self.deadline.expired():
                raise
            raise self.deadline.stopped(error) from error
        except GatewayError:
            self.deadline.note_answer()
            raise
        self.deadline.note_answer()
        return result
