"""A quick share of the fault schedules, always the same ones; `scripts/soak` plays thousands of others."""

import pytest

from tests.soak.share import play_share

# Several small shares instead of a large one, so that they can run side by side.
SHARES = 4
PLAYS = 15


@pytest.mark.parametrize("number", range(SHARES))
def test_no_acknowledged_checkpoint_is_lost_or_doubled(number: int) -> None:
    share = play_share(number, PLAYS)

    assert not share.failure
    assert share.tally.schedules == PLAYS
