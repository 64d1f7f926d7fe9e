"""Schedules in which several machines save, drain, resume, clean up and squash, die, and meet faults.

A schedule is plain data whose repr is the Python that makes it, as in `schedules`.
"""

import random
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, Literal
from uuid import UUID

import httpx
import structlog
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

from holdfast.assembly import Assembly
from holdfast.clock import Clock
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorTransport, Request, parse_fault
from holdfast.errors import HoldfastError
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.moments import format_moment
from holdfast.format.receipt import Receipt
from holdfast.github.client import GitHubClient
from holdfast.github.wrappers.retrying import READ_ATTEMPTS, RetryingGateway
from holdfast.repository.reader import Reader
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import make_assembly
from tests.soak.machines import BRANCH, LAYOUT, Doom, Killed, Line, count_event, open_spool
from tests.soak.schedules import EFFECTS, Death, Mode
from tests.soak.simulation import Simulation
from tests.soak.watchman import Watchman

REPOSITORY = "holdfast/checkpoints"
RUNS = 3
MACHINES = 2
MAX_FILE_BYTES = 700
LARGE = "x" * 3000
DAY_S = 86_400.0
WAITS_S = (0.0, 0.0, 0.0, 0.05, 0.3, 1.0, 5.0, 400.0)
RULES = (
    RetentionRules(full_runs=1, latest_runs=2),
    RetentionRules(full_runs=0, latest_runs=0),
    RetentionRules(full_runs=5, checkpoints=1),
    RetentionRules(full_runs=5, per_phase=1),
    RetentionRules(full_runs=1, latest_runs=1, deletes_completed=True, checkpoints=2),
)
Kind = Literal[
    "save", "store", "burst", "drain", "sweep", "prune", "squash", "preserve", "release", "resume", "stranger"
]
KINDS: tuple[Kind, ...] = (
    *("save",) * 3,
    *("store",) * 8,
    *("drain",) * 2,
    *("sweep",) * 7,
    *("prune",) * 2,
    "squash",
    "preserve",
    "release",
    "resume",
    "stranger",
)


@dataclass(frozen=True)
class Act:
    """What a machine does next, and when; `choice` picks a run, and how."""

    kind: Kind
    choice: int = 0
    after_s: float = 0.0
    dies: Death | None = None


@dataclass(frozen=True)
class Cleaning:
    """A whole schedule: what each machine does one after the other, the faults, and the rules."""

    machines: tuple[tuple[Act, ...], ...]
    faults: tuple[str, ...] = ()
    rules: int = 0
    has_graphql: bool = True
    pace: int = 0


@st.composite
def cleanings(draw: DrawFn) -> Cleaning:
    """Return any schedule.

    No write is carried out long after it was given up: GitHub takes an update of a file that retention has
    deleted meanwhile as a new file, and nobody could keep such a write from bringing it back.
    """
    moments = ("before_request", "after_request", "before_spool", "after_spool", "event")
    deaths = st.builds(Death, st.sampled_from(moments), st.integers(1, 12))
    acts = st.builds(
        Act,
        kind=st.sampled_from(KINDS),
        choice=st.integers(0, 59),
        after_s=st.sampled_from(WAITS_S),
        dies=st.sampled_from((False, False, False, True)).flatmap(lambda dies: deaths if dies else st.none()),
    )
    machines = draw(st.lists(st.lists(acts, min_size=6, max_size=24).map(tuple), min_size=2, max_size=2))
    targets = st.sampled_from(("any", "read", "write", "put", "graphql", "mutation"))
    effects = st.sampled_from([effect for effect in EFFECTS if not effect.startswith(("401", "403", "late"))])
    faults = st.builds(
        lambda target, effect, nth, times: f"{target}:{effect}:nth={nth}:times={times}",
        targets,
        effects,
        st.integers(1, 20),
        st.sampled_from((1, 1, 2)),
    )
    return Cleaning(
        machines=tuple(machines),
        faults=tuple(draw(st.lists(faults, max_size=4))),
        rules=draw(st.integers(0, len(RULES) - 1)),
        has_graphql=draw(st.sampled_from((True, True, False))),
        pace=draw(st.integers(0, 999)),
    )


