"""Three replicas over one PostgreSQL, under load, of which one dies by SIGKILL at a time, over and over.

Most often it is the one that drains. Clients try another replica until they are answered, always with the
same checkpoint_id, and tell us through a pipe who was answered.
"""

import os
import random
import signal
import socket
import threading
import time
from collections import defaultdict
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

import httpx
import psycopg

from holdfast.assembly import Assembly
from holdfast.errors import SpoolBusy
from holdfast.library import Holdfast
from holdfast.metrics import Metrics
from holdfast.settings import Settings
from holdfast.sidecar.courtesy import Courtesy
from holdfast.sidecar.serving import serve
from tests.fakes.repository import check_files, files_of_run, read_branch
from tests.soak.kills import serve_github

REPLICAS = 3
CLIENTS = 4
CHECKPOINTS_PER_RUN = 25
# No client begins a run while more wait: each drainer is killed long before it could work off what came in
# since the last one, and the last of them must come to an end.
MOST_WAITING = 500
TAKE_OVER_S = 10.0
# So many of the drainers are frozen for a while instead of killed.
FROZEN_SHARE = 0.2
LONGEST_S = 120.0


@dataclass
class Replicated:
    """What was survived: kills, what was answered for, in its order, and how long take-overs took."""

    kills: int = 0
    freezes: int = 0
    acknowledged: dict[str, list[str]] = field(default_factory=lambda: defaultdict(list))
    take_overs: list[float] = field(default_factory=list)


def kill_replicas(
    folder: Path, database_url: str, kills: int, seed: int, on_kill: Callable[[], None] = lambda: None
) -> Replicated:
    """Kill replicas at work, then let one finish the work, and judge it. Raises AssertionError."""
    chance, result = random.Random(seed), Replicated()
    with serve_github(folder / "github") as github:
        fleet = _Fleet(folder, github, database_url)
        with fleet.running(), _clients(fleet.ports, result) as hear:
            while result.kills < kills:
                time.sleep(chance.uniform(0.0, 0.4))
                fleet.kill_one(chance, result)
                hear()
                on_kill()
        with Holdfast(fleet.settings(0)) as holdfast:
            _finish(holdfast)
    _judge(folder / "github" / "holdfast" / "checkpoints.git", result)
    return result


def _finish(holdfast: Holdfast) -> None:
    """Drain the rest, once the lease of the one that was killed last has run out."""
    deadline = time.monotonic() + LONGEST_S
    while time.monotonic() < deadline:
        with suppress(SpoolBusy):
            left = holdfast.drain(timeout_s=LONGEST_S).left
            assert left == 0, f"{left} could not be written"
            return
        time.sleep(0.1)


class _Fleet:
    """The replicas, each a process with a data folder and a port of its own."""

    def __init__(self, folder: Path, github: str, database_url: str) -> None:
        self._folder, self._github, self._database_url = folder, github, database_url
        self.ports = _free_ports(REPLICAS)
        self._alive: dict[int, int] = {}

    @contextmanager
    def running(self) -> Iterator[None]:
        try:
            for number in range(REPLICAS):
                self._start(number)
            yield
        finally:
            for process in self._alive.values():
                _end(process)

    def kill_one(self, chance: random.Random, result: Replicated) -> None:
        """Kill a replica, see to it that another drains if it did, and start it again."""
        drainer, fence = self._lease()
        victims = [number for number, process in self._alive.items() if process == drainer]
        number = victims[0] if victims and chance.random() < 0.7 else chance.randrange(REPLICAS)
        process = self._alive[number]
        if process == drainer and chance.random() < FROZEN_SHARE:
            self._freeze(process, fence, result)
            return
        _end(process)
        result.kills += 1
        if process == drainer:
            result.take_overs.append(self._wait_for_successor(fence))
        self._start(number)

    def _freeze(self, process: int, fence: int, result: Replicated) -> None:
        """Stop the drainer until another has taken over; then it goes on, and must do no harm."""
        os.kill(process, signal.SIGSTOP)
        try:
            result.take_overs.append(self._wait_for_successor(fence))
            result.freezes += 1
        finally:
            os.kill(process, signal.SIGCONT)

    def settings(self, number: int) -> Settings:
        return Settings.from_environment(
            {
                "HOLDFAST_REPO": "holdfast/checkpoints",
                "HOLDFAST_API_URL": self._github,
                "HOLDFAST_TOKEN": "token",
                "HOLDFAST_DATA_DIR": str(self._folder / f"replica-{number}"),
                "HOLDFAST_DATABASE_URL": self._database_url,
                "HOLDFAST_WRITE_INTERVAL_S": "0",
                "HOLDFAST_CONTENT_PER_MINUTE": "0",
                "HOLDFAST_CONTENT_PER_HOUR": "0",
                "HOLDFAST_WRITE_MODE": "commit",
                "HOLDFAST_PORT": str(self.ports[number]),
            }
        )

    def _start(self, number: int) -> None:
        process = os.fork()
        if process == 0:
            try:
                _serve(self.settings(number))
            except BaseException as error:
                os.write(2, f"a replica failed: {error!r}\n".encode())
            finally:
                os._exit(1)
        self._alive[number] = process
        deadline = time.monotonic() + LONGEST_S
        while True:
            with suppress(httpx.HTTPError):
                httpx.get(f"http://127.0.0.1:{self.ports[number]}/healthz", timeout=LONGEST_S)
                return
            assert time.monotonic() < deadline, "a replica does not start"
            time.sleep(0.02)

    def _lease(self) -> tuple[int, int]:
        """Return which process drains, if its lease holds, and the fence."""
        with psycopg.connect(self._database_url, autocommit=True) as connection:
            row = connection.execute(
                "select case when expires_at > clock_timestamp() then process else 0 end, fence"
                " from holdfast_lease"
            ).fetchone()
        return (int(row[0]), int(row[1])) if row else (0, 0)

    def _wait_for_successor(self, fence: int) -> float:
        began = time.monotonic()
        while self._lease()[1] == fence:
            waited_s = time.monotonic() - began
            assert waited_s < TAKE_OVER_S, "nobody took over draining"
            time.sleep(0.05)
        return time.monotonic() - began


