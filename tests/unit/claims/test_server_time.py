"""A claim ends for its holder before it ends for anyone else, however wrong the clocks are."""

from collections.abc import Callable
from email.utils import formatdate

import pytest

from holdfast.claims.decide import GRACE_S
from holdfast.claims.lease import ClaimLease
from holdfast.claims.server_time import DatedGateway
from holdfast.format.claim import Claim
from holdfast.github.calls import Answer, Call, Gateway, ReadHead, ResultT
from tests.fakes.clock import VirtualClock

TRUE_START = 1_800_000_000.0


class SlowServer:
    """Answers after a while; `true` is its own clock, `local` that of the machine that asks."""

    def __init__(self, true: VirtualClock, local: VirtualClock, *, there_s: float, back_s: float) -> None:
        self._clocks = (true, local)
        self._there_s, self._back_s = there_s, back_s
        self.observe: Callable[[Answer], None] = lambda _: None

    def observed_by(self, observe: Callable[[Answer], None]) -> Gateway:
        self.observe = observe
        return self

    def perform(self, call: Call[ResultT]) -> ResultT:
        true, local = self._clocks
        self._pass(self._there_s)
        headers = {"date": formatdate(true.now(), usegmt=True)}
        self._pass(self._back_s)
        self.observe(Answer(call, 200, headers, local.now()))
        return "sha"  # type: ignore[return-value]

    def _pass(self, seconds: float) -> None:
        for clock in self._clocks:
            clock.time += seconds


@pytest.mark.parametrize("skew_s", [0.0, -7200.0, 7200.0])
@pytest.mark.parametrize(("there_s", "back_s"), [(0.0, 0.0), (25.0, 0.0), (0.0, 25.0), (10.3, 10.3)])
@pytest.mark.parametrize("fraction_s", [0.0, 0.999])
def test_a_holder_lets_go_before_anyone_may_take(
    skew_s: float, there_s: float, back_s: float, fraction_s: float
) -> None:
    true, local = VirtualClock(TRUE_START + fraction_s), VirtualClock(TRUE_START + skew_s)
    server = SlowServer(true, local, there_s=there_s, back_s=back_s)
    dated = DatedGateway(server.observed_by, local)
    dated.perform(ReadHead("b"))
    reading = dated.reading()
    assert reading.earliest() <= true.now()
    claim = Claim("r", 1, "a", "t", 60.0, reading.earliest(), reading.earliest() + 60.0)
    lease = ClaimLease(claim, reading)
    held_until = TRUE_START
    for _ in range(1200):
        if lease.is_alive:
            held_until = true.now()
        true.time += 0.1
        local.time += 0.1
    # Someone else goes by the whole second before, and waits a little longer.
    assert held_until < claim.expires_at + GRACE_S
    assert held_until <= claim.expires_at
    assert held_until > true.now() - 120 + 60 - there_s - back_s - 3


def test_an_answer_without_a_date_leaves_the_local_clock() -> None:
    clock = VirtualClock(5000.0)

    class Dateless:
        def perform(self, call: Call[ResultT]) -> ResultT:
            return "sha"  # type: ignore[return-value]

    dated = DatedGateway(lambda _: Dateless(), clock)
    dated.perform(ReadHead("b"))
    assert dated.reading().earliest() == 5000.0
