"""Loads a sidecar and measures it beside a bare SQLite loop."""

import asyncio
import itertools
import json
import os
import signal
import sqlite3
import subprocess
import sys
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, Self
from uuid import uuid4

from benchmarks.states import encode, make_checkpoint, make_state

BARE_S = 5.0
RUNS = 5
P99_MS = 100.0
LEAST_RATIO = 0.4
DRAIN_S = 900.0
# A look lists all that waits, in the process that has to drain it.
LOOK_EVERY_S = 3.0
# The sidecar closes a connection that was not used for 75 s, and a client that waits may wait longer.
LONGEST_IDLE_S = 60.0
REPOSITORY = "load/checkpoints"
_LIMITS = ("WRITE_INTERVAL_S", "CONTENT_PER_MINUTE", "CONTENT_PER_HOUR")
UNLIMITED = {f"HOLDFAST_{name}": "0" for name in _LIMITS}
STATE = encode(make_state("10 KB"))


@dataclass
class Tally:
    """What the clients saw."""

    elapsed_ms: list[float] = field(default_factory=list)
    checkpoint_ids: list[str] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.elapsed_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def measure(folder: Path, clients: int, seconds: float, write_mode: str) -> int:
    """Measure, print, and judge."""
    before = measure_bare(folder)
    tally, checked = load_and_check(folder, clients, seconds, write_mode)
    bare = (before + measure_bare(folder)) / 2
    rate = len(tally.elapsed_ms) / seconds
    result: dict[str, Any] = {
        "clients": clients,
        "seconds": seconds,
        "acknowledged": len(tally.checkpoint_ids),
        "rate": round(rate, 1),
        "bare_sqlite_rate": round(bare, 1),
        "ratio": round(rate / bare, 3),
        "p50_ms": round(tally.percentile(0.5), 1),
        "p99_ms": round(tally.percentile(0.99), 1),
        "max_ms": round(max(tally.elapsed_ms), 1),
        "errors": len(tally.errors),
        **checked,
    }
    print(json.dumps(result, indent=2))
    return judge(result)


def load_and_check(
    folder: Path, clients: int, seconds: float, write_mode: str
) -> tuple[Tally, dict[str, float]]:
    """Load a sidecar; return what its clients saw, what it took, and what is in the repository afterwards."""
    github, api_url = start_github(folder)
    running, codes = [github], []
    try:
        sidecar, url = start_sidecar(folder, api_url, write_mode)
        running.append(sidecar)
        idle_s = cpu_seconds_of(sidecar.pid)
        tally = asyncio.run(load(url, clients, seconds))
        busy_s = cpu_seconds_of(sidecar.pid) - idle_s
        memory_bytes, files = resources_of(sidecar.pid)
        codes.append(end(running.pop()))
        # What was acknowledged outlives the process; and commits drain the backlog in a minute or two.
        sidecar, url = start_sidecar(folder, api_url, "commit")
        running.append(sidecar)
        began = time.perf_counter()
        missing = count_missing(url, tally)
        drain_s = time.perf_counter() - began
    finally:
        codes += [end(process) for process in reversed(running)]
    return tally, {
        "cpu_s_per_1000": round(busy_s / len(tally.elapsed_ms) * 1000, 3),
        "resident_bytes": memory_bytes,
        "open_files": files,
        "missing_in_repository": missing,
        "drain_s": round(drain_s, 1),
        "exit_code": max(codes, key=abs),
    }


def judge(result: dict[str, Any]) -> int:
    """Say which bars are missed; return the exit code."""
    return report(
        {
            f"p99 below {P99_MS:.0f} ms": result["p99_ms"] < P99_MS,
            f"at least {LEAST_RATIO} of the bare loop": result["ratio"] >= LEAST_RATIO,
            "no error": result["errors"] == 0,
            "nothing missing": result["missing_in_repository"] == 0,
            "exit 0": result["exit_code"] == 0,
        }
    )


def report(bars: dict[str, bool]) -> int:
    """Print which bars are kept and which are missed; return the exit code."""
    for bar, is_kept in bars.items():
        print(f"{'ok' if is_kept else 'MISSED'}: {bar}")
    return 0 if all(bars.values()) else 1


def measure_bare(folder: Path) -> float:
    """Return how many rows a second a loop stores that does nothing else, on this disk at this moment."""
    path = folder / f"bare-{uuid4().hex}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE row (key TEXT PRIMARY KEY, value BLOB)")
    value, count, end = os.urandom(len(write_checkpoint("load-0", 1)[1])), 0, time.perf_counter() + BARE_S
    while time.perf_counter() < end:
        connection.execute("INSERT INTO row VALUES (?, ?)", (str(uuid4()), value))
        count += 1
    connection.close()
    return count / BARE_S


def start_github(folder: Path) -> tuple["subprocess.Popen[str]", str]:
    """Return a GitHub without limits, and its URL."""
    emulator = ["emulator", "--repo", REPOSITORY, "--root", str(folder / "github"), "--limit", "1000000000"]
    return start([*emulator, "--content-per-minute", "0", "--content-per-hour", "0"], {})


