"""The specification's retention test, over HTTP: 60 runs of 20 checkpoints, one of them preserved."""

import json
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.repository import read_branch
from tests.fakes.stored_runs import NOON, commit_runs, make_run

RUNS, CHECKPOINTS = 60, 20
PRESERVED = "run-07"
SUMMARY_FIELDS = {
    "run_id",
    "started_at",
    "completed_at",
    "phases_completed",
    "final_status",
    "total_cost_usd",
    "errors_count",
}
EVERYTHING = {*(f"cp_{n:03d}_manual.json" for n in range(1, CHECKPOINTS + 1)), "index.json", "latest.json"}


@dataclass(frozen=True)
class World:
    emulator: Emulator
    url: str
    folder: Path

    def open(self, name: str) -> Holdfast:
        """Open a machine that has, or has not, seen the repository before."""
        environment = {
            "HOLDFAST_DATA_DIR": str(self.folder / name),
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": self.url,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_WRITE_INTERVAL_S": "0",
        }
        return Holdfast(Settings.from_environment(environment))

    def files(self) -> dict[str, bytes]:
        return read_branch(self.folder / "github" / "holdfast" / "checkpoints.git")

    def names(self) -> dict[str, set[str]]:
        """Return what each run holds; files beside the runs are under their own names."""
        found: dict[str, set[str]] = {}
        for path in self.files():
            run_id, _, name = path.removeprefix("checkpoints/").partition("/")
            found.setdefault(run_id, set()).add(name)
        return found


def open_world(folder: Path, *, runs: int, checkpoints: int, **options: int) -> Iterator[World]:
    emulator = Emulator(EmulatorOptions(root=folder / "github", **options))  # type: ignore[arg-type]
    repository = folder / "github" / "holdfast" / "checkpoints.git"
    # Written to in another order than that of their names.
    places = {f"run-{n:02d}": (n * 7) % runs for n in range(runs)}
    commit_runs(
        repository,
        {name: make_run(name, checkpoints, at=NOON + 60 * place) for name, place in places.items()},
    )
    with EmulatorServer(emulator) as server:
        yield World(emulator, server.url, folder)
    emulator.close()


@pytest.fixture
def world(tmp_path: Path) -> Iterator[World]:
    yield from open_world(tmp_path, runs=RUNS - 1, checkpoints=CHECKPOINTS)


def test_retention_leaves_exactly_what_the_specification_says(world: World) -> None:
    with world.open("writer") as holdfast:
        holdfast.preserve(PRESERVED)

    with world.open("cold") as holdfast:
        before = len(world.emulator.journal)
        plan = holdfast.cleanup(dry_run=True)
        cold = len(world.emulator.journal) - before
        report = holdfast.cleanup()
        warm = len(world.emulator.journal) - before - cold
        again = holdfast.cleanup()

    assert cold + warm <= 70
    assert warm <= 10
    assert len(report.commits) == 1
    assert not again.done
    assert [run.run_id for run in plan.plan.changes] == [run.run_id for run in report.done]
    by_recency = sorted(
        (f"run-{n:02d}" for n in range(RUNS - 1)), key=lambda name: -(int(name[4:]) * 7 % (RUNS - 1))
    )
    expected = {
        name: EVERYTHING
        if place < 10 or name == PRESERVED
        else {"latest.json"}
        if place < 50
        else {"summary.json"}
        for place, name in enumerate(by_recency)
    }
    found = world.names()
    assert {name: found.pop(name) for name in expected} == expected
    assert found.keys() == {"preserved_runs.json", "retention_log.json"}
    summaries = [content for path, content in world.files().items() if path.endswith("summary.json")]
    assert all(json.loads(content).keys() == SUMMARY_FIELDS for content in summaries)


def test_readers_and_writers_go_on_after_retention(world: World) -> None:
    by_recency = sorted(
        (f"run-{n:02d}" for n in range(RUNS - 1)), key=lambda name: -(int(name[4:]) * 7 % (RUNS - 1))
    )
    trimmed, archived = by_recency[30], by_recency[-1]
    with world.open("one") as holdfast:
        holdfast.cleanup()

    with world.open("another") as holdfast:
        assert holdfast.resume(trimmed).sequence_number == CHECKPOINTS
        for run_id in (trimmed, archived):
            holdfast.save(run_id, {"back": True})
        holdfast.drain()
        assert holdfast.checkpoint(trimmed).sequence == CHECKPOINTS + 1
        assert holdfast.checkpoint(archived).header.status == "in_progress"
        holdfast.cleanup()
        assert holdfast.resume(archived).state == {"back": True}


def test_folders_too_large_for_one_listing_are_walked_and_only_changes_are_asked_for(tmp_path: Path) -> None:
    """GitHub lists 1,000 entries of a folder and cuts off trees; a small limit does the same here."""
    for world in open_world(tmp_path, runs=150, checkpoints=2, tree_entry_limit=160):
        with world.open("machine") as holdfast:
            start = len(world.emulator.journal)
            holdfast.cleanup()
            first = len(world.emulator.journal) - start
            holdfast.save("run-00", {"n": 1})
            holdfast.drain()
            start = len(world.emulator.journal)
            holdfast.cleanup()
            second = len(world.emulator.journal) - start

        assert first <= 150 + 20
        assert second <= 10
        archived = {name for name, found in world.names().items() if found == {"summary.json"}}
        assert len(archived) == 99, "one of the hundred was written to again"
        assert "run-00" not in archived
