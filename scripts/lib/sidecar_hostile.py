"""Plays hostile callers and a GitHub that hangs against a sidecar, and measures what honest callers see."""

import asyncio
import contextlib
import json
import multiprocessing
import resource
import socket
import subprocess
import threading
import time
import urllib.request
from base64 import b64encode
from collections.abc import Callable, Iterator
from hashlib import sha256
from pathlib import Path
from typing import Any
from uuid import uuid4

from sidecar_load import REPOSITORY, Connection, Tally, end, report, resources_of, start_github, start_sidecar

from holdfast.format.checkpoint import draft_from_mapping, stamp

READERS = 20
SAVERS = 4
# Well below what a disk takes: what is measured is how long one waits, not how much goes through.
SAVE_EVERY_S = 0.05
SAVED_BYTES = 60_000
NORMAL_S = 15.0
HANG_S = 60.0
ATTACK_S = 15.0
SLOW_BODIES = 2500
PLACES = 1000
LOOK_EVERY_S = 0.05
MOST_MEMORY_BYTES = 256 * 1024**2
MOST_HEALTH_MS = 100.0
MOST_STOP_S = 8.0

Address = tuple[str, int]
Bars = dict[str, bool]


def play_hostile(folder: Path) -> int:
    """Play everything, print what was measured, and judge."""
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    resource.setrlimit(resource.RLIMIT_NOFILE, (min(hard, 2 * SLOW_BODIES + 200), hard))
    figures: dict[str, Any] = {}
    bars: Bars = {}
    _play_hanging(folder / "hanging", figures, bars)
    # The first is no attack: it shows what this machine takes for an answer at this moment.
    attacks = {
        "quiet": do_nothing,
        "trailers": send_trailers,
        "slow_bodies": send_slowly,
        "parts": read_parts,
    }
    for name, attack in attacks.items():
        _play_attack(folder / name, name, attack, figures, bars)
    resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))
    return report(bars)


def _play_hanging(folder: Path, figures: dict[str, Any], bars: Bars) -> None:
    """Compare how long a save waits, with a GitHub that answers and with one that does not."""
    with _sidecar(folder / "normal") as (_, url):
        normal = asyncio.run(save_for(url, NORMAL_S))
    with hanging_server() as api_url, _sidecar(folder / "away", api_url) as (process, url):
        readers = _begin(keep_reading, _address(url), "nobody", HANG_S)
        with looking(url, process.pid) as seen:
            away = asyncio.run(save_for(url, HANG_S))
        readers.join()
        stop_s = _time_end(process)
    figures["hanging_github"] = {
        "normal_p99_ms": round(normal.percentile(0.99), 1),
        "hanging_p99_ms": round(away.percentile(0.99), 1),
        "saves": [len(normal.elapsed_ms), len(away.elapsed_ms)],
        "errors": len(normal.errors) + len(away.errors),
        "stop_s": round(stop_s, 1),
        **seen.figures(),
    }
    print(f"hanging_github: {figures['hanging_github']}", flush=True)
    bars["hanging: p99 of 60 KB within twice the normal"] = away.percentile(0.99) <= 2 * normal.percentile(
        0.99
    )
    bars["hanging: no save refused"] = not (normal.errors or away.errors)
    bars[f"hanging: stop within {MOST_STOP_S:.0f} s"] = stop_s <= MOST_STOP_S


def _play_attack(
    folder: Path, name: str, attack: Callable[..., None], figures: dict[str, Any], bars: Bars
) -> None:
    with _sidecar(folder, plant=plant_parts if attack is read_parts else None) as (process, url):
        attacking = _begin(attack, _address(url), ATTACK_S)
        time.sleep(1)  # until it has begun
        with looking(url, process.pid) as seen:
            time.sleep(ATTACK_S - 3)
        stop_s = _time_end(process) if attack is read_parts else 0.0
        attacking.join()
    figures[name] = {**seen.figures(), **({"stop_s": round(stop_s, 1)} if stop_s else {})}
    print(f"{name}: {figures[name]}", flush=True)
    bars[f"{name}: memory below 256 MB"] = seen.memory_bytes < MOST_MEMORY_BYTES
    bars[f"{name}: /healthz below 100 ms (p99)"] = seen.tally.percentile(0.99) < MOST_HEALTH_MS
    bars[f"{name}: /healthz answers"] = len(seen.tally.errors) <= len(seen.tally.elapsed_ms) // 100
    if stop_s:
        bars[f"{name}: stop within {MOST_STOP_S:.0f} s"] = stop_s <= MOST_STOP_S


