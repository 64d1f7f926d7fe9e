"""Where runs are at home, and how seldom GitHub is asked for it."""

from collections import Counter
from functools import partial
from pathlib import Path

import pytest

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import Missing, Refused, Unavailable
from holdfast.format.paths import Layout
from holdfast.github.calls import Call, ResultT
from holdfast.repository.sources import GitHubSource
from holdfast.sharding.homes import RECENT_S, Homes, rank
from holdfast.sharding.stored_runs import TRY_AGAIN_S, StoredRuns
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

SHARDS = ["acme/one", "acme/two", "acme/three"]
RUNS = [f"run-{number}" for number in range(3000)]


class Counting(MemoryGateway):
    """Counts calls, and fails while it is `away`."""

    def __init__(self) -> None:
        super().__init__()
        self.asked = 0
        self.away: Exception | None = None

    def perform(self, call: Call[ResultT]) -> ResultT:
        self.asked += 1
        if self.away:
            raise self.away
        return super().perform(call)

    def hold(self, run_id: str) -> None:
        self.write_as_someone_else("checkpoints", {f"checkpoints/{run_id}/latest.json": b"{}"})


class World:
    """Three repositories, and the homes of their runs."""

    def __init__(self, folder: Path) -> None:
        self.clock = VirtualClock()
        self.gateways = {shard: Counting() for shard in SHARDS}
        self.held: set[tuple[str, str]] = set()

        def open_source(shard: str) -> GitHubSource:
            cache = RepositoryCache(folder / shard.replace("/", "-"))
            return GitHubSource(self.gateways[shard], cache, Layout(), "checkpoints")

        stored = {shard: StoredRuns(partial(open_source, shard), self.clock) for shard in SHARDS}
        self.homes = Homes(stored, lambda shard, run_id: (shard, run_id) in self.held)

    @property
    def calls(self) -> int:
        return sum(gateway.asked for gateway in self.gateways.values())


@pytest.fixture
def world(tmp_path: Path) -> World:
    return World(tmp_path)


def test_a_new_run_belongs_to_the_shard_of_its_hash(world: World) -> None:
    first, *_ = rank("run", SHARDS)

    assert world.homes.settle("run", first) == first
    assert world.homes.known("run") == first


def test_a_run_that_is_stored_elsewhere_stays_there_and_is_asked_for_once(world: World) -> None:
    first, second, _ = rank("run", SHARDS)
    world.gateways[second].hold("run")

    assert world.homes.settle("run", first) == second
    asked = world.calls
    assert world.homes.find("run") == second
    assert world.calls == asked


def test_many_new_runs_cost_as_few_calls_as_one(world: World) -> None:
    runs = [f"run-{number}" for number in range(50)]
    world.homes.settle(runs[0], rank(runs[0], SHARDS)[0])
    asked = world.calls

    for run_id in runs:
        world.homes.settle(run_id, rank(run_id, SHARDS)[0])

    assert world.calls <= asked + 4  # the one shard that was not asked for the first run


def test_while_a_shard_was_never_seen_nothing_is_settled_and_it_is_not_asked_all_the_time(
    world: World,
) -> None:
    first, second, _ = rank("run", SHARDS)
    world.gateways[second].away = Unavailable("", "no answer")

    for _ in range(3):
        with pytest.raises(Unavailable):
            world.homes.settle("run", first)

    assert world.gateways[second].asked == 1
    world.gateways[second].away = None
    world.clock.sleep(TRY_AGAIN_S)
    assert world.homes.settle("run", first) == first


def test_a_shard_that_was_seen_and_is_away_holds_nobody_up(world: World) -> None:
    first, second, _ = rank("run", SHARDS)
    world.homes.settle("run", first)
    world.gateways[second].away = Unavailable("", "no answer")
    world.clock.sleep(RECENT_S)
    other = next(f"other-{n}" for n in range(100) if rank(f"other-{n}", SHARDS)[0] == first)

    assert world.homes.settle(other, first) == first


def test_a_repository_that_may_not_be_seen_is_not_taken_for_an_empty_one(world: World) -> None:
    first, second, _ = rank("run", SHARDS)
    world.gateways[second].away = Missing("", "not found")

    with pytest.raises(Refused):
        world.homes.settle("run", first)


def test_what_waits_unstored_stays_with_the_spool_that_holds_it(world: World) -> None:
    _, second, _ = rank("run", SHARDS)

    world.held = {(second, "run")}
    assert world.homes.find("run") == second
    assert world.homes.settle("run", second) == second


def test_a_run_that_waits_in_two_spools_goes_to_the_one_of_its_hash(world: World) -> None:
    first, second, _ = rank("run", SHARDS)
    world.held = {(first, "run"), (second, "run")}

    assert world.homes.settle("run", second) == first


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
