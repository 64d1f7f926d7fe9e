"""A sidecar at work for as long as it is told, in a process of its own: it must not grow.

Clients save, each a run after the other, others read and follow the events, and GitHub is away now and then.
"""

import asyncio
import contextlib
import itertools
import json
import time
from collections.abc import AsyncIterator
from pathlib import Path

from sidecar_load import (
    Connection,
    Tally,
    ask,
    end,
    report,
    start_github,
    start_sidecar,
    submit,
    tell,
    wait_until_drained,
)
from soak_samples import MOST_GROWTH, Samples, draw_samples

CLIENTS = 8
READERS = 2
FOLLOWERS = 4
# What is remembered of so many runs at most fills up sooner with shorter ones, and belongs to the warm-up.
CHECKPOINTS_PER_RUN = 50
# What is spooled is held in memory in part: with more than this waiting, the clients wait.
MOST_SPOOLED = 2000
SAMPLE_EVERY_S = 5.0
READ_EVERY_S = 1.0
FOLLOW_FOR_S = 60.0
# How GitHub is away, by turns: it fails, does not answer in time, hangs up, hangs up after a write.
OUTAGES = ("any:503", "any:delay=20", "any:cut", "put:cut-after")
OUTAGE_EVERY_S = 300.0
OUTAGE_S = 40.0


class Soak:
    """Everyone who calls the sidecar at `url`, until the time is over."""

    def __init__(
        self,
        url: str,
        api_url: str,
        pid: int,
        seconds: float,
        *,
        rate: float | None,
        per_run: int,
        picture: Path | None,
    ) -> None:
        self.tally, self.samples, self.events = Tally(), Samples(), 0
        self._url, self._api_url, self._pid, self._rate = url, api_url, pid, rate
        self._picture, self._per_run = picture, per_run
        self._began = time.perf_counter()
        self._deadline = self._began + seconds
        self._gate, self._numbers = asyncio.Event(), itertools.count()
        self._gate.set()

    async def work(self) -> None:
        """Have all of them at work at once."""
        await asyncio.gather(
            self._sample(),
            self._interrupt(),
            *(self._save() for _ in range(CLIENTS)),
            *(self._read() for _ in range(READERS)),
            *(self._follow() for _ in range(FOLLOWERS)),
        )

    async def _sleep(self, seconds: float) -> None:
        await asyncio.sleep(max(0.0, min(seconds, self._deadline - time.perf_counter())))

    def _is_over(self) -> bool:
        return time.perf_counter() >= self._deadline

    async def _until_over(self) -> AsyncIterator[None]:
        while not self._is_over():
            yield

    async def _sample(self) -> None:
        """Look at the process now and then, and let the clients wait while too much is spooled."""
        async for _ in self._until_over():
            status = await asyncio.to_thread(ask, self._url, "/v1/status")
            depth = int(status["spool"]["depth"])
            self.look(depth)
            (self._gate.clear if depth > MOST_SPOOLED else self._gate.set)()
            await self._sleep(SAMPLE_EVERY_S)
        self._gate.set()

    def look(self, depth: int) -> None:
        """Note how the process fares, with so much in its spool; who watches can see the picture grow."""
        elapsed_s = time.perf_counter() - self._began
        self.samples.look(self._pid, elapsed_s, len(self.tally.checkpoint_ids), depth)
        if self._picture:
            draw_samples(self.samples, self._picture)

    async def _interrupt(self) -> None:
        """Take GitHub away from time to time, but not in the end."""
        for outage in itertools.cycle(OUTAGES):
            await self._sleep(OUTAGE_EVERY_S - OUTAGE_S)
            if time.perf_counter() + 3 * OUTAGE_S > self._deadline:
                return
            began = time.perf_counter() - self._began
            await asyncio.to_thread(tell, self._api_url, "POST", "/_emulator/faults", {"fault": outage})
            await self._sleep(OUTAGE_S)
            await asyncio.to_thread(tell, self._api_url, "DELETE", "/_emulator/faults")
            self.samples.outages.append((began, time.perf_counter() - self._began))

    async def _save(self) -> None:
        """Carry out one run after the other: its checkpoints, its end, and a resume."""
        pause_s = CLIENTS / self._rate if self._rate else 0.0
        async with Connection(self._url) as connection:
            async for _ in self._until_over():
                run_id = f"soak-{next(self._numbers)}"
                for sequence in range(1, self._per_run + 1):
                    await self._gate.wait()
                    if self._is_over():
                        return
                    await submit(connection, run_id, sequence, self.tally)
                    if pause_s:
                        await self._sleep(pause_s)
                await self._call(connection, "GET", f"/v1/runs/{run_id}/resume")
                await self._call(connection, "POST", f"/v1/runs/{run_id}/complete", b'{"status":"completed"}')

    async def _read(self) -> None:
        async with Connection(self._url) as connection:
            paths = itertools.cycle(("/metrics", "/v1/runs", "/", "/v1/status", "/healthz", "/v1/doctor"))
            async for _ in self._until_over():
                await self._call(connection, "GET", next(paths))
                await self._sleep(READ_EVERY_S)

    async def _call(self, connection: Connection, method: str, path: str, body: bytes = b"") -> None:
        status, content = await connection.call(method, path, body)
        # A read may need GitHub, and is told so while it is away.
        if status >= 500 and not (method == "GET" and status in (502, 503)):
            self.tally.errors.append(content)

    async def _follow(self) -> None:
        """Follow the events for a while, go, and come back."""
        host, _, port = self._url.removeprefix("http://").partition(":")
        async for _ in self._until_over():
            reader, writer = await asyncio.open_connection(host, int(port))
            writer.write(f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(min(FOLLOW_FOR_S, self._deadline - time.perf_counter())):
                    while line := await reader.readline():
                        self.events += line.startswith(b"event: ")
            writer.close()


def soak(
    folder: Path, seconds: float, write_mode: str, *, rate: float | None, per_run: int, picture: Path | None
) -> int:
    """Work for so long, print and draw how the process fared, and judge."""
    github, api_url = start_github(folder)
    sidecar, url = start_sidecar(folder, api_url, write_mode)
    try:
        play = Soak(url, api_url, sidecar.pid, seconds, rate=rate, per_run=per_run, picture=picture)
        asyncio.run(play.work())
        left = wait_until_drained(url)
        play.look(left)
    finally:
        codes = [end(process) for process in (sidecar, github)]
    return _judge(play, left, codes)


def _judge(play: Soak, left: int, codes: list[int]) -> int:
    tally, courses = play.tally, play.samples.courses()
    result = {
        "seconds": round(play.samples.elapsed_s[-1]),
        "acknowledged": len(tally.checkpoint_ids),
        "p99_ms": round(tally.percentile(0.99), 1),
        "outages": len(play.samples.outages),
        "most_spooled": max(play.samples.depth),
        "events": play.events,
        **{name: course.figures() for name, course in courses.items()},
        "errors": len(tally.errors),
        "left_in_spool": left,
    }
    print(json.dumps(result, indent=2))
    for error in tally.errors[:5]:
        print(error[:500])
    return report(
        {
            **{
                f"{name} grow by less than {MOST_GROWTH:.0%} after the warm-up": course.growth < MOST_GROWTH
                for name, course in courses.items()
            },
            "no error": not tally.errors,
            "all drained": left == 0,
            "exit 0": not any(codes),
        }
    )