class WatchedLine(Line):
    """A line whose every request is followed by a look at the branch."""

    def __init__(self, emulator: Emulator, world: Simulation, pace: random.Random, watch: Watchman) -> None:
        super().__init__(emulator, world, pace)
        inner = self._inner.handle_request

        def handle(request: httpx.Request) -> httpx.Response:
            try:
                return inner(request)
            finally:
                try:
                    watch.look()
                except AssertionError as failure:  # the client would take it for a broken line
                    watch.failures.append(str(failure))

        self._inner.handle_request = handle  # type: ignore[method-assign]

    def write_as_stranger(self, run_id: str, number: int) -> None:
        """Put a file into the folder of a run that Holdfast knows nothing of."""
        body = b'{"message":"A note","content":"bm90ZQ==","branch":"%s"}' % BRANCH.encode()
        target = f"/repos/{REPOSITORY}/contents/checkpoints/{run_id}/note-{number}.txt"
        self._emulator.handle(Request.from_target("PUT", target, {}, body))


@dataclass(frozen=True)
class SkewedClock:
    """The clock of a machine that is wrong."""

    world: Simulation
    ahead_s: float

    def now(self) -> float:
        """Return what the machine takes for the time."""
        return self.world.now() + self.ahead_s

    def sleep(self, seconds: float) -> None:
        """Let time pass."""
        self.world.sleep(seconds)


