"""Schedules of three machines whose clocks are apart: after a last clean-up no run holds more than it may.

A schedule follows from its seed alone. The machines save, in bursts too, drain file by file, in commits and
in batches, clean up, prune and squash, meet faults and die. Then everyone drains, two days pass, and one of
them cleans up.
"""

import random
from dataclasses import dataclass
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from holdfast.emulator import Emulator, EmulatorOptions, parse_fault
from holdfast.retention.rules import DAY_S, RetentionRules
from tests.fakes.repository import files_of_run, read_branch
from tests.soak.cleaning import REPOSITORY, Act, Kind, Place, SkewedClock, finish, program_of
from tests.soak.machines import BRANCH, Doom, count_event
from tests.soak.schedules import EFFECTS, Death, Moment
from tests.soak.share import MEMORY
from tests.soak.simulation import Simulation
from tests.soak.watchman import Watchman

LIMIT = 12
RULES = RetentionRules(full_runs=5, checkpoints=LIMIT)
SKEWS_S = (-30 * DAY_S, -7200.0, -90.0, 0.0, 90.0, 7200.0, 30 * DAY_S)
KINDS: tuple[Kind, ...] = (
    *("store",) * 4,
    *("burst",) * 6,
    *("save",) * 2,
    *("drain",) * 2,
    *("sweep",) * 4,
    *("prune",) * 3,
    "squash",
    "resume",
)
MOMENTS: tuple[Moment, ...] = ("before_request", "after_request", "before_spool", "after_spool", "event")
TARGETS = ("any", "read", "write", "put", "graphql", "mutation")
WAITS_S = (0.0, 0.0, 0.05, 0.3, 1.0, 5.0, 400.0)
MOST_SWEEPS = 20


@dataclass
class Held:
    """How much a play had in it, and the most that a run held after the last clean-up."""

    schedules: int = 0
    submits: int = 0
    crashes: int = 0
    sweeps: int = 0
    most_after: int = 0

    def add(self, other: "Held") -> None:
        """Count another play."""
        self.schedules += other.schedules
        self.submits += other.submits
        self.crashes += other.crashes
        self.sweeps += other.sweeps
        self.most_after = max(self.most_after, other.most_after)


def play_limits(seed: int) -> Held:
    """Play the schedule of a seed. Raises AssertionError if a run holds more than its limit at the end."""
    with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
        return _Apart(seed, Path(folder)).play()


def try_limits(seed: int) -> tuple[int, Held, str]:
    """Play the schedule of a seed; return how much it had in it, or how it failed."""
    try:
        return seed, play_limits(seed), ""
    except AssertionError as error:
        return seed, Held(), str(error)


class _Apart:
    """One schedule, from its beginning to its end."""

    def __init__(self, seed: int, folder: Path) -> None:
        self._chance = random.Random(seed)
        self._seed = seed
        self._world = Simulation()
        has_graphql = self._chance.random() < 0.7
        options = EmulatorOptions(
            root=folder / "github", repo=REPOSITORY, clock=self._world.now, graphql=has_graphql
        )
        self._emulator = Emulator(options)
        self._git = folder / "github" / f"{REPOSITORY}.git"
        self._watch = Watchman(self._git)
        self._places = [self._place(folder / f"machine-{number}", number) for number in range(3)]

    def _place(self, folder: Path, number: int) -> Place:
        clock = SkewedClock(self._world, self._chance.choice(SKEWS_S))
        return Place(
            folder,
            self._emulator,
            self._world,
            RULES,
            self._seed + number,
            self._watch,
            clock=clock,
            batches=self._chance.random() < 0.5,
        )

    def play(self) -> Held:
        """Play, end, and judge."""
        configured = structlog.get_config()
        structlog.configure(processors=[count_event])
        try:
            for _ in range(self._chance.randrange(5)):
                self._emulator.faults.add(parse_fault(self._fault()))
            acts = {place.folder.name: program_of(place, self._acts(), self._world) for place in self._places}
            self._world.run(acts)
            self._emulator.faults.clear()
            finish(self._places, self._world)
            self._clean_up()
            after = self._count()
            assert not self._watch.failures, self._watch.failures[0]
        finally:
            for place in self._places:
                place.end()
            self._emulator.close()
            structlog.configure(**configured)
        assert max(after.values(), default=0) <= LIMIT, f"a run holds more than {LIMIT}: {after}"
        return Held(
            schedules=1,
            submits=sum(len(place.saved) for place in self._places),
            crashes=sum(place.crashes for place in self._places),
            sweeps=self._watch.sweeps,
            most_after=max(after.values(), default=0),
        )

    def _acts(self) -> tuple[Act, ...]:
        return tuple(
            Act(
                kind=self._chance.choice(KINDS),
                choice=self._chance.randrange(60),
                after_s=self._chance.choice(WAITS_S),
                dies=Death(self._chance.choice(MOMENTS), self._chance.randint(1, 12))
                if self._chance.random() < 0.25
                else None,
            )
            for _ in range(self._chance.randint(4, 9))
        )

    def _fault(self) -> str:
        effects = [effect for effect in EFFECTS if not effect.startswith(("401", "403", "late"))]
        target, effect = self._chance.choice(TARGETS), self._chance.choice(effects)
        return f"{target}:{effect}:nth={self._chance.randint(1, 20)}:times={self._chance.randint(1, 2)}"

    def _clean_up(self) -> None:
        """Have one machine clean up once what killed writers have left is old, until nothing more goes."""
        place = self._chance.choice(self._places)
        for _ in range(MOST_SWEEPS):
            self._world.sleep(2 * DAY_S)
            Doom(None)
            place.start()
            if not place.sweeper.sweep().commits:
                return
        raise AssertionError(f"after {MOST_SWEEPS} clean-ups there is still something to clean up")

    def _count(self) -> dict[str, int]:
        """Return how many checkpoints the files of each run hold, named by an index or not."""
        files = read_branch(self._git, BRANCH, "checkpoints")
        run_ids = {path.split("/")[1] for path in files if path.count("/") > 1}
        return {run_id: _held(files_of_run(files, run_id)) for run_id in sorted(run_ids)}


def _held(files: dict[str, dict[str, Any]]) -> int:
    numbered = (file for name, file in files.items() if name.startswith(("cp_", "batch_")))
    return sum(len(file["checkpoints"]) if "checkpoints" in file else 1 for file in numbered)