def _serve(settings: Settings) -> None:
    stop = threading.Event()
    metrics, courtesy = Metrics(lambda: holdfast.status()), Courtesy(stop)
    assembly = Assembly(
        settings, stop=stop, meter=metrics, give_way=courtesy.give_way, breathe=courtesy.breathe
    )
    holdfast = Holdfast(settings, assembly=assembly)
    serve(holdfast, assembly, metrics, courtesy, on_ready=lambda _: None)


@contextmanager
def _clients(ports: list[int], result: Replicated) -> Iterator[Callable[[], None]]:
    """Run clients in a process of their own; yields what notes down who was answered."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            threads = [threading.Thread(target=_client, args=(ports, writer)) for _ in range(CLIENTS)]
            for thread in threads:
                thread.start()
            for thread in threads:
                thread.join()
        finally:
            os._exit(1)
    os.close(writer)
    os.set_blocking(reader, False)
    unread = b""

    def hear() -> None:
        nonlocal unread
        with suppress(BlockingIOError):
            while chunk := os.read(reader, 65536):
                unread += chunk
        *lines, unread = unread.split(b"\n")
        for line in lines:
            run_id, identity = line.decode().split()
            result.acknowledged[run_id].append(identity)

    try:
        yield hear
    finally:
        _end(process)
        hear()
        os.close(reader)


def _client(ports: list[int], writer: int) -> None:
    """Save runs, one checkpoint after the other, through whichever replica answers."""
    with httpx.Client(timeout=20) as client:
        while True:
            while _count_waiting(client, random.choice(ports)) > MOST_WAITING:
                time.sleep(0.1)
            run_id = f"run-{uuid4().hex[:12]}"
            for number in range(CHECKPOINTS_PER_RUN):
                identity = str(uuid4())
                body = {"checkpoint_id": identity, "trigger": "manual", "phase": "p", "state": {"n": number}}
                while not _submit(client, random.choice(ports), run_id, body):
                    time.sleep(0.02)
                os.write(writer, f"{run_id} {identity}\n".encode())
                time.sleep(0.02)


def _count_waiting(client: httpx.Client, port: int) -> int:
    """Return how many wait in the queue; none if this replica is not there to say so."""
    try:
        answer = client.get(f"http://127.0.0.1:{port}/v1/status")
    except httpx.HTTPError:
        return 0
    return int(answer.json()["spool"]["depth"]) if answer.status_code == 200 else 0


def _submit(client: httpx.Client, port: int, run_id: str, body: Mapping[str, object]) -> bool:
    try:
        answer = client.post(f"http://127.0.0.1:{port}/v1/runs/{run_id}/checkpoints", json=body)
    except httpx.HTTPError:
        return False
    return answer.status_code == 202


def _judge(repository: Path, result: Replicated) -> None:
    """Assert that each run has what was answered for, once, in the order of the answers."""
    files = read_branch(repository) if result.acknowledged else {}
    for run_id, identities in result.acknowledged.items():
        assert files_of_run(files, run_id), f"{run_id} is lost"
        stored = check_files(files, run_id)
        order = [stored[number] for number in sorted(stored)]
        known = set(identities)
        assert [each for each in order if each in known] == identities, f"{run_id} is not as it was answered"


def _free_ports(number: int) -> list[int]:
    sockets = [socket.create_server(("127.0.0.1", 0)) for _ in range(number)]
    ports = [each.getsockname()[1] for each in sockets]
    for each in sockets:
        each.close()
    return ports


def _end(process: int) -> None:
    with suppress(ProcessLookupError, ChildProcessError):
        os.kill(process, signal.SIGKILL)
        os.waitpid(process, 0)
