"""Rendezvous hashing: even shares, and few runs that move."""

from collections import Counter

from holdfast.sharding.homes import rank

SHARDS = ["acme/one", "acme/two", "acme/three"]
RUNS = [f"run-{number}" for number in range(3000)]


def test_runs_are_divided_evenly() -> None:
    shares = Counter(rank(run_id, SHARDS)[0] for run_id in RUNS)

    assert all(900 < count < 1100 for count in shares.values())


def test_a_shard_that_is_added_takes_its_share_and_moves_no_other_run() -> None:
    before = {run_id: rank(run_id, SHARDS) for run_id in RUNS}
    after = {run_id: rank(run_id, [*SHARDS, "acme/four"]) for run_id in RUNS}

    moved = [run_id for run_id in RUNS if after[run_id][0] != before[run_id][0]]
    assert {after[run_id][0] for run_id in moved} == {"acme/four"}
    assert 650 < len(moved) < 850
    # So that a run of earlier days is found at the second place.
    assert all(after[run_id][1] == before[run_id][0] for run_id in moved)


def test_neither_order_nor_spelling_of_the_list_matters() -> None:
    assert all(
        rank(run_id, ["ACME/Three", "acme/Two", "acme/one"])[0].lower() == rank(run_id, SHARDS)[0]
        for run_id in RUNS[:100]
    )
