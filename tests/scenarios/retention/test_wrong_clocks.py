"""Retention goes by GitHub's time: neither a writer's clock nor that of who cleans up makes anything old."""

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.emulator import Emulator, EmulatorOptions
from holdfast.format.moments import format_moment
from holdfast.github.inspection import ReadHistory
from holdfast.retention.rules import DAY_S, RetentionRules
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_run, with_paths
from tests.soak.cleaning import REPOSITORY, Act, Place, SkewedClock
from tests.soak.simulation import Simulation
from tests.soak.watchman import Watchman

ABANDONED = RetentionRules(abandoned_days=14)
KEPT = RetentionRules(days=14)
SKEWS = [-30 * DAY_S, 0.0, 30 * DAY_S]


def write_at(repository: MemoryGateway, github_time: float, skew_s: float, status: str) -> None:
    """Have a machine whose clock is wrong by `skew_s` write a run at a moment of GitHub's time."""
    repository.date = format_moment(github_time)
    files = make_run("r", at=github_time + skew_s, status=status)
    repository.write_as_someone_else(BRANCH, with_paths({"r": files}))


def sweep(repository: MemoryGateway, folder: Path, rules: RetentionRules) -> list[tuple[str, int]]:
    """Clean up at noon; return what became of each run, and how many of its files went."""
    repository.date = format_moment(NOON)
    assembly = make_assembly(folder, repository, VirtualClock(NOON), rules=rules)
    try:
        return [(plan.action.value, len(plan.delete)) for plan in assembly.sweeper.sweep().plan.runs]
    finally:
        assembly.close()


@pytest.mark.parametrize("skew_s", SKEWS)
@pytest.mark.parametrize(
    ("rules", "status"), [(ABANDONED, "in_progress"), (KEPT, "completed"), (KEPT, "failed")]
)
def test_run_that_was_written_just_now_is_kept_whatever_its_writers_clock_says(
    tmp_path: Path, skew_s: float, rules: RetentionRules, status: str
) -> None:
    repository = MemoryGateway()
    write_at(repository, NOON - 60 * DAY_S, 0.0, "in_progress")  # there is history that goes back further
    repository.write_as_someone_else(BRANCH, dict.fromkeys(repository.files(BRANCH)))
    write_at(repository, NOON - 10, skew_s, status)

    assert sweep(repository, tmp_path, rules) == [("keep", 0)]


@pytest.mark.parametrize("skew_s", SKEWS)
@pytest.mark.parametrize(
    ("rules", "status", "fate"),
    [
        (ABANDONED, "in_progress", ("archive", 5)),
        (KEPT, "completed", ("archive", 5)),
        (KEPT, "failed", ("prune", 2)),
    ],
)
def test_run_that_was_written_long_ago_goes_whatever_its_writers_clock_says(
    tmp_path: Path, skew_s: float, rules: RetentionRules, status: str, fate: tuple[str, int]
) -> None:
    repository = MemoryGateway()
    write_at(repository, NOON - 20 * DAY_S, skew_s, status)

    assert sweep(repository, tmp_path, rules) == [fate]


def test_nothing_is_old_where_the_history_was_squashed(tmp_path: Path) -> None:
    repository = MemoryGateway()
    write_at(repository, NOON - 2 * DAY_S, -60 * DAY_S, "in_progress")

    assert sweep(repository, tmp_path, ABANDONED) == [("keep", 0)]


def test_ages_cost_one_question_for_all_runs_and_none_without_such_a_rule(tmp_path: Path) -> None:
    repository = MemoryGateway()
    runs = {f"r{number}": make_run(f"r{number}", at=NOON) for number in range(30)}
    repository.date = format_moment(NOON - DAY_S)
    repository.write_as_someone_else(BRANCH, with_paths(runs))

    sweep(repository, tmp_path / "a", RetentionRules())
    assert repository.count(ReadHistory) == 0
    sweep(repository, tmp_path / "b", ABANDONED)
    assert repository.count(ReadHistory) == 1


@pytest.mark.parametrize("skews_s", [(0.0, 30 * DAY_S, -30 * DAY_S), (30 * DAY_S, -30 * DAY_S, 0.0)])
@pytest.mark.parametrize("choices", [(3, 1, 2), (6, 4, 17)], ids=["contents", "commit"])
def test_runs_last_written_to_are_found_by_githubs_time(
    tmp_path: Path, skews_s: tuple[float, ...], choices: tuple[int, ...]
) -> None:
    world = Simulation()
    options = EmulatorOptions(root=tmp_path / "github", repo=REPOSITORY, clock=world.now)
    with closing(Emulator(options)) as emulator:
        watch = Watchman(tmp_path / "github" / f"{REPOSITORY}.git")
        rules = RetentionRules(full_runs=1)
        places = [
            Place(tmp_path / str(n), emulator, world, rules, n, watch, clock=SkewedClock(world, skew_s))
            for n, skew_s in enumerate(skews_s)
        ]
        for place, choice in zip(places, choices, strict=True):  # each writes to a run of its own
            place.act(Act("store", choice))
            place.act(Act("store", choice))
            world.sleep(60)
        plans = places[0].sweeper.sweep().plan.runs
        for place in places:
            place.end()

    assert [(plan.run_id, plan.action.value) for plan in plans] == [
        ("run-2", "keep"),
        ("run-1", "trim"),
        ("run-0", "trim"),
    ]
