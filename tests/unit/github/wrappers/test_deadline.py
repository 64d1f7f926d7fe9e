from contextlib import suppress

import pytest

from holdfast.clock import Deadline
from holdfast.errors import Missing, Stopped, Unavailable
from holdfast.github.calls import Call, ReadFile, ResultT
from holdfast.github.inspection import ReadRepository
from holdfast.github.patience import longest_wait_s
from holdfast.github.wrappers.deadline import DeadlineGateway
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway


class SilentGateway:
    """Has no answer to anything."""

    def perform(self, call: Call[ResultT]) -> ResultT:
        raise Unavailable("a.json", f"no answer to {call}")


class HangingGateway:
    """Answers what is `known`; whoever asks for anything else waits as long as can be, and in vain."""

    def __init__(self, clock: VirtualClock, known: MemoryGateway | None = None) -> None:
        self.clock = clock
        self.known = known

    def perform(self, call: Call[ResultT]) -> ResultT:
        if self.known:
            return self.known.perform(call)
        self.clock.sleep(longest_wait_s(30.0))
        raise Unavailable("a.json", "no answer")


def waits(gateway: DeadlineGateway, clock: VirtualClock) -> float:
    """Return how long a call without an answer is waited for."""
    before = clock.now()
    with pytest.raises((Unavailable, Stopped)):
        gateway.perform(ReadRepository())
    return clock.now() - before


@pytest.mark.parametrize(
    ("left_s", "waited_s"), [(600.0, 30.0), (30.0, 30.0), (3.0, 3.0), (2.0, 2.0), (0.5, 2.0), (-9.0, 2.0)]
)
def test_no_answer_is_waited_for_beyond_the_deadline_but_for_a_moment(left_s: float, waited_s: float) -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock)
    gateway = DeadlineGateway(HangingGateway(clock), deadline)

    with deadline.until(left_s):
        assert waits(gateway, clock) == waited_s


def test_without_a_deadline_an_answer_is_waited_for_as_long_as_ever() -> None:
    clock = VirtualClock(0.0)

    assert waits(DeadlineGateway(HangingGateway(clock), Deadline(clock)), clock) == 30.0


@pytest.mark.parametrize("call", [ReadRepository(), ReadFile("a.json", "main")], ids=["found", "missing"])
def test_a_github_that_answers_gets_the_grace_for_each_further_answer(call: Call[object]) -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock, grace_s=4.0)
    hanging = HangingGateway(clock, MemoryGateway())
    gateway = DeadlineGateway(hanging, deadline)

    with deadline.until(3.0):
        with suppress(Missing):
            gateway.perform(call)
        hanging.known = None
        assert waits(gateway, clock) == 4.0
    with deadline.until(clock.now() + 3.0):
        assert waits(gateway, clock) == 3.0


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
