"""A claim renews itself: the loop of its own thread, with pauses that a test ends."""

import threading
from collections.abc import Callable
from queue import Queue as Channel
from typing import cast

import pytest

from holdfast.claims.desk import ClaimDesk, TakenClaim
from holdfast.claims.holding import HeldClaim
from holdfast.claims.lease import ClaimLease
from holdfast.claims.server_time import DateReading
from holdfast.clock import Stopwatch
from holdfast.errors import Fenced, Unavailable
from holdfast.format.claim import Claim
from tests.fakes.clock import VirtualClock

TTL_S = 60.0
# Nothing here waits that long unless it is broken.
_BROKEN_S = 60.0


class Pauses:
    """The pauses of the thread: each is told, and ends when the test says so."""

    def __init__(self) -> None:
        self.asked: Channel[float] = Channel()
        self._go_on: Channel[bool] = Channel()

    def __call__(self, ended: threading.Event, seconds: float) -> bool:
        self.asked.put(seconds)
        self._go_on.get(timeout=_BROKEN_S)
        return ended.is_set()

    def next(self) -> float:
        """Return for how long the thread wants to pause."""
        return self.asked.get(timeout=_BROKEN_S)

    def pass_on(self) -> None:
        """End the pause."""
        self._go_on.put(True)


class Counter:
    """Stands at the place of the desk: renews by a clock, or fails as it is told."""

    def __init__(self, clock: VirtualClock) -> None:
        self.clock = clock
        self.failures: list[Exception] = []
        self.released: list[str] = []

    def lease(self) -> ClaimLease:
        now = self.clock.now()
        claim = Claim("r", 1, "me", "digest", TTL_S, now, now + TTL_S)
        return ClaimLease(claim, DateReading(now, Stopwatch(self.clock), Stopwatch(self.clock)))

    def renew(self, _run_id: str, token: str, *, known: ClaimLease) -> ClaimLease:
        assert (token, known.claim.fence) == ("token", 1)
        if self.failures:
            raise self.failures.pop(0)
        return self.lease()

    def release(self, run_id: str, _token: str, _known: ClaimLease) -> bool:
        self.released.append(run_id)
        return True


@pytest.fixture
def counter() -> Counter:
    return Counter(VirtualClock())


@pytest.fixture
def pauses() -> Pauses:
    return Pauses()


Hold = Callable[[], HeldClaim]


@pytest.fixture
def hold(counter: Counter, pauses: Pauses) -> Hold:
    taken = TakenClaim("token", counter.lease())
    return lambda: HeldClaim(cast(ClaimDesk, counter), taken, pause=pauses).start()


def test_it_is_renewed_twice_in_its_time_for_as_long_as_it_is_held(
    hold: Hold, counter: Counter, pauses: Pauses
) -> None:
    held = hold()
    ends = []
    for _ in range(5):
        assert pauses.next() == TTL_S / 2
        assert held.is_held
        ends.append(held.expires_at)
        counter.clock.time += TTL_S / 2
        pauses.pass_on()
    pauses.next()

    assert ends == [ends[0] + TTL_S / 2 * place for place in range(5)]
    release = threading.Thread(target=held.release)
    release.start()
    assert held._ended.wait(_BROKEN_S)
    pauses.pass_on()
    release.join(_BROKEN_S)
    assert counter.released == ["r"]
    assert not held._thread.is_alive()


def test_what_fails_is_tried_again_sooner_and_makes_it_good_again(
    hold: Hold, counter: Counter, pauses: Pauses
) -> None:
    counter.failures = [Unavailable("", "GitHub is away"), Unavailable("", "GitHub is away")]
    held = hold()

    waits = []
    for _ in range(3):
        waits.append(pauses.next())
        counter.clock.time += waits[-1]
        pauses.pass_on()

    assert waits == [TTL_S / 2, TTL_S / 10, TTL_S / 10]
    assert pauses.next() == TTL_S / 2
    assert held.is_held
    assert held.expires_at == counter.clock.now() + TTL_S
    held._ended.set()
    pauses.pass_on()
    held._thread.join(_BROKEN_S)


def test_once_it_is_lost_the_thread_ends_and_every_check_says_so(
    hold: Hold, counter: Counter, pauses: Pauses
) -> None:
    counter.failures = [Fenced("r", "'b' has taken it over, with fence 2", fence=1, current=2)]
    held = hold()
    pauses.next()
    pauses.pass_on()
    held._thread.join(_BROKEN_S)

    assert not held._thread.is_alive()
    with pytest.raises(Fenced, match="'b' has taken it over"):
        held.check()
    held.release()
    assert counter.released == []  # it is another's by now
