"""A round of the soak of claims, so that it can be relied on: scripts/soak --claims plays many."""

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from holdfast.claims.decide import decide_renewal, decide_take
from holdfast.claims.known import KnownClaims
from holdfast.claims.lease import ClaimLease
from holdfast.claims.server_time import DatedGateway
from holdfast.format.claim import Claim
from tests.fakes.postgres import postgres_url
from tests.soak import claims
from tests.soak.claims import play_claims


def test_of_eight_claimers_one_holds_the_run_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "TENURES", 4)
    tally = play_claims(1, seed=4)
    assert tally.tenures >= claims.TENURES
    assert tally.faults
    assert tally.longest_gap_s <= claims.LONGEST_GAP_S


def exclude_nobody(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("holdfast.claims.decide.is_living", lambda _claim, _now: False)


def never_end(patch: pytest.MonkeyPatch) -> None:
    patch.setattr("holdfast.claims.decide.is_living", lambda claim, _now: claim and not claim.is_released)


def keep_the_fence(patch: pytest.MonkeyPatch) -> None:
    def take(*given: Any, **more: Any) -> Claim:
        claim = decide_take(*given, **more)
        return replace(claim, fence=max(1, claim.fence - 1))

    patch.setattr("holdfast.claims.github_judge.decide_take", take)


def renew_for_anybody(patch: pytest.MonkeyPatch) -> None:
    def renew(stored: Claim, run_id: str, token_sha256: str, now: float, ttl_s: float) -> Claim:
        return decide_renewal(replace(stored, token_sha256=token_sha256), run_id, token_sha256, now, ttl_s)

    patch.setattr("holdfast.claims.github_judge.decide_renewal", renew)


def believe_the_lease_forever(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(ClaimLease, "is_alive", True)


def believe_the_own_clock(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(DatedGateway, "_observe", lambda *_: None)


def store_whatever_comes(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(KnownClaims, "check", lambda *_: None)


@pytest.mark.parametrize(
    ("sabotage", "noticed"),
    [
        (exclude_nobody, "round-0: "),
        (never_end, "nobody has held it"),
        (keep_the_fence, "a fence was given twice"),
        (renew_for_anybody, "round-0: "),
        (believe_the_lease_forever, "round-0: "),
        (believe_the_own_clock, "round-0: "),
        (store_whatever_comes, "is written after"),
    ],
)
def test_the_soak_sees_it_if_a_promise_is_broken(
    monkeypatch: pytest.MonkeyPatch, sabotage: Callable[[pytest.MonkeyPatch], None], noticed: str
) -> None:
    sabotage(monkeypatch)
    with pytest.raises(AssertionError, match=noticed):
        play_claims(3, seed=4)


def test_a_round_with_a_database_as_the_judge_comes_to_its_end(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(claims, "TENURES", 3)
    tally = play_claims(1, seed=9000, database=postgres_url(tmp_path))
    assert tally.tenures >= claims.TENURES
    assert tally.drains