def start_sidecar(folder: Path, api_url: str, write_mode: str) -> tuple["subprocess.Popen[str]", str]:
    """Return a sidecar that drains into the GitHub at `api_url`, and its URL."""
    settings = {
        "HOLDFAST_REPO": REPOSITORY,
        "HOLDFAST_API_URL": api_url,
        "HOLDFAST_TOKEN": "load",
        "HOLDFAST_DATA_DIR": str(folder / "holdfast"),
        "HOLDFAST_LOG_LEVEL": "warning",
    }
    return start(["serve", "--port", "0", "--write-mode", write_mode], settings | UNLIMITED)


def start(arguments: list[str], settings: dict[str, str]) -> tuple["subprocess.Popen[str]", str]:
    """Return a command that serves, and the URL that its first line names."""
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", *arguments, "--json"],
        env={**outside, **settings},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


def end(process: "subprocess.Popen[str]") -> int:
    """End a process and return its exit code."""
    process.send_signal(signal.SIGTERM)
    return process.wait(20)


async def load(url: str, clients: int, seconds: float) -> Tally:
    """Have each client hand in one checkpoint after the other until the time is over."""
    tally, deadline = Tally(), time.perf_counter() + seconds
    numbers = [itertools.count(1) for _ in range(RUNS)]

    async def client(number: int) -> None:
        run = number % RUNS
        async with Connection(url) as connection:
            while time.perf_counter() < deadline:
                await submit(connection, f"load-{run}", next(numbers[run]), tally)

    await asyncio.gather(*map(client, range(clients)))
    return tally


class Connection:
    """One kept connection that costs little: what is measured is the sidecar, on the same cores."""

    def __init__(self, url: str) -> None:
        self._host, _, port = url.removeprefix("http://").partition(":")
        self._port = int(port)

    async def __aenter__(self) -> Self:
        await self._open()
        return self

    async def _open(self) -> None:
        self._reader, self._writer = await asyncio.open_connection(self._host, self._port)
        self._used_at = time.perf_counter()

    async def __aexit__(self, *_: object) -> None:
        self._writer.close()

    async def call(self, method: str, path: str, body: bytes = b"") -> tuple[int, bytes]:
        """Return the status and the body of the answer."""
        if time.perf_counter() - self._used_at > LONGEST_IDLE_S:
            self._writer.close()
            await self._open()
        head = f"{method} {path} HTTP/1.1\r\nHost: {self._host}\r\nContent-Length: {len(body)}\r\n"
        self._writer.write(head.encode() + b"Content-Type: application/json\r\n\r\n" + body)
        answer = await self._reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        self._used_at = time.perf_counter()
        return int(answer[9:12]), await self._reader.readexactly(length)


def write_checkpoint(run_id: str, sequence: int) -> tuple[str, bytes]:
    """Return a new checkpoint of the specification: its id, and its text."""
    checkpoint_id = str(uuid4())
    checkpoint = make_checkpoint({}, checkpoint_id=checkpoint_id, run_id=run_id, sequence=sequence)
    # The state is written once for all: what is measured is the sidecar, on the same cores.
    return checkpoint_id, encode(checkpoint).replace(b'"state_snapshot":{}', b'"state_snapshot":' + STATE)


async def submit(connection: Connection, run_id: str, sequence: int, tally: Tally) -> None:
    """Hand in one checkpoint, and note what came of it."""
    checkpoint_id, body = write_checkpoint(run_id, sequence)
    began = time.perf_counter()
    status, content = await connection.call("POST", f"/v1/runs/{run_id}/checkpoints", body)
    tally.elapsed_ms.append((time.perf_counter() - began) * 1000)
    if status == 202:
        tally.checkpoint_ids.append(checkpoint_id)
    else:
        tally.errors.append(content)


def cpu_seconds_of(pid: int) -> float:
    """Return how long a process has kept a core busy: unlike the time, it does not hang on what else runs."""
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def resources_of(pid: int) -> tuple[int, int]:
    """Return the resident memory and the number of open files of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def count_missing(url: str, tally: Tally) -> int:
    """Return how many of the acknowledged checkpoints the repository does not list once all are drained."""
    wait_until_drained(url)
    stored: set[str] = set()
    for run in ask(url, "/v1/runs")["runs"]:
        entries = ask(url, f"/v1/runs/{run['run_id']}/checkpoints")["checkpoints"]
        stored.update(entry["checkpoint_id"] for entry in entries)
    return len(set(tally.checkpoint_ids) - stored)


def wait_until_drained(url: str) -> int:
    """Wait until nothing is spooled, within reason; return how much still is."""
    deadline = time.monotonic() + DRAIN_S
    while (depth := int(ask(url, "/v1/status")["spool"]["depth"])) and time.monotonic() < deadline:
        time.sleep(LOOK_EVERY_S)
    return depth


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=120) as answer:
        return json.load(answer)


def tell(url: str, method: str, path: str, body: Any = None) -> None:
    """Send a request whose answer does not matter, as long as it is none of refusal."""
    content = None if body is None else json.dumps(body).encode()
    urllib.request.urlopen(urllib.request.Request(url + path, content, method=method), timeout=120).close()
