import pytest

from holdfast.clock import Deadline
from holdfast.errors import Stopped, Unavailable
from holdfast.github.calls import Call, ResultT
from holdfast.github.inspection import ReadRepository
from holdfast.github.wrappers.deadline import DeadlineGateway
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway


class SilentGateway:
    """Has no answer to anything."""

    def perform(self, call: Call[ResultT]) -> ResultT:
        raise Unavailable("a.json", f"no answer to {call}")


def test_what_has_no_answer_may_be_repeated_before_the_deadline_alone() -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock)
    gateway = DeadlineGateway(SilentGateway(), deadline)

    with deadline.until(10.0):
        with pytest.raises(Unavailable):
            gateway.perform(ReadRepository())
        clock.sleep(10.0)
        with pytest.raises(Stopped, match="no answer to") as stopped:
            gateway.perform(ReadRepository())
    assert isinstance(stopped.value.__cause__, Unavailable)
    with pytest.raises(Unavailable):
        gateway.perform(ReadRepository())


def test_what_has_an_answer_goes_on_after_the_time_is_over() -> None:
    deadline, inner = Deadline(VirtualClock(5.0)), MemoryGateway()

    with deadline.until(1.0):
        DeadlineGateway(inner, deadline).perform(ReadRepository())

    assert len(inner.calls) == 1


def test_calls_go_on_for_a_short_grace_after_a_stop_and_then_no_more() -> None:
    clock, inner = VirtualClock(), MemoryGateway()
    deadline = Deadline(clock, grace_s=4.0)
    gateway = DeadlineGateway(inner, deadline)
    gateway.perform(ReadRepository())
    deadline.stop.set()

    gateway.perform(ReadRepository())
    clock.sleep(3.9)
    gateway.perform(ReadRepository())
    clock.sleep(0.2)

    with pytest.raises(Stopped, match="stays in the spool"):
        gateway.perform(ReadRepository())
    assert len(inner.calls) == 3


def test_a_call_without_an_answer_ends_the_grace() -> None:
    deadline = Deadline(VirtualClock())
    gateway = DeadlineGateway(SilentGateway(), deadline)

    with pytest.raises(Unavailable):
        gateway.perform(ReadRepository())
    deadline.stop.set()
    with pytest.raises(Stopped, match="stays in the spool"):
        gateway.perform(ReadRepository())
