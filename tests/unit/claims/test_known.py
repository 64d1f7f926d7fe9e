"""What a machine knows of claims, without asking the judge."""

from pathlib import Path

import pytest

from holdfast.claims.known import KnownClaims
from holdfast.claims.lease import ClaimLease
from holdfast.claims.second_look import SECOND_LOOK_AFTER_S
from holdfast.claims.server_time import DateReading
from holdfast.clock import Stopwatch
from holdfast.errors import ClaimNotShown, Fenced
from holdfast.format.claim import Claim
from tests.fakes.assembly import make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

TTL_S = 60.0


def claim(fence: int, expires_at: float, *, is_released: bool = False) -> Claim:
    return Claim("r", fence, f"owner {fence}", "0" * 64, TTL_S, expires_at - TTL_S, expires_at, is_released)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock()


@pytest.fixture
def known(tmp_path: Path, clock: VirtualClock) -> KnownClaims:
    return KnownClaims(make_assembly(tmp_path, MemoryGateway(), clock).spool, clock.now)


@pytest.mark.parametrize("apart_s", [0.0, -3600.0, 3600.0])
def test_a_claim_lasts_as_long_as_its_judge_says_whatever_the_judge_s_clock(
    known: KnownClaims, clock: VirtualClock, apart_s: float
) -> None:
    judge_now = clock.now() + apart_s
    reading = DateReading(judge_now, Stopwatch(clock), Stopwatch(clock))
    known.learn_own(ClaimLease(claim(1, judge_now + TTL_S), reading))
    clock.time += TTL_S - 1
    known.admit("r", 1)
    clock.time += 1
    with pytest.raises(Fenced, match="run out"):
        known.admit("r", 1)


def test_when_a_claim_of_another_machine_ends_is_not_known_here(
    known: KnownClaims, clock: VirtualClock
) -> None:
    with pytest.raises(Fenced):
        known.check("r", 1, lambda _: claim(2, clock.now() + TTL_S))
    clock.time += 10 * TTL_S  # it is renewed there
    known.admit("r", 2)


def test_a_fence_that_was_made_up_is_neither_remembered_nor_written(
    known: KnownClaims, clock: VirtualClock
) -> None:
    held = claim(2, clock.now() + TTL_S)
    known.learn(held, is_ours=True)

    known.admit("r", 9)

    known.admit("r", 2)
    with pytest.raises(ClaimNotShown, match="no claim with fence 9 is shown yet: 'owner 2' drives it"):
        known.check("r", 9, lambda _: held)
    clock.time += SECOND_LOOK_AFTER_S
    with pytest.raises(Fenced, match="no claim has that fence: 'owner 2' drives it, with fence 2"):
        known.check("r", 9, lambda _: held)


def test_a_fence_that_was_made_up_keeps_the_holder_out_until_the_judge_was_asked(
    known: KnownClaims, clock: VirtualClock
) -> None:
    known.admit("r", 9)
    with pytest.raises(Fenced, match="fence 9"):
        known.admit("r", 2)

    with pytest.raises(ClaimNotShown):
        known.check("r", 9, lambda _: claim(2, clock.now() + TTL_S))

    known.admit("r", 2)


def test_a_fence_is_refused_only_if_a_second_look_some_time_later_shows_the_same_claim(
    known: KnownClaims, clock: VirtualClock
) -> None:
    """GitHub may show what was there before a claim that was taken elsewhere."""

    def check(fence: int, shown: int) -> None:
        known.check("r", fence, lambda _: claim(shown, clock.now() + TTL_S))

    with pytest.raises(ClaimNotShown):
        check(5, shown=2)
    clock.time += SECOND_LOOK_AFTER_S - 1
    with pytest.raises(ClaimNotShown):
        check(5, shown=2)
    clock.time += 1
    with pytest.raises(ClaimNotShown):
        check(5, shown=4)  # another claim: what was shown before was old indeed
    clock.time += SECOND_LOOK_AFTER_S
    with pytest.raises(Fenced, match="no claim has that fence"):
        check(5, shown=4)


def test_a_doubt_ends_with_the_claim_that_is_shown(known: KnownClaims, clock: VirtualClock) -> None:
    for _ in range(2):
        with pytest.raises(ClaimNotShown):
            known.check("r", 3, lambda _: claim(2, clock.now() + TTL_S))
        clock.time += SECOND_LOOK_AFTER_S
        known.check("r", 3, lambda _: claim(3, clock.now() + TTL_S))


def test_each_fence_in_doubt_is_looked_at_by_itself_and_forgotten_after_a_week(
    known: KnownClaims, clock: VirtualClock
) -> None:
    def check(fence: int) -> None:
        known.check("r", fence, lambda _: claim(2, clock.now() + TTL_S))

    for fence in (7, 8):
        with pytest.raises(ClaimNotShown):
            check(fence)
    clock.time += 3600
    known.forget_ended()
    with pytest.raises(Fenced):
        check(7)
    clock.time += 8 * 24 * 3600
    known.forget_ended()
    with pytest.raises(ClaimNotShown):
        check(8)


def test_a_clock_that_was_set_back_begins_a_doubt_anew(known: KnownClaims, clock: VirtualClock) -> None:
    for set_back_s in (0, 3600):
        clock.time -= set_back_s
        with pytest.raises(ClaimNotShown):
            known.check("r", 9, lambda _: claim(2, clock.now() + TTL_S))
    clock.time += SECOND_LOOK_AFTER_S
    with pytest.raises(Fenced):
        known.check("r", 9, lambda _: claim(2, clock.now() + TTL_S))


def test_a_higher_fence_than_the_judge_tells_of_is_written_where_the_judge_may_be_late(
    known: KnownClaims, clock: VirtualClock
) -> None:
    before = claim(2, clock.now() + TTL_S)
    known.check("r", 3, lambda _: claim(2, clock.now() + TTL_S, is_released=True))
    known.check("r", 3, lambda _: claim(2, clock.now() - TTL_S))
    known.learn(claim(3, clock.now() + TTL_S), is_ours=True)  # the answer is older than what was taken here
    known.check("r", 3, lambda _: before)


def test_what_is_told_late_is_not_learned(known: KnownClaims, clock: VirtualClock) -> None:
    known.learn(claim(2, clock.now() + TTL_S), is_ours=True)
    known.learn(claim(1, clock.now() + TTL_S), is_ours=True)
    with pytest.raises(Fenced, match="fence 2"):
        known.admit("r", 1)


def test_a_released_claim_admits_nothing(known: KnownClaims, clock: VirtualClock) -> None:
    known.learn(claim(1, clock.now() + TTL_S, is_released=True), is_ours=False)
    with pytest.raises(Fenced, match="released"):
        known.admit("r", 1)


def test_claims_that_ended_long_ago_are_forgotten(known: KnownClaims, clock: VirtualClock) -> None:
    known.learn(claim(1, clock.now() + TTL_S), is_ours=True)
    clock.time += 3600
    known.forget_ended()
    assert known.find("r")
    clock.time += 24 * 3600
    known.forget_ended()
    assert known.find("r") is None


def test_fences_of_claims_whose_end_is_not_known_are_not_remembered_for_ever(
    known: KnownClaims, clock: VirtualClock
) -> None:
    """A sidecar that others send their fences to sees one run after the other, for years."""
    for number in range(5):
        known.admit(f"run-{number}", 1)
        clock.time += 25 * 3600

    assert [number for number in range(5) if known.find(f"run-{number}")] == [4]
