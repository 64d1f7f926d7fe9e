"""The worker waits for a moment while requests queue up, and never for long."""

import threading

from holdfast.sidecar.courtesy import BREATH_S, LONGEST_S, MANY, Courtesy
from tests.fakes.clock import VirtualClock


def make() -> tuple[Courtesy, VirtualClock, threading.Event]:
    clock, stop = VirtualClock(), threading.Event()
    return Courtesy(stop, now=clock.now, sleep=clock.sleep), clock, stop


def test_a_quiet_sidecar_holds_nobody_back() -> None:
    courtesy, clock, _ = make()

    courtesy.note(MANY - 1)
    courtesy.give_way()

    assert clock.slept == []


def test_a_busy_one_holds_the_worker_back_for_a_moment() -> None:
    courtesy, clock, _ = make()

    courtesy.note(MANY)
    courtesy.give_way()

    assert 0 < sum(clock.slept) < LONGEST_S
    courtesy.give_way()
    assert sum(clock.slept) < LONGEST_S


def test_no_load_holds_it_back_for_longer() -> None:
    clock = VirtualClock()

    def sleep(seconds: float) -> None:
        clock.sleep(seconds)
        courtesy.note(MANY)

    courtesy = Courtesy(threading.Event(), now=clock.now, sleep=sleep)
    courtesy.note(MANY)
    courtesy.give_way()

    assert 0.9 * LONGEST_S < sum(clock.slept) < 2 * LONGEST_S


def test_long_work_pauses_for_a_breath_while_requests_queue_up() -> None:
    courtesy, clock, stop = make()
    courtesy.breathe()
    assert clock.slept == []

    courtesy.note(MANY)
    courtesy.breathe()
    assert clock.slept == [BREATH_S]

    stop.set()
    courtesy.breathe()
    assert clock.slept == [BREATH_S]


def test_an_order_to_stop_ends_it() -> None:
    courtesy, clock, stop = make()
    courtesy.note(MANY)
    stop.set()

    courtesy.give_way()

    assert clock.slept == []
