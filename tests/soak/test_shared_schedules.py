"""A few fault schedules over one PostgreSQL queue, always the same; `scripts/soak --shared` plays others."""

from pathlib import Path

import pytest

from tests.fakes.postgres import shared_server
from tests.soak.play import play
from tests.soak.schedules import Death, Drain, Machine, Schedule, Stranger, Submit, Transfer
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


def test_parts_that_github_does_not_show_for_a_moment_are_not_stored_again(tmp_path: Path) -> None:
    few = (
        Drain(timeout_s=0.0, after_s=0.1),
        Drain(after_s=3.0, dies=Death("before_request", 6)),
        Drain(timeout_s=4000.0, after_s=0.1),
        Drain(after_s=0.1),
    )
    rest = (Drain(after_s=400.0), *[Drain(after_s=0.1)] * 4)
    schedule = Schedule(
        machines=(Machine((Drain("commit", after_s=0.1), *rest), "open"), Machine(few, "few")),
        calls=(
            *(Submit(0, number) for number in (34, 23, 0, 0, 35)),
            *[Transfer(0, 1)] * 2,
            Submit(0, 39, after_s=400.0),
            *(Submit(0, number) for number in (33, 32, 29, 0)),
            Submit(0, 24, 12),
            Submit(0, 10, 6),
            Stranger(),
            Submit(0, 36),
            Submit(0, 39, 12, 20.0, Death("before_spool")),
            Submit(0, 35, 12, 0.1, Death("before_spool")),
            Submit(1, 17, dies=Death("after_spool")),
            Submit(0, 15, 5, 400.0),
        ),
        faults=(
            "graphql:404:nth=8:times=3",
            "get:404:nth=1:times=2",
            "get:404:p=0.2:seed=48",
            "any:cut:p=0.2:seed=34",
            "put:404:p=0.05:seed=60",
            "delete:malformed:nth=5:times=6",
            "get:cut:nth=12:times=2",
            "post:cut:nth=10:times=3",
        ),
        pace=179,
    )

    assert play(schedule, tmp_path, database_url=shared_server().new_url()).faults