@contextlib.contextmanager
def _sidecar(
    folder: Path, api_url: str = "", plant: Callable[[str, str], None] | None = None
) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    """Give a sidecar, over a GitHub that answers unless it is told where another one is."""
    folder.mkdir(parents=True)
    running = []
    if not api_url:
        github, api_url = start_github(folder)
        running.append(github)
    try:
        sidecar, url = start_sidecar(folder, api_url, "contents")
        running.append(sidecar)
        if plant:
            plant(url, api_url)
        yield sidecar, url
    finally:
        for process in reversed(running):
            if process.poll() is None:
                end(process)


def _begin(work: Callable[..., None], *arguments: Any) -> Any:
    """Have `work` done in a process of its own, so that it does not slow what is measured here."""
    process = multiprocessing.get_context("fork").Process(target=work, args=arguments)
    process.start()
    return process


def _time_end(process: "subprocess.Popen[str]") -> float:
    began = time.perf_counter()
    end(process)
    return time.perf_counter() - began


def _address(url: str) -> Address:
    host, _, port = url.removeprefix("http://").partition(":")
    return host, int(port)


@contextlib.contextmanager
def hanging_server() -> Iterator[str]:
    """Give the URL of a server that takes every request and answers none."""
    with socket.create_server(("127.0.0.1", 0), backlog=128) as listener:
        taken = []

        def accept() -> None:
            with contextlib.suppress(OSError):
                while True:
                    taken.append(listener.accept()[0])

        threading.Thread(target=accept, daemon=True).start()
        yield f"http://127.0.0.1:{listener.getsockname()[1]}"
        listener.shutdown(socket.SHUT_RDWR)
        for connection in taken:
            connection.close()


class Seen:
    """What an honest caller saw of the sidecar, each time by a new connection."""

    def __init__(self) -> None:
        self.tally = Tally()
        self.memory_bytes = 0
        self.is_over = threading.Event()

    def figures(self) -> dict[str, Any]:
        return {
            "healthz_p50_ms": round(self.tally.percentile(0.5), 1),
            "healthz_p99_ms": round(self.tally.percentile(0.99), 1),
            "healthz_max_ms": round(max(self.tally.elapsed_ms), 1),
            "healthz_asked": len(self.tally.elapsed_ms),
            "healthz_errors": len(self.tally.errors),
            "most_memory_mb": round(self.memory_bytes / 1024**2),
        }

    def look(self, url: str, pid: int) -> None:
        while not self.is_over.wait(LOOK_EVERY_S):
            began = time.perf_counter()
            try:
                with urllib.request.urlopen(f"{url}/healthz", timeout=10) as answer:
                    answer.read()
                self.memory_bytes = max(self.memory_bytes, resources_of(pid)[0])
            except OSError as error:
                if not Path(f"/proc/{pid}/statm").exists() or self.is_over.is_set():
                    return
                self.tally.errors.append(repr(error).encode())
            self.tally.elapsed_ms.append((time.perf_counter() - began) * 1000)


@contextlib.contextmanager
def looking(url: str, pid: int) -> Iterator[Seen]:
    """Look at the sidecar's health and memory again and again while this lasts."""
    seen = Seen()
    thread = threading.Thread(target=seen.look, args=(url, pid))
    thread.start()
    try:
        yield seen
    finally:
        seen.is_over.set()
        thread.join()


async def save_for(url: str, seconds: float) -> Tally:
    """Have some callers save 60 KB again and again; return how long each waited."""
    tally, deadline = Tally(), time.perf_counter() + seconds
    body = json.dumps({"trigger": "manual", "state": {"text": "x" * SAVED_BYTES}}).encode()

    async def save(number: int) -> None:
        async with Connection(url) as connection:
            while time.perf_counter() < deadline:
                began = time.perf_counter()
                status, content = await connection.call("POST", f"/v1/runs/saver-{number}/checkpoints", body)
                tally.elapsed_ms.append((time.perf_counter() - began) * 1000)
                if status != 202:
                    tally.errors.append(content)
                await asyncio.sleep(SAVE_EVERY_S)

    await asyncio.gather(*map(save, range(SAVERS)))
    return tally


