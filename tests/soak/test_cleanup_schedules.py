"""A quick share of the random schedules of cleanup, always the same ones."""

import pytest

from tests.soak.cleaning import Act, Cleaning
from tests.soak.schedules import Death
from tests.soak.share import play_cleaning_in_memory, play_cleaning_share

SHARES = 4
PLAYS = 8

# A checkpoint took the number of a latest that cleanup had left alone, and was cleaned up itself.
ENDED_BADLY = Cleaning(
    (
        (
            Act("sweep", after_s=5.0),
            Act("store", 42, 1.0),
            Act("save", 46),
            Act("prune"),
            Act("save", 35),
            Act("squash"),
            Act("drain"),
            Act("save"),
            Act("store", 8, 5.0),
        ),
        (
            Act("save", 46),
            Act("store", 4, dies=Death("before_spool", 12)),
            Act("store", 21, dies=Death("event", 8)),
            Act("store", 26),
            Act("sweep", after_s=0.3),
            Act("save"),
            Act("sweep", after_s=5.0),
        ),
    ),
    ("any:500:nth=9:times=1", "put:truncate:nth=1:times=2"),
    pace=493,
)


@pytest.mark.parametrize("number", range(SHARES))
def test_nothing_protected_is_ever_gone(number: int) -> None:
    share = play_cleaning_share(number, PLAYS)

    assert not share.failure, share.failure
    assert share.tally.schedules == PLAYS
    assert share.tally.sweeps


def test_schedule_that_ended_badly_once_ends_well() -> None:
    assert play_cleaning_in_memory(ENDED_BADLY).schedules == 1
