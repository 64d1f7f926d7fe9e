import threading

import pytest

from holdfast.errors import Stopped
from holdfast.github.gateway import ReadRepository
from holdfast.github.stopping import StoppableGateway
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway


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
