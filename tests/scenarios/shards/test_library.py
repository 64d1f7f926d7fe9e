"""Runs divided among repositories, as a program sees it."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from holdfast.errors import DecisionRefused, SpoolUnwritable, UnknownRun
from holdfast.format.receipt import Persistence, Progress
from holdfast.queue.sqlite_queue import SqliteQueue
from tests.fakes.app import APP_ID, key_pair, registration
from tests.fakes.postgres import postgres_url
from tests.fakes.shards import ONE, SHARDS, THREE, TWO, ShardedGitHub, run_of, sharded_github

OLD = (ONE, TWO)


@pytest.fixture
def github(tmp_path: Path) -> Iterator[ShardedGitHub]:
    with sharded_github(tmp_path / "github") as served:
        yield served


def test_every_run_is_in_the_repository_that_its_name_falls_to_and_all_are_seen_as_one(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    runs = {shard: {run_of(shard, nth=nth) for nth in range(3)} for shard in SHARDS}
    with github.open(tmp_path / "data") as holdfast:
        saved = {
            run_id: [holdfast.save(run_id, {"n": n}).checkpoint_id for n in range(2)]
            for names in runs.values()
            for run_id in names
        }
        before = holdfast.status()
        result = holdfast.drain()

        assert before["spool"]["depth"] == 18
        assert [shard["spool"]["depth"] for shard in before["shards"]] == [6, 6, 6]
        assert (result.verified, result.left) == (18, 0)
        assert {run.run_id: run.checkpoint_count for run in holdfast.runs()} == dict.fromkeys(saved, 2)
        for run_id, ids in saved.items():
            assert [entry.checkpoint_id for entry in holdfast.checkpoints(run_id).entries] == ids
            assert holdfast.resume(run_id).state == {"n": 1}
            assert holdfast.run_of(ids[0]) == run_id
            assert holdfast.checkpoint(ids[0]).sequence == 1
            assert not holdfast.validate(run_id).findings
    assert {shard: github.runs(shard) for shard in SHARDS} == runs


def test_a_run_that_exists_is_found_where_it_is_and_goes_on_there_after_a_shard_was_added(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    run_id = run_of(THREE, before=OLD)
    with github.open(tmp_path / "old", OLD) as holdfast:
        first = [holdfast.save(run_id, {"n": n}).checkpoint_id for n in range(3)]
        holdfast.drain()

    with github.open(tmp_path / "another machine") as holdfast:
        assert holdfast.resume(run_id).state == {"n": 2}
        later = [holdfast.save(run_id, {"n": n}).checkpoint_id for n in range(3, 5)]
        holdfast.drain()

        assert holdfast.receipt(later[-1]).sequence_number == 5  # type: ignore[union-attr]
        assert holdfast.save(run_id, {"n": 5}).sequence_number == 6
        assert [run.run_id for run in holdfast.runs()] == [run_id]
    assert github.numbers(ONE, run_id) == dict(enumerate([*first, *later], 1))
    assert github.runs(THREE) == set()


def test_a_save_that_knows_nothing_of_the_run_is_handed_on_in_its_order_and_only_once(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    run_id = run_of(THREE, before=OLD)
    with github.open(tmp_path / "old", OLD) as holdfast:
        first = holdfast.save(run_id, {"n": 0})
        holdfast.drain()

    with github.open(tmp_path / "another machine") as holdfast:
        blind = [holdfast.save(run_id, {"n": n}, checkpoint_id=_id(n)).checkpoint_id for n in range(1, 4)]
        # Killed after the other spool has them, before this one has let go of them.
        with patch.object(SqliteQueue, "hand_over", side_effect=SpoolUnwritable("killed")):
            left = holdfast.drain()
        assert left.left > 0
    with github.open(tmp_path / "another machine") as holdfast:
        again = holdfast.save(run_id, {"n": 1}, checkpoint_id=_id(1))
        holdfast.drain()

        assert holdfast.status()["spool"]["depth"] == 0
        assert [holdfast.receipt(each).status for each in blind] == [Progress.VERIFIED] * 3  # type: ignore[union-attr]
        assert again.checkpoint_id == blind[0]
    assert github.numbers(ONE, run_id) == dict(enumerate([first.checkpoint_id, *blind], 1))
    assert github.runs(THREE) == set()


def test_what_waits_in_the_spool_of_another_shard_counts_as_the_newest(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    run_id = run_of(THREE, before=OLD)
    with github.open(tmp_path / "old", OLD) as holdfast:
        holdfast.save(run_id, {"n": 0})
        holdfast.drain()

    with github.open(tmp_path / "another machine") as holdfast:
        newest = holdfast.save(run_id, {"n": 1}).checkpoint_id

        assert holdfast.resume(run_id).state == {"n": 1}
        assert newest in [entry.checkpoint_id for entry in holdfast.checkpoints(run_id).entries]
        assert holdfast.run_of(newest) == run_id
        assert [run.checkpoint_count for run in holdfast.runs()] == [2]


def test_a_run_that_waits_while_a_shard_is_added_does_not_overtake_itself(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    run_id = run_of(THREE, before=OLD)
    with github.open(tmp_path / "data", OLD) as holdfast:
        ids = [holdfast.save(run_id, {"n": n}).checkpoint_id for n in range(2)]

    for _ in range(2):
        with github.open(tmp_path / "data") as holdfast:
            ids.append(holdfast.save(run_id, {"n": len(ids)}).checkpoint_id)
    with github.open(tmp_path / "data") as holdfast:
        holdfast.drain()

    assert github.numbers(ONE, run_id) == dict(enumerate(ids, 1))
    assert github.runs(THREE) == set()


def test_a_new_run_waits_while_nobody_knows_whether_another_shard_has_it(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    shards = (ONE, "acme/late")
    run_id = run_of(ONE, shards)
    with github.open(tmp_path / "data", shards) as holdfast:
        holdfast.save(run_id, {"n": 0})
        left = holdfast.drain()
    with github.open(tmp_path / "data", shards) as holdfast:
        status, later = holdfast.status(), holdfast.save(run_id, {"n": 1})

        assert left.left == 1
        assert "acme/late" in left.reason or "another shard" in left.reason
        assert "another shard" in status["last_error"]
        assert later.persistence is Persistence.DELAYED
    assert github.runs(ONE) == set()

    github.emulator.create_repository("acme/late")
    with github.open(tmp_path / "data", shards) as holdfast:
        assert holdfast.drain().left == 0
        assert holdfast.status()["last_error"] is None
    assert github.runs(ONE) == {run_id}


def test_decisions_and_retention_reach_the_shard_of_their_run(github: ShardedGitHub, tmp_path: Path) -> None:
    one, two, new = run_of(ONE), run_of(TWO), run_of(THREE)
    with github.open(
        tmp_path / "data", HOLDFAST_KEEP_FULL_RUNS="0", HOLDFAST_KEEP_LATEST_RUNS="0"
    ) as holdfast:
        for run_id in (one, two):
            holdfast.save(run_id, {"n": 0}, trigger="circuit_breaker")
            holdfast.save(run_id, {"n": 1})
        holdfast.drain(tidies=False)

        holdfast.review(one, "continue")
        assert [run.run_id for run in holdfast.runs(review=True)] == [two]
        holdfast.rollback(two, 1)
        holdfast.fork(one, 1, new)
        with pytest.raises(DecisionRefused):
            holdfast.fork(one, 1, two)
        assert holdfast.preserve(two)
        holdfast.complete(one, "completed")
        holdfast.drain(tidies=False)
        report = holdfast.cleanup()
        holdfast.delete(new)

        assert {run.run_id for run in report.plan.runs} == {one, two, new}
        assert [run.run_id for run in holdfast.runs(archived=True)] == [one]
        assert [run.run_id for run in holdfast.runs()] == [two]
        with pytest.raises(UnknownRun):
            holdfast.resume(new)
        assert holdfast.squash_history().commits_after == 3
    assert github.runs(THREE) == set()
    assert two in github.runs(TWO)


def test_a_file_that_every_shard_has_counts_for_each_of_them(github: ShardedGitHub, tmp_path: Path) -> None:
    with github.open(tmp_path / "data", OLD) as holdfast:
        for shard in OLD:
            holdfast.save(run_of(shard, OLD), {"n": 0})
        holdfast.drain(tidies=False)
        before = holdfast.stats().stored.files
        for shard in OLD:
            holdfast.preserve(run_of(shard, OLD))
        after = holdfast.stats().stored.files

    assert before is not None
    assert after == before + 2


def test_each_installation_of_an_app_has_a_budget_of_its_own(tmp_path: Path) -> None:
    app = registration(acme=1, umbrella=2)
    with sharded_github(tmp_path / "github", (ONE, TWO, THREE), app=app, token="none") as github:
        own = {"HOLDFAST_TOKEN": "", "HOLDFAST_APP_ID": str(APP_ID)}
        key = {"HOLDFAST_APP_PRIVATE_KEY": key_pair()[0]}
        with github.open(tmp_path / "data", **own, **key) as holdfast:
            for shard in SHARDS:
                holdfast.save(run_of(shard), {"n": 0})
            assert holdfast.drain().left == 0
            left: dict[str, set[int]] = {}
            for shard, status in zip(SHARDS, holdfast.status()["shards"], strict=True):
                left.setdefault(shard.partition("/")[0], set()).add(status["budget"]["last_remaining"])
            assert sorted(map(len, left.values())) == [1, 1]
    # Two of the shards are the same owner's, and share what its installation may do.
    assert len(list((tmp_path / "data" / "budgets").glob("*.json"))) == 2


def test_shards_share_a_database_with_a_queue_and_a_drainer_each(
    github: ShardedGitHub, tmp_path: Path
) -> None:
    url = postgres_url(tmp_path)
    stray, own = run_of(THREE, before=OLD), run_of(THREE, before=(TWO, ONE))
    with github.open(tmp_path / "old", OLD, HOLDFAST_DATABASE_URL=url) as holdfast:
        holdfast.save(stray, {"n": 0})
        holdfast.drain()
    with (
        github.open(tmp_path / "first", HOLDFAST_DATABASE_URL=url) as first,
        github.open(tmp_path / "second", HOLDFAST_DATABASE_URL=url) as second,
    ):
        ids = [
            holdfast.save(run_id, {"n": n}, checkpoint_id=None).checkpoint_id
            for n, holdfast in enumerate((first, second, first), 1)
            for run_id in (stray, own)
        ]
        assert second.status()["spool"]["depth"] == 6
        assert [shard["spool"]["depth"] for shard in first.status()["shards"]] == [0, 0, 6]
        assert second.drain().left == 0
        assert first.resume(stray).state == {"n": 3}
        assert all(first.receipt(each).status is Progress.VERIFIED for each in ids)  # type: ignore[union-attr]
    assert list(github.numbers(ONE, stray)) == [1, 2, 3, 4]
    assert list(github.numbers(THREE, own)) == [1, 2, 3]


def _id(number: int) -> str:
    return f"00000000-0000-4000-8000-{number:012d}"
