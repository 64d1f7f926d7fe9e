"""How many checkpoints a second sidecars on one PostgreSQL acknowledge, beside bare inserts."""

import multiprocessing
import os
import socket
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any
from uuid import uuid4

import psycopg

from benchmarks.peers.least_server import serve_least
from benchmarks.report import Bar, Figure, Report
from benchmarks.states import encode, make_state
from benchmarks.workshop import Workshop

NAME = "shared"
CLIENTS = 96  # 32 for each of three replicas
PROCESSES = 2
BARE = "bare INSERT … COMMIT"
ONE, THREE = "one replica", "three replicas"
# What the smallest HTTP server gets through that commits the same bytes in groups, and checks nothing.
LEAST_ONE, LEAST_THREE = "one smallest server", "three smallest servers"
WORK = f"{CLIENTS} clients, 5 KB, PostgreSQL with fsync"

_MAKE_BARE = "create table bare (id uuid primary key, run_id text, at float8, body bytea)"
# Each turn begins with nothing that waits: an index of what nobody drains would cost more with every turn.
_EMPTY = "truncate holdfast_item; update holdfast_total set depth = 0, bytes = 0"
_EMPTY_BARE = "truncate bare"


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure by turns, so that what else the machine does falls on all of them."""
    from tests.fakes.postgres import PostgresServer

    rounds, seconds = (3, 2.0) if is_quick else (7, 4.0)
    server = PostgresServer(is_durable=True)
    try:
        with ExitStack() as opened:
            lone, shared, bare = server.new_url(), server.new_url(), server.new_url()
            replicas = [opened.enter_context(_replica(workshop.disk, lone))]
            with psycopg.connect(bare) as connection:
                connection.execute(_MAKE_BARE)
            fleet = [opened.enter_context(_replica(workshop.disk, shared)) for _ in range(3)]
            smallest = [opened.enter_context(_in_process(partial(serve_least, bare))) for _ in range(3)]
            contestants: dict[str, Callable[[], float]] = {
                BARE: lambda: _measure(_insert, [bare], seconds),
                ONE: lambda: _measure(_post, replicas, seconds),
                THREE: lambda: _measure(_post, fleet, seconds),
                LEAST_ONE: lambda: _measure(_post, smallest[:1], seconds),
                LEAST_THREE: lambda: _measure(_post, smallest, seconds),
            }
            found: dict[str, list[float]] = {name: [] for name in contestants}
            for measure in contestants.values():
                measure()  # warm
            for _ in range(rounds):
                for name, measure in contestants.items():
                    for url, empty in ((lone, _EMPTY), (shared, _EMPTY), (bare, _EMPTY_BARE)):
                        with psycopg.connect(url) as connection:
                            connection.execute(empty.encode())
                    found[name].append(measure())
    finally:
        server.close()
    _add(report, found)


def _add(report: Report, found: dict[str, list[float]]) -> None:
    for name, rates in found.items():
        ratios = sorted(rate / bare for rate, bare in zip(rates, found[BARE], strict=True))
        ratio = ratios[len(ratios) // 2]
        ordered = sorted(rates)
        median, low, high = (
            ordered[len(ordered) // 2],
            ordered[len(ordered) // 4],
            ordered[-1 - len(ordered) // 4],
        )
        report.figures.append(Figure(NAME, WORK, name, "acknowledged a second", median, "", ratio, low, high))
        if name in (ONE, THREE):
            least = 0.5 if name == ONE else 1.0
            report.bars.append(
                Bar(
                    NAME,
                    f"acknowledgements of {name} beside bare inserts",
                    ratio,
                    least,
                    "times",
                    is_minimum=True,
                )
            )


def _measure(work: Callable[[str, float, Any], None], places: list[str], seconds: float) -> float:
    """Let all clients work at the places, evenly; return how many answers they had in a second."""
    context = multiprocessing.get_context("fork")
    counted = context.SimpleQueue()
    share = CLIENTS // PROCESSES
    processes = [
        context.Process(target=_be_clients, args=(work, places, number * share, share, seconds, counted))
        for number in range(PROCESSES)
    ]
    for process in processes:
        process.start()
    answers: int = sum(counted.get() for _ in processes)
    for process in processes:
        process.join()
    return answers / seconds


def _be_clients(
    work: Callable[[str, float, Any], None],
    places: list[str],
    first: int,
    count: int,
    seconds: float,
    counted: Any,
) -> None:
    answers = [0] * count
    begin = threading.Barrier(count)

    def be_client(number: int) -> None:
        def tell() -> None:
            answers[number] += 1

        begin.wait()
        work(places[(first + number) % len(places)], seconds, tell)

    threads = [threading.Thread(target=be_client, args=(number,)) for number in range(count)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    counted.put(sum(answers))


def _insert(url: str, seconds: float, tell: Callable[[], None]) -> None:
    """Insert the bytes of a checkpoint and commit, over and over, as one would by hand."""
    body = _body()
    with psycopg.connect(url) as connection:
        run_id, ends_at = uuid4().hex, time.monotonic() + seconds
        while time.monotonic() < ends_at:
            connection.execute(
                "insert into bare values (%s, %s, %s, %s)", (uuid4(), run_id, time.time(), body)
            )
            connection.commit()
            tell()


def _post(address: str, seconds: float, tell: Callable[[], None]) -> None:
    """Hand a checkpoint to a sidecar and wait for the answer, over and over."""
    body, ends_at = _body(), time.monotonic() + seconds
    host, port = address.removeprefix("http://").split(":")
    head = (
        f"POST /v1/runs/{uuid4().hex}/checkpoints HTTP/1.1\r\nHost: {host}:{port}\r\n"
        f"Content-Type: application/json\r\nContent-Length: {len(body)}\r\n\r\n"
    )
    request = head.encode() + body
    with socket.create_connection((host, int(port))) as connection:
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        while time.monotonic() < ends_at:
            connection.sendall(request)
            answer = connection.recv(65536)
            while not answer.endswith(b"}"):
                answer += connection.recv(65536)
            if not answer.startswith(b"HTTP/1.1 202"):
                raise ValueError(answer.decode())
            tell()


def _body() -> bytes:
    """Return a checkpoint as most clients write it, without spaces."""
    return encode({"trigger": "manual", "phase": "phase_1", "state": make_state("5 KB")})


def _replica(folder: Path, url: str) -> AbstractContextManager[str]:
    """Serve in a process of its own, and give the address. GitHub is away: only the intake is measured."""
    return _in_process(partial(_serve, folder / f"replica-{uuid4().hex}", url))


@contextmanager
def _in_process(serve: Callable[[int], None]) -> Iterator[str]:
    """Serve in a process of its own, which writes its address to the file that it is given."""
    reader, writer = os.pipe()
    process = os.fork()
    if process == 0:
        try:
            serve(writer)
        finally:
            os._exit(1)
    os.close(writer)
    try:
        with os.fdopen(reader) as announced:
            yield announced.readline().strip()
    finally:
        os.kill(process, 9)
        os.waitpid(process, 0)


def _serve(folder: Path, url: str, writer: int) -> None:
    from holdfast.assembly import open_assembly
    from holdfast.library import Holdfast
    from holdfast.logs import configure_logs
    from holdfast.metrics import Metrics
    from holdfast.settings import Settings
    from holdfast.sidecar.courtesy import Courtesy
    from holdfast.sidecar.serving import serve

    settings = Settings.from_environment(
        {
            "HOLDFAST_REPO": "acme/checkpoints",
            "HOLDFAST_API_URL": "http://127.0.0.1:9",
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_DATA_DIR": str(folder),
            "HOLDFAST_DATABASE_URL": url,
            "HOLDFAST_MAX_SPOOL_ITEMS": "100000000",
            "HOLDFAST_MAX_SPOOL_BYTES": "100000000000",
            "HOLDFAST_PORT": "0",
        }
    )
    with (folder.parent / f"{folder.name}.log").open("w") as log_file:
        os.dup2(log_file.fileno(), 2)
    configure_logs("json", "warning", secrets=settings.secrets)
    stop = threading.Event()
    metrics, courtesy = Metrics(lambda: holdfast.status()), Courtesy(stop)
    given: dict[str, Any] = {"give_way": courtesy.give_way, "breathe": courtesy.breathe}
    assembly = open_assembly(settings, stop=stop, meter=metrics, **given)
    holdfast = Holdfast(settings, assembly=assembly)

    def announce(told: str) -> None:
        os.write(writer, f"{told}\n".encode())

    serve(holdfast, assembly, metrics, courtesy, on_ready=announce)
