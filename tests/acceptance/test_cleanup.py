"""The specification's retention test, over HTTP: 60 runs of 20 checkpoints, one of them preserved."""

import json
import os
import subprocess
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.repository import read_branch
from tests.fakes.stored_runs import DAY_S, NOON, commit_runs, make_run

RUNS, CHECKPOINTS = 60, 20
PRESERVED_PLACE = 55
LONG_AGO = NOON - 1000 * DAY_S
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
MEMORY_LIMIT_KB = 300 * 1024
# The most that a process has ever had in memory, without what it had before it became this program.
MEASURED = """
import sys
from pathlib import Path
from holdfast.cli import main
code = main(sys.argv[1:])
status = dict(line.split(":", 1) for line in Path("/proc/self/status").read_text().splitlines())
print(status["VmHWM"].split()[0], file=sys.stderr)
sys.exit(code)
"""


@dataclass(frozen=True)
class World:
    emulator: Emulator
    url: str
    folder: Path

    def environment(self, machine: str, mode: str = "commit") -> dict[str, str]:
        return {
            "HOLDFAST_DATA_DIR": str(self.folder / machine),
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": self.url,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_WRITE_MODE": mode,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
        }

    def open(self, machine: str, mode: str = "commit") -> Holdfast:
        """Open a machine that has, or has not, seen the repository before."""
        return Holdfast(Settings.from_environment(self.environment(machine, mode)))

    @property
    def requests(self) -> int:
        return len(self.emulator.journal)

    def files(self) -> dict[str, bytes]:
        return read_branch(self.folder / "github" / "holdfast" / "checkpoints.git")

    def names(self) -> dict[str, set[str]]:
        """Return what each run holds; files beside the runs are under their own names."""
        found: dict[str, set[str]] = {}
        for path in self.files():
            run_id, _, name = path.removeprefix("checkpoints/").partition("/")
            found.setdefault(run_id, set()).add(name)
        return found


@contextmanager
def open_world(folder: Path, **options: Any) -> Iterator[World]:
    emulator = Emulator(EmulatorOptions(root=folder / "github", **options))
    with EmulatorServer(emulator) as server:
        yield World(emulator, server.url, folder)
    emulator.close()


def fill(world: World, newest_first: Sequence[str], checkpoints: int) -> None:
    """Put runs into the repository as Holdfast stores them, written to a minute after each other."""
    contents = {
        run_id: make_run(run_id, checkpoints, at=LONG_AGO - 60 * place)
        for place, run_id in enumerate(newest_first)
    }
    commit_runs(world.folder / "github" / "holdfast" / "checkpoints.git", contents)


def write(holdfast: Holdfast, run_id: str) -> None:
    """Save and store all checkpoints of a run."""
    for number in range(1, CHECKPOINTS + 1):
        holdfast.save(run_id, {"n": number}, status="completed" if number == CHECKPOINTS else None)
    assert holdfast.drain(timeout_s=60, tidies=False).left == 0


def name_runs(runs: int) -> list[str]:
    """Return names of runs in an order that they do not tell."""
    return [f"run-{place * 7 % runs:04d}" for place in range(runs)]


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_retention_leaves_exactly_what_the_specification_says(tmp_path: Path, mode: str) -> None:
    newest_first = name_runs(RUNS)
    preserved = newest_first[PRESERVED_PLACE]
    with open_world(tmp_path) as world:
        fill(world, newest_first[12:], CHECKPOINTS)
        with world.open("writer", mode) as holdfast:
            for run_id in reversed(newest_first[:12]):
                write(holdfast, run_id)
            holdfast.preserve(preserved)
        with world.open("cleaner", mode) as holdfast:
            before = world.requests
            plan = holdfast.cleanup(dry_run=True)
            planned = world.requests
            report = holdfast.cleanup()
            done = world.requests
            again = holdfast.cleanup()
        found, files = world.names(), world.files()

    assert done - before <= 70
    assert done - planned <= 10
    assert len(report.commits) == 1
    assert not again.done
    assert [run.run_id for run in plan.plan.changes] == [run.run_id for run in report.done]
    expected = {
        run_id: EVERYTHING
        if place < 10 or run_id == preserved
        else {"latest.json"}
        if place < 50
        else {"summary.json"}
        for place, run_id in enumerate(newest_first)
    }
    assert {run_id: found.pop(run_id) for run_id in expected} == expected
    assert found.keys() == {"preserved_runs.json", "retention_log.json"}
    summaries = [content for path, content in files.items() if path.endswith("summary.json")]
    assert all(json.loads(content).keys() == SUMMARY_FIELDS for content in summaries)


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_readers_and_writers_go_on_after_retention(tmp_path: Path, mode: str) -> None:
    with open_world(tmp_path) as world:
        newest_first = name_runs(RUNS)
        fill(world, newest_first, 3)
        trimmed, archived = newest_first[30], newest_first[-1]
        with world.open("one") as holdfast:
            holdfast.cleanup()

        with world.open("another", mode) as holdfast:
            assert holdfast.resume(trimmed).sequence_number == 3
            for run_id in (trimmed, archived):
                holdfast.save(run_id, {"back": True})
            holdfast.drain()
            assert holdfast.checkpoint(trimmed).sequence == 4
            assert holdfast.checkpoint(archived).header.status == "in_progress"
            holdfast.cleanup()
            assert holdfast.resume(archived).state == {"back": True}


# GitHub lists only 1,000 entries of a folder, and cuts trees off; smaller limits do the same.
# The numbers of runs are no multiples of 7, by which name_runs scatters them.
@pytest.mark.timeout(400)
@pytest.mark.parametrize(
    ("runs", "listed", "in_tree"),
    [(143, 100, 200), pytest.param(1_040, 1_000, 1_300, marks=pytest.mark.long)],
)
def test_more_runs_than_a_listing_shows_are_cleaned_up_in_little_memory_and_few_requests(
    tmp_path: Path, runs: int, listed: int, in_tree: int
) -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("this system does not tell how much memory a process had")
    with open_world(tmp_path, directory_limit=listed, tree_entry_limit=in_tree) as world:
        newest_first = name_runs(runs)
        fill(world, newest_first, 1)

        first = measure(world, "cleanup", "--json")
        assert first.kilobytes < MEMORY_LIMIT_KB
        assert first.requests <= runs + 60
        found = world.names()
        assert all("index.json" in found[run_id] for run_id in newest_first[:10])
        assert all(found[run_id] == {"latest.json"} for run_id in newest_first[10:50])
        assert all(found[run_id] == {"summary.json"} for run_id in newest_first[50:])

        changed = newest_first[-20:]
        with world.open("writer") as holdfast:
            for run_id in changed:
                holdfast.save(run_id, {"n": 1})
            holdfast.drain()
        second = measure(world, "cleanup", "--json")
        assert second.requests <= 20 + len(changed)
        assert second.kilobytes < MEMORY_LIMIT_KB


@dataclass(frozen=True)
class Measured:
    requests: int
    kilobytes: int


def measure(world: World, *words: str) -> Measured:
    """Run a command in a process of its own; return what it took."""
    before = world.requests
    environment = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    ended = subprocess.run(
        [sys.executable, "-c", MEASURED, *words],
        env={**environment, **world.environment("measured")},
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert ended.returncode == 0, ended.stderr
    return Measured(world.requests - before, int(ended.stderr.split()[-1]))
