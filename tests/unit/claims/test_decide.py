from dataclasses import replace

import pytest

from holdfast.claims.decide import (
    GRACE_S,
    Wish,
    decide_release,
    decide_renewal,
    decide_take,
    is_living,
)
from holdfast.errors import Claimed, Fenced
from holdfast.format.claim import Claim

WISH = Wish("r", "b", "token-b", 60.0)
HELD = Claim("r", 4, "a", "token-a", 60.0, taken_at=1000.0, expires_at=1060.0)
RELEASED = replace(HELD, is_released=True)


def test_a_run_that_nobody_ever_claimed_is_taken_with_the_first_fence() -> None:
    assert decide_take(None, WISH, 1000.0) == Claim("r", 1, "b", "token-b", 60.0, 1000.0, 1060.0)


def test_a_claim_that_was_lost_gives_no_fence_again_that_a_checkpoint_carries() -> None:
    assert decide_take(None, WISH, 1000.0, highest_fence=7).fence == 8
    assert decide_take(RELEASED, WISH, 1000.0, highest_fence=2).fence == 5


@pytest.mark.parametrize("now", [0.0, 1059.9, 1060.0, 1060.0 + GRACE_S - 0.01])
def test_nobody_takes_a_run_that_someone_holds(now: float) -> None:
    with pytest.raises(Claimed) as refused:
        decide_take(HELD, WISH, now)
    assert (refused.value.owner, refused.value.expires_at) == ("a", 1060.0)
    assert is_living(HELD, now)


@pytest.mark.parametrize(("stored", "now"), [(HELD, 1060.0 + GRACE_S), (HELD, 1e12), (RELEASED, 1000.0)])
def test_what_has_run_out_or_was_released_is_taken_with_a_higher_fence(stored: Claim, now: float) -> None:
    taken = decide_take(stored, WISH, now)
    assert (taken.fence, taken.owner, taken.expires_at) == (5, "b", now + 60.0)
    assert not is_living(stored, now)


def test_our_own_claim_whose_answer_was_lost_is_found_and_stays() -> None:
    ours = replace(HELD, token_sha256="token-b", owner="b")
    assert decide_take(ours, WISH, 1010.0) is ours
    assert decide_take(ours, WISH, 1050.0) == replace(ours, expires_at=1110.0)
    assert decide_take(ours, WISH, 5000.0).fence == 4  # late, but nobody else had it


def test_a_renewal_keeps_the_fence_also_after_its_end_as_long_as_nobody_took_the_run() -> None:
    assert decide_renewal(HELD, "r", "token-a", 1030.0, 90.0) == replace(HELD, ttl_s=90.0, expires_at=1120.0)
    assert decide_renewal(HELD, "r", "token-a", 9000.0, 60.0).expires_at == 9060.0


@pytest.mark.parametrize(
    "stored", [None, RELEASED, replace(HELD, token_sha256="token-c", owner="c", fence=5)]
)
def test_what_is_not_ours_any_more_cannot_be_renewed_nor_released(stored: Claim | None) -> None:
    with pytest.raises(Fenced) as refused:
        decide_renewal(stored, "r", "token-a", 1030.0, 60.0)
    assert refused.value.current == (stored.fence if stored else 0)
    assert decide_release(stored, "token-a", 1030.0) is None


def test_a_release_ends_a_claim_at_once_and_never_later_than_it_would_have() -> None:
    assert decide_release(HELD, "token-a", 1030.0) == replace(HELD, expires_at=1030.0, is_released=True)
    assert decide_release(HELD, "token-a", 2000.0) == replace(HELD, is_released=True)


def test_a_renewal_never_puts_the_end_forward_for_whoever_may_not_get_its_answer() -> None:
    assert decide_renewal(HELD, "r", "token-a", 999.0, 60.0).expires_at == 1060.0
    assert decide_renewal(HELD, "r", "token-a", 999.0, 30.0).expires_at == 1029.0  # as it was asked for


def test_a_fence_is_higher_than_any_that_the_machine_has_seen() -> None:
    assert decide_take(None, WISH._replace(seen_fence=9), 1000.0).fence == 10