def keep_reading(address: Address, run_id: str, seconds: float) -> None:
    """Have many callers ask for one run's plan again and again."""
    deadline = time.perf_counter() + seconds

    def read() -> None:
        while time.perf_counter() < deadline:
            with contextlib.suppress(OSError):
                url = f"http://{address[0]}:{address[1]}/v1/runs/{run_id}/resume"
                urllib.request.urlopen(url, timeout=max(1.0, deadline - time.perf_counter())).read()
            time.sleep(0.01)

    threads = [threading.Thread(target=read, daemon=True) for _ in range(READERS)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(max(0.0, deadline - time.perf_counter()))


def do_nothing(_address: Address, seconds: float) -> None:
    """Attack nobody."""
    time.sleep(seconds)


def read_parts(address: Address, seconds: float) -> None:
    """Ask for a run whose checkpoint has as many parts as it may have."""
    keep_reading(address, "hostile", seconds)


def plant_parts(url: str, api_url: str) -> None:
    """Put a run into the repository whose newest checkpoint has very many places of parts."""
    body = b'{"trigger": "manual", "state": 1}'
    first = urllib.request.Request(
        f"{url}/v1/runs/first/checkpoints?wait=verified&timeout=60",
        body,
        {"Content-Type": "application/json"},
    )
    urllib.request.urlopen(first, timeout=70).read()  # the branch is there after that
    part = b"1"
    reference = {"$part": "checkpoints/hostile/parts/a.json", "sha256": sha256(part).hexdigest(), "bytes": 1}
    names = [f"member-{number}" for number in range(PLACES)]
    state = {**dict.fromkeys(names, reference), "filler": ["x" * 100] * 10_000}
    checkpoint = {"run_id": "hostile", "trigger": "manual", "phase": "phase_1", "state": state}
    draft = draft_from_mapping(checkpoint, now="2026-11-16T10:00:00Z", new_id=lambda: str(uuid4()))
    places = json.dumps([["state_snapshot", name] for name in names]).encode()
    content = stamp(draft.body(1)[:-1] + b',"parts":' + places + b"}").content
    for name, each in (("parts/a.json", part), ("cp_001_manual.json", content), ("latest.json", content)):
        _put(api_url, f"checkpoints/hostile/{name}", each)


def _put(api_url: str, path: str, content: bytes) -> None:
    body = {"message": "hostile", "content": b64encode(content).decode(), "branch": "checkpoints"}
    headers = {"Authorization": "token load", "User-Agent": "hostile", "Content-Type": "application/json"}
    url = f"{api_url}/repos/{REPOSITORY}/contents/{path}"
    request = urllib.request.Request(url, json.dumps(body).encode(), headers, method="PUT")
    urllib.request.urlopen(request, timeout=60).read()


_HEAD = b"POST /v1/runs/a/checkpoints HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\n"


def send_trailers(address: Address, seconds: float) -> None:
    """Send trailers without end over three connections, anew whenever one is closed."""
    deadline = time.perf_counter() + seconds
    begin = _HEAD + b"Transfer-Encoding: chunked\r\n\r\n1\r\n{\r\n0\r\n"
    endings = (b"X-A: b\r\n" * 8192, b"X-A: " + b"b" * 65536, b"X-Long: " + b"b" * 60_000 + b"\r\n")

    def send(rest: bytes) -> None:
        while time.perf_counter() < deadline:
            with contextlib.suppress(OSError), socket.create_connection(address, timeout=1) as connection:
                connection.sendall(begin)
                while time.perf_counter() < deadline:
                    connection.sendall(rest)

    threads = [threading.Thread(target=send, args=(rest,)) for rest in endings]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()


def send_slowly(address: Address, seconds: float) -> None:
    """Hold more connections than there may be with bodies of which a byte comes now and then."""

    async def send(deadline: float) -> None:
        while time.perf_counter() < deadline:
            with contextlib.suppress(OSError):
                _, writer = await asyncio.open_connection(*address)
                writer.write(_HEAD + b"Content-Length: 1000\r\n\r\n{")
                while time.perf_counter() < deadline and not writer.is_closing():
                    await asyncio.sleep(2)
                    writer.write(b" ")
                    await writer.drain()
            await asyncio.sleep(0.5)

    async def send_all() -> None:
        deadline = time.perf_counter() + seconds
        await asyncio.gather(*(send(deadline) for _ in range(SLOW_BODIES)))

    asyncio.run(send_all())