class Place:
    """One machine; its process is started when it is needed, and gone when it dies."""

    def __init__(
        self,
        folder: Path,
        emulator: Emulator,
        world: Simulation,
        rules: RetentionRules,
        pace: int,
        watch: Watchman,
        *,
        clock: Clock | None = None,
        batches: bool = False,
    ) -> None:
        self.folder = folder
        self.saved: list[Receipt] = []
        self.resumes = self.squashes = self.crashes = 0
        self._emulator = emulator
        self._clock = clock or world
        self._batches = batches
        self._rules = rules
        self._random = random.Random(pace)
        self._line = WatchedLine(emulator, world, self._random, watch)
        self._is_alive = False

    def start(self) -> None:
        """Start the process, unless it runs."""
        if self._is_alive:
            return
        self._is_alive = True
        clock, folder = self._clock, self.folder
        self._client = GitHubClient(
            REPOSITORY,
            token=lambda: "token",
            api_url="http://github.test",
            clock=clock,
            observe=lambda answer: assembly.rate_limiter.observe(answer),
            transport=self._line,
        )
        assembly: Assembly = make_assembly(
            folder,
            self._client,
            clock,
            rules=self._rules,
            read_attempts=READ_ATTEMPTS,
            jitter=self._random.random,
            max_checkpoint_bytes=MAX_FILE_BYTES,
        )
        assembly.spool = self.spool = open_spool(folder, clock)
        self._cache = assembly.cache
        self.worker = assembly.worker
        self.sweeper = assembly.sweeper
        self.squash = assembly.squash
        self.preserved = assembly.preserved
        self.reader = Reader(self._open_quick(), self.spool, self._cache, LAYOUT, BRANCH)

    def _open_quick(self) -> RetryingGateway:
        """Return a way to GitHub that takes no time.

        Readers remember with `cached_property`, which in Python 3.11 lets one thread at a time in: whoever
        let time pass in there would keep the others out for ever.
        """
        self._quick = GitHubClient(
            REPOSITORY,
            token=lambda: "token",
            api_url="http://github.test",
            clock=self._clock,
            transport=EmulatorTransport(self._emulator, lambda _: None),
        )
        return RetryingGateway(self._quick, sleep=lambda _: None)

    def end(self) -> None:
        """End the process as the operating system would; nothing is written."""
        if self._is_alive:
            self._is_alive = False
            self._client.close()
            self._quick.close()
            self._cache.close()
            self.spool.close()

    def act(self, act: Act) -> None:
        """Do one thing; a process that dies of it is gone, and what GitHub refuses is left at that."""
        Doom(None)
        self.start()
        Doom(act.dies)
        try:
            self._do(act)
        except Killed:
            Doom(None)
            self.crashes += 1
            self.end()
        except HoldfastError:
            pass
        finally:
            Doom(None)

    def _do(self, act: Act) -> None:
        run_id = f"run-{act.choice % RUNS}"
        match act.kind:
            case "save":
                self._save(run_id, act.choice)
            case "store":
                self._save(run_id, act.choice)
                self._drain(act.choice)
            case "burst":
                for number in range(act.choice // 2):
                    self._save(run_id, number * RUNS + 1)
                self._drain(act.choice)
            case "drain":
                self._drain(act.choice)
            case "sweep":
                self.sweeper.sweep()
            case "prune":
                self.sweeper.prune([run_id])
            case "squash":
                self.squash.run(keep_days=1 if act.choice % 2 else None)
                self.squashes += 1
            case "preserve":
                self.preserved.add(run_id)
            case "release":
                self.preserved.remove(run_id)
            case "resume":
                self.reader.resume(run_id)
                self.resumes += 1
            case "stranger":
                self._line.write_as_stranger(run_id, act.choice)

    def _drain(self, choice: int) -> None:
        mode: Mode = ("contents", "commit", "contents")[choice // 4 % 3]
        self.worker.policy = replace(self.worker.policy, mode=mode)
        if self._batches:
            self.worker.policy = replace(self.worker.policy, singles_share=0.0)
        self.worker.drain(timeout_s=20.0)

    def _save(self, run_id: str, choice: int) -> None:
        is_last = choice % 5 == 0
        state: dict[str, Any] = {"n": choice, "text": LARGE if choice % 6 == 1 else ""}
        checkpoint = {
            "checkpoint_id": str(UUID(int=self._random.getrandbits(128), version=4)),
            "run_id": run_id,
            "trigger": "run_complete" if is_last else "manual",
            "status": "completed" if is_last else "in_progress",
            "phase": f"phase_{choice % 2}",
            "state": state,
        }
        draft = draft_from_mapping(checkpoint, now=format_moment(self._clock.now()), new_id=str)
        self.saved.append(self.spool.put(draft))


@dataclass(frozen=True)
class Seen:
    """How much a play had in it."""

    schedules: int = 0
    submits: int = 0
    resumes: int = 0
    crashes: int = 0
    sweeps: int = 0
    squashes: int = 0
    states: int = 0

    def __add__(self, other: "Seen") -> "Seen":
        return Seen(
            self.schedules + other.schedules,
            self.submits + other.submits,
            self.resumes + other.resumes,
            self.crashes + other.crashes,
            self.sweeps + other.sweeps,
            self.squashes + other.squashes,
            self.states + other.states,
        )


def play_cleaning(cleaning: Cleaning, folder: Path) -> Seen:
    """Play a schedule in `folder` to its end. Raises AssertionError if anything protected is ever gone."""
    configured = structlog.get_config()
    structlog.configure(processors=[count_event])
    world = Simulation()
    options = EmulatorOptions(
        root=folder / "github", repo=REPOSITORY, clock=world.now, graphql=cleaning.has_graphql
    )
    emulator = Emulator(options)
    watch = Watchman(folder / "github" / f"{REPOSITORY}.git")
    places = [
        Place(folder / f"machine-{n}", emulator, world, RULES[cleaning.rules], cleaning.pace + n, watch)
        for n in range(MACHINES)
    ]
    try:
        for fault in cleaning.faults:
            emulator.faults.add(parse_fault(fault))
        world.run(
            {f"machine-{n}": program_of(places[n], acts, world) for n, acts in enumerate(cleaning.machines)}
        )
        emulator.faults.clear()
        finish(places, world)
        assert not watch.failures, watch.failures[0]
    finally:
        for place in places:
            place.end()
        emulator.close()
        structlog.configure(**configured)
    return Seen(
        schedules=1,
        submits=sum(len(place.saved) for place in places),
        resumes=sum(place.resumes for place in places),
        crashes=sum(place.crashes for place in places),
        sweeps=watch.sweeps,
        squashes=sum(place.squashes for place in places),
        states=watch.states,
    )


def program_of(place: Place, acts: tuple[Act, ...], world: Simulation) -> Callable[[], None]:
    """Return what does these things one after the other."""

    def program() -> None:
        for act in acts:
            world.sleep(act.after_s)
            place.act(act)

    return program


def finish(places: list[Place], world: Simulation) -> None:
    """Let everyone drain what is left, then clean up; whatever was acknowledged is verified now."""

    def program(place: Place) -> Callable[[], None]:
        def finish() -> None:
            Doom(None)
            place.start()
            place.worker.drain(timeout_s=30 * DAY_S)
            with suppress(HoldfastError):  # GitHub may still ask us to stay away
                place.sweeper.sweep()

        return finish

    world.run({place.folder.name: program(place) for place in places})
    for place in places:
        for receipt in place.saved:
            now = place.spool.receipt(receipt.checkpoint_id)
            assert now is not None, f"{receipt.checkpoint_id} is forgotten"
            assert now.status == "verified", f"{receipt.checkpoint_id} is {now.status}: {now.reason}"
