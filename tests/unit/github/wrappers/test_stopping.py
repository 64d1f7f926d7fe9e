import threading

import pytest

from holdfast.errors import Stopped, Unavailable
from holdfast.github.calls import Call, ReadRepository, ResultT
from holdfast.github.wrappers.stopping import ImpatientClock, StoppableGateway
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway


class SilentGateway:
    """Has no answer to anything."""

    def perform(self, call: Call[ResultT]) -> ResultT:
        raise Unavailable("a.json", f"no answer to {call}")


def test_calls_go_on_for_a_short_grace_after_a_stop_and_then_no_more() -> None:
    clock, stop, inner = VirtualClock(), threading.Event(), MemoryGateway()
    gateway = StoppableGateway(inner, clock, stop, grace_s=4.0)
    gateway.perform(ReadRepository())
    stop.set()

    gateway.perform(ReadRepository())
    clock.sleep(3.9)
    gateway.perform(ReadRepository())
    clock.sleep(0.2)

    with pytest.raises(Stopped, match="stays in the spool"):
        gateway.perform(ReadRepository())
    assert len(inner.calls) == 3


def test_a_call_without_an_answer_ends_the_grace() -> None:
    stop, inner = threading.Event(), SilentGateway()
    gateway = StoppableGateway(inner, VirtualClock(), stop)

    with pytest.raises(Unavailable):
        gateway.perform(ReadRepository())
    stop.set()
    with pytest.raises(Stopped, match="stays in the spool"):
        gateway.perform(ReadRepository())


def test_a_pause_takes_its_time() -> None:
    clock = VirtualClock()

    ImpatientClock(clock, threading.Event()).sleep(2.0)

    assert sum(clock.slept) == pytest.approx(2.0)


def test_a_stop_cuts_a_pause_short() -> None:
    class StoppingClock(VirtualClock):
        def sleep(self, seconds: float) -> None:
            super().sleep(seconds)
            stop.set()

    clock, stop = StoppingClock(), threading.Event()
    impatient = ImpatientClock(clock, stop)

    impatient.sleep(2.0)
    impatient.sleep(2.0)

    assert sum(clock.slept) < 0.1
    assert impatient.now() == clock.now()
