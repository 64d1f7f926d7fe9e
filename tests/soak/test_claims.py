"""A round of the soak of claims, so that it can be relied on: scripts/soak --claims plays many."""

import pytest

from tests.soak import claims
from tests.soak.claims import TwoHolders, open_stage, play_claims


def test_of_eight_claimers_one_holds_the_run_whatever_happens(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(claims, "TENURES", 4)
    tally = play_claims(1, seed=4)
    assert tally.tenures >= claims.TENURES
    assert tally.faults
    assert tally.longest_gap_s <= claims.LONGEST_GAP_S


def test_the_soak_sees_it_if_claims_do_not_exclude(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.claims.decide.is_living", lambda _claim, _now: False)
    with open_stage(seed=4) as stage, pytest.raises(TwoHolders):
        stage.play(0)
