"""Loads a sidecar and measures it beside a bare SQLite loop. Called by scripts/sidecar-load."""

import argparse
import asyncio
import json
import os
import signal
import sqlite3
import subprocess
import sys
import tempfile
import time
import urllib.request
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any
from uuid import uuid4

SIZE_BYTES = 10 * 1024
BARE_S = 5.0
P99_MS = 100.0
LEAST_RATIO = 0.25
WANTED_RATIO = 0.5
DRAIN_S = 900.0


@dataclass
class Tally:
    """What the clients saw."""

    elapsed_ms: list[float] = field(default_factory=list)
    checkpoint_ids: list[str] = field(default_factory=list)
    errors: list[bytes] = field(default_factory=list)

    def percentile(self, share: float) -> float:
        ordered = sorted(self.elapsed_ms)
        return ordered[min(len(ordered) - 1, int(len(ordered) * share))]


def main() -> int:
    """Measure, print, and judge."""
    parser = argparse.ArgumentParser(prog="scripts/sidecar-load")
    parser.add_argument("--clients", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=30.0)
    parser.add_argument("--write-mode", choices=("contents", "commit"), default="contents")
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="holdfast-load-") as name:
        folder = Path(name)
        before = measure_bare(folder)
        process, url = start_sidecar(folder, arguments.write_mode)
        try:
            tally = asyncio.run(load(url, arguments.clients, arguments.seconds))
            memory_bytes, files = resources_of(process.pid)
            missing = count_missing(url, tally)
        finally:
            process.send_signal(signal.SIGTERM)
            code = process.wait(20)
        after = measure_bare(folder)
    rate, bare = len(tally.elapsed_ms) / arguments.seconds, (before + after) / 2
    result: dict[str, Any] = {
        "clients": arguments.clients,
        "seconds": arguments.seconds,
        "acknowledged": len(tally.checkpoint_ids),
        "rate": round(rate, 1),
        "bare_sqlite_rate": round(bare, 1),
        "ratio": round(rate / bare, 3),
        "p50_ms": round(tally.percentile(0.5), 1),
        "p99_ms": round(tally.percentile(0.99), 1),
        "max_ms": round(max(tally.elapsed_ms), 1),
        "errors": len(tally.errors),
        "missing_in_repository": missing,
        "resident_bytes": memory_bytes,
        "open_files": files,
        "exit_code": code,
    }
    print(json.dumps(result, indent=2))
    return judge(result)


def judge(result: dict[str, Any]) -> int:
    """Say which bars are missed; return the exit code."""
    bars = {
        f"p99 below {P99_MS:.0f} ms": result["p99_ms"] < P99_MS,
        f"at least {LEAST_RATIO} of the bare loop": result["ratio"] >= LEAST_RATIO,
        "no error": result["errors"] == 0,
        "nothing missing": result["missing_in_repository"] == 0,
        "exit 0": result["exit_code"] == 0,
    }
    for bar, is_kept in bars.items():
        print(f"{'ok' if is_kept else 'MISSED'}: {bar}")
    if result["ratio"] < WANTED_RATIO:
        print(f"note: the aim is {WANTED_RATIO} of the bare loop")
    return 0 if all(bars.values()) else 1


def measure_bare(folder: Path) -> float:
    """Return how many rows a second a loop stores that does nothing else, on this disk at this moment."""
    path = folder / f"bare-{uuid4().hex}.db"
    connection = sqlite3.connect(path, isolation_level=None)
    connection.execute("PRAGMA journal_mode = WAL")
    connection.execute("PRAGMA synchronous = FULL")
    connection.execute("CREATE TABLE row (key TEXT PRIMARY KEY, value BLOB)")
    value, count, end = os.urandom(SIZE_BYTES), 0, time.perf_counter() + BARE_S
    while time.perf_counter() < end:
        connection.execute("INSERT INTO row VALUES (?, ?)", (str(uuid4()), value))
        count += 1
    connection.close()
    return count / BARE_S


def start_sidecar(folder: Path, write_mode: str) -> tuple["subprocess.Popen[str]", str]:
    outside = {
        name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
    }
    process = subprocess.Popen(
        [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--json", "--write-mode", write_mode],
        env={**outside, "HOLDFAST_DATA_DIR": str(folder / "holdfast"), "HOLDFAST_LOG_LEVEL": "warning"},
        stdout=subprocess.PIPE,
        text=True,
    )
    assert process.stdout is not None
    return process, json.loads(process.stdout.readline())["url"]


async def load(url: str, clients: int, seconds: float) -> Tally:
    """Have each client hand in one checkpoint after the other until the time is over."""
    host, _, port = url.removeprefix("http://").partition(":")
    tally, end = Tally(), time.perf_counter() + seconds
    await asyncio.gather(*(_client(number, host, int(port), end, tally) for number in range(clients)))
    return tally


async def _client(number: int, host: str, port: int, end: float, tally: Tally) -> None:
    reader, writer = await asyncio.open_connection(host, port)
    text = "x" * 200
    outputs = {f"phase_{place}": {"text": text, "number": place, "share": 1.5} for place in range(40)}
    state = json.dumps({"phase_outputs": outputs}, separators=(",", ":")).encode()
    start = f"POST /v1/runs/load-{number}/checkpoints HTTP/1.1\r\nHost: {host}\r\n".encode()
    while time.perf_counter() < end:
        checkpoint_id = str(uuid4())
        body = b'{"checkpoint_id":"%b","trigger":"iteration","phase":"phase_1_plan","state":%b}'
        body %= (checkpoint_id.encode(), state)
        head = start + b"Content-Type: application/json\r\nContent-Length: %d\r\n\r\n" % len(body)
        began = time.perf_counter()
        writer.write(head + body)
        answer = await reader.readuntil(b"\r\n\r\n")
        length = int(answer.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0])
        content = await reader.readexactly(length)
        tally.elapsed_ms.append((time.perf_counter() - began) * 1000)
        if answer.startswith(b"HTTP/1.1 202"):
            tally.checkpoint_ids.append(checkpoint_id)
        else:
            tally.errors.append(content)
    writer.close()


def resources_of(pid: int) -> tuple[int, int]:
    """Return the resident memory and the number of open files of a process."""
    pages = int(Path(f"/proc/{pid}/statm").read_text().split()[1])
    return pages * os.sysconf("SC_PAGE_SIZE"), len(list(Path(f"/proc/{pid}/fd").iterdir()))


def count_missing(url: str, tally: Tally) -> int:
    """Return how many of the acknowledged checkpoints the repository does not list once all are drained."""
    deadline = time.monotonic() + DRAIN_S
    while ask(url, "/v1/status")["spool"]["depth"] and time.monotonic() < deadline:
        time.sleep(1)
    stored: set[str] = set()
    for run in ask(url, "/v1/runs")["runs"]:
        entries = ask(url, f"/v1/runs/{run['run_id']}/checkpoints")["checkpoints"]
        stored.update(entry["checkpoint_id"] for entry in entries)
    return len(set(tally.checkpoint_ids) - stored)


def ask(url: str, path: str) -> Any:
    with urllib.request.urlopen(url + path, timeout=120) as answer:
        return json.load(answer)


if __name__ == "__main__":
    sys.exit(main())
