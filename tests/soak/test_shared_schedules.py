"""A few fault schedules over one PostgreSQL queue, always the same; `scripts/soak --shared` plays others."""

from pathlib import Path

import pytest

from tests.fakes.postgres import shared_server
from tests.soak.play import play
from tests.soak.share import play_shared_share
from tests.soak.test_sabotage import TWO_WRITERS, acknowledge_unwritten

PLAYS = 5


def test_shared_queue_loses_and_doubles_nothing() -> None:
    share = play_shared_share(shared_server().url, 2, PLAYS)

    assert not share.failure
    assert share.tally.schedules == PLAYS
    assert share.tally.crashes
    assert share.tally.freezes


def test_broken_promise_of_the_shared_queue_is_noticed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    acknowledge_unwritten(monkeypatch)

    with pytest.raises(AssertionError, match="nothing of run-a is stored"):
        play(TWO_WRITERS, tmp_path, database_url=shared_server().new_url())
