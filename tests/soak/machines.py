"""Machines of a simulated world: the real stack from the spool to the HTTP client, and processes that die."""

import random
import threading
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import httpx
import psycopg
import structlog

from holdfast.assembly import Assembly
from holdfast.cache.local_copy import RepositoryCache
from holdfast.clock import Clock
from holdfast.drain.worker import Worker
from holdfast.emulator import Emulator, EmulatorTransport
from holdfast.errors import SpoolBusy
from holdfast.format.paths import Layout
from holdfast.github.client import GitHubClient
from holdfast.github.wrappers.retrying import READ_ATTEMPTS
from holdfast.queue import Queue, QueueLimits, SqliteQueue
from holdfast.queue.postgres.database import Connection, Database
from holdfast.queue.postgres.postgres_queue import PostgresQueue
from holdfast.queue.sqlite_file import SqliteFile
from holdfast.ratelimit.limits import Limits
from holdfast.settings.kinds import Secret
from tests.fakes.assembly import make_assembly
from tests.soak.schedules import Budget, Death, Drain, Moment
from tests.soak.simulation import Simulation

BRANCH = "checkpoints"
LAYOUT = Layout()
LIMITS: dict[Budget, Limits] = {
    "open": Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0),
    "few": Limits(write_interval_s=0, content_per_hour=30),
    "real": Limits(),
}
MOST_REQUESTS = 4000
MAX_FILE_BYTES = 1500

T = TypeVar("T")
_dooms = threading.local()


class Killed(BaseException):
    """The process dies here; nothing of it runs any further."""


class Doom:
    """Kills the process of this thread at the moment that `death` names, or has `freeze` called instead."""

    def __init__(self, death: Death | None, freeze: Callable[[], None] | None = None) -> None:
        self._death = death
        self._left = death.nth if death else 0
        self._freeze = freeze
        _dooms.doom = self

    def meet(self, moment: Moment) -> None:
        """Pass such a moment, or die at it."""
        if self._death and self._death.moment == moment:
            self._left -= 1
            if self._left == 0 and self._freeze:
                self._freeze()
            elif self._left == 0:
                raise Killed


def meet(moment: Moment) -> None:
    """Pass such a moment, or die at it, as the process of this thread is doomed to."""
    doom: Doom | None = getattr(_dooms, "doom", None)
    if doom:
        doom.meet(moment)


def count_event(logger: Any, method: str, event: Any) -> Any:
    """Let an event of the log be a moment to die at, and keep it to ourselves."""
    meet("event")
    raise structlog.DropEvent


def open_spool(folder: Path, clock: Clock) -> Queue:
    """Open a spool at whose every step its process may die."""
    limits = QueueLimits(min_free_bytes=0)
    spool = SqliteQueue.open(folder / "spool", limits=limits, clock=clock, layout=LAYOUT)
    use = spool._folder._use

    def use_or_die(work: Callable[[SqliteFile], T]) -> T:
        meet("before_spool")
        result = use(work)
        meet("after_spool")
        return result

    spool._folder._use = use_or_die  # type: ignore[method-assign, assignment]
    return spool


class DoomedDatabase(Database):
    """A database at whose every transaction the process may die: before it, or before it hears the answer."""

    def _try(self, work: Callable[[Connection, bool], T], *, is_long: bool) -> T:
        meet("before_spool")
        result = super()._try(work, is_long=is_long)
        meet("after_spool")
        return result


def open_shared_spool(folder: Path, clock: Clock, database: Database) -> Queue:
    """Open the queue that all machines of the database share. It is for them to close the database."""
    limits = QueueLimits(min_free_bytes=0)
    return PostgresQueue.open(
        database,
        "soak",
        folder=folder / "spool",
        limits=limits,
        clock=clock,
        layout=LAYOUT,
        owns_database=False,
    )


