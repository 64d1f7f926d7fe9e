"""A quick share of the random schedules of cleanup, always the same ones."""

import pytest

from tests.soak.share import play_cleaning_share

SHARES = 4
PLAYS = 8


@pytest.mark.parametrize("number", range(SHARES))
def test_nothing_protected_is_ever_gone(number: int) -> None:
    share = play_cleaning_share(number, PLAYS)

    assert not share.failure, share.failure
    assert share.tally.schedules == PLAYS
    assert share.tally.sweeps
