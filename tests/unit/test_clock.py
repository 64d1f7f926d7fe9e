"""Deadlines: the end of a time that was given, and the order to stop."""

import threading

import pytest

from holdfast.clock import Deadline
from holdfast.errors import Stopped
from tests.fakes.clock import VirtualClock


class StoppingClock(VirtualClock):
    """Has an order to stop come in during the first wait."""

    def __init__(self, stop: threading.Event) -> None:
        super().__init__(0.0)
        self._stop = stop

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self._stop.set()


def test_without_a_time_nothing_expires() -> None:
    deadline = Deadline(VirtualClock(1e12))

    assert not deadline.expired()


def test_time_that_was_given_is_over_at_its_end_and_only_meanwhile() -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock)

    with deadline.until(10.0):
        assert not deadline.expired()
        clock.sleep(10.0)
        assert (deadline.expired(), deadline.is_late(), deadline.is_stopping()) == (True, True, False)
    assert not deadline.expired()


def test_the_end_before_is_in_force_again_whatever_happens() -> None:
    deadline = Deadline(VirtualClock(5.0))

    with pytest.raises(KeyError), deadline.until(1.0):
        raise KeyError

    assert not deadline.expired()


def test_an_order_to_stop_expires_it_at_once() -> None:
    deadline = Deadline(VirtualClock())
    deadline.stop.set()

    assert (deadline.expired(), deadline.is_late(), deadline.is_stopping()) == (True, False, True)


def test_pauses_end_at_the_deadline_and_without_one_are_as_asked_for() -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock)

    deadline.wait(7.0)
    with deadline.until(10.0):
        deadline.wait(7.0)
        deadline.wait(7.0)
    assert clock.now() == 10.0
    deadline.wait(7.0)

    assert clock.now() == 17.0


def test_short_pauses_that_are_due_to_github_are_kept() -> None:
    clock = VirtualClock(0.0)
    deadline = Deadline(clock)

    with deadline.until(0.0):
        deadline.wait_for_room(1.0)
        deadline.wait_for_room(60.0)

    assert clock.slept == [1.0, 0.0]


def test_a_pause_takes_its_time() -> None:
    clock = VirtualClock()

    Deadline(clock).wait(2.0)

    assert sum(clock.slept) == pytest.approx(2.0)


@pytest.mark.parametrize("seconds", [2.0, 2.5])
def test_a_stop_cuts_a_short_pause_short(seconds: float) -> None:
    stop = threading.Event()
    clock = StoppingClock(stop)
    deadline = Deadline(clock, stop)

    deadline.wait(seconds)
    deadline.wait(seconds)

    assert sum(clock.slept) < 0.1


def test_a_long_pause_is_one_sleep_which_the_clock_ends_at_a_stop() -> None:
    clock = VirtualClock()

    Deadline(clock).wait(3600.0)

    assert clock.slept == [3600.0]


def test_grace_begins_with_the_first_look_after_a_stop_and_then_ends() -> None:
    clock = VirtualClock()
    deadline = Deadline(clock, grace_s=4.0)
    deadline.check_grace()
    clock.sleep(100.0)
    deadline.stop.set()

    deadline.check_grace()
    clock.sleep(3.9)
    deadline.check_grace()
    clock.sleep(0.2)

    with pytest.raises(Stopped, match="stays in the spool"):
        deadline.check_grace()


def test_who_asks_for_the_error_is_told_why() -> None:
    deadline = Deadline(VirtualClock())

    assert "the time for this is over: 502" in str(deadline.stopped("502"))
    deadline.stop.set()
    assert "we were asked to stop" in str(deadline.stopped("502"))


class BackwardClock(VirtualClock):
    """Is set back by two hours during every sleep."""

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.time -= 7200.0


@pytest.mark.parametrize("seconds", [1.0, 30.0])
def test_pause_lasts_as_long_as_it_was_meant_to_when_the_clock_is_set_back(seconds: float) -> None:
    clock = BackwardClock()

    Deadline(clock).wait(seconds)

    assert sum(clock.slept) == pytest.approx(seconds)


@pytest.mark.parametrize(("share", "slept_s"), [(0.0, 4.0), (0.5, 6.0), (1.0, 8.0)])
def test_pause_is_at_least_half_as_long_as_said(share: float, slept_s: float) -> None:
    clock = VirtualClock()
    before = clock.now()

    Deadline(clock, random_share=lambda: share).pause(8.0)

    assert clock.now() - before == pytest.approx(slept_s)