class Line(httpx.BaseTransport):
    """The line of one machine to GitHub: it takes its time, and a process may die on either end of it."""

    def __init__(self, emulator: Emulator, world: Simulation, pace: random.Random) -> None:
        self._emulator = emulator
        self._inner = EmulatorTransport(emulator, world.sleep)
        self._world = world
        self._pace = pace
        self._off_limits: dict[str, float] = {}
        self.requests = 0
        self.too_early: list[str] = []

    def handle_request(self, request: httpx.Request) -> httpx.Response:
        self._travel()
        meet("before_request")
        self._note_if_too_early(request)
        refusals = self._emulator.limits.primary_refusals
        try:
            response = self._inner.handle_request(request)
            response.read()
        except httpx.TransportError:
            self._travel()
            meet("after_request")
            raise
        self._travel()
        meet("after_request")
        if (
            self._emulator.limits.primary_refusals > refusals
            and b"API rate limit exceeded" in response.content
        ):
            resource = response.headers["x-ratelimit-resource"]
            self._off_limits[resource] = float(response.headers["x-ratelimit-reset"])
        return response

    def _travel(self) -> None:
        self.requests += 1
        assert self.requests < MOST_REQUESTS, "this would never come to an end"
        self._world.sleep(self._pace.choice((0.02, 0.05, 0.1, 0.4)))

    def _note_if_too_early(self, request: httpx.Request) -> None:
        """A limit of the REST API keeps us from everything, one of GraphQL from GraphQL."""
        resource = "graphql" if request.url.path.endswith("/graphql") else "core"
        if self._world.now() < max(self._off_limits.get(name, 0.0) for name in ("core", resource)):
            self.too_early.append(f"{request.method} {request.url.path} at {self._world.now()}")


@dataclass
class Life:
    """One process on a machine, from its start to its end."""

    spool: Queue
    cache: RepositoryCache
    client: GitHubClient
    worker: Worker
    database: Database | None

    def end(self) -> None:
        """Let go of what the operating system would take back; nothing is written."""
        self.client.close()
        self.cache.close()
        self.spool.close()
        if self.database:
            self.database.close()


class Workplace:
    """A machine with its data folder; its process is started when it is needed.

    With `database_url`, it shares queue and budget with the other machines, and one of them drains at a time.
    """

    def __init__(
        self,
        folder: Path,
        emulator: Emulator,
        world: Simulation,
        budget: Budget,
        pace: int,
        database_url: str | None = None,
    ) -> None:
        self.folder = folder
        self.line = Line(emulator, world, random.Random(pace))
        self.crashes = 0
        self.freezes = 0
        self._emulator = emulator
        self._world = world
        self._limits = LIMITS[budget]
        self._database_url = database_url
        self._random = random.Random(pace)
        self._life: Life | None = None

    def drain(self, drain: Drain) -> None:
        """Drain as told; a process that dies of it is gone."""
        Doom(drain.dies, self._freeze if self._freezes(drain) else None)
        try:
            self._life = self._life or self._start()
            worker = self._life.worker
            worker.policy = replace(worker.policy, mode=drain.mode)
            worker.drain(timeout_s=drain.timeout_s)
        except SpoolBusy:
            return  # another machine drains
        except Killed:
            self.crashes += 1
            self.end()
            self._let_lease_run_out()
        finally:
            Doom(None)

    def _freezes(self, drain: Drain) -> bool:
        """Whether a process stands still where it would die: with a shared queue, one in three does."""
        return bool(self._database_url and drain.dies and drain.dies.nth % 3 == 0)

    def _freeze(self) -> None:
        """Stand still for so long that another machine may take over, then go on as if nothing had been."""
        self.freezes += 1
        self._let_lease_run_out()
        self._world.sleep(self._random.choice((10.0, 60.0, 1000.0)))

    def _let_lease_run_out(self) -> None:
        """Let another machine take over; whoever drains just then is as if it had been frozen."""
        if self._database_url:
            with psycopg.connect(self._database_url, autocommit=True) as connection:
                connection.execute("update holdfast_lease set expires_at = clock_timestamp()")

    def end(self) -> None:
        """End the process, if one runs."""
        if self._life:
            self._life.end()
            self._life = None

    def _start(self) -> Life:
        world = self._world
        client = GitHubClient(
            "holdfast/checkpoints",
            token=lambda: "token",
            api_url="http://github.test",
            clock=world,
            observe=lambda answer: assembly.rate_limiter.observe(answer),
            transport=self.line,
        )
        assembly: Assembly = make_assembly(
            self.folder,
            client,
            world,
            limits=self._limits,
            read_attempts=READ_ATTEMPTS,
            jitter=self._random.random,
            max_checkpoint_bytes=MAX_FILE_BYTES,
            database_url=Secret(self._database_url) if self._database_url else None,
        )
        database = None
        if self._database_url:
            database = DoomedDatabase(self._database_url)
            assembly.database = database
            assembly.spool = open_shared_spool(self.folder, world, database)
        else:
            assembly.spool = open_spool(self.folder, world)
        return Life(assembly.spool, assembly.cache, client, assembly.worker, database)
