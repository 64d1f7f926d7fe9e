"""Measures the dashboard: time and weight of its pages, and what open pages cost those who save."""

import asyncio
import contextlib
import json
import multiprocessing
import re
import statistics
import time
import urllib.request
from collections.abc import Callable, Iterator
from pathlib import Path
from random import random
from typing import Any

from benchmarks.states import encode
from sidecar_load import (
    Connection,
    Tally,
    end,
    report,
    start_github,
    start_sidecar,
    submit,
    wait_until_drained,
)

RUNS = 1050
CHECKPOINTS = 500
LONG_RUN = "long-run"
PAGES = {"overview": "/", "runs": "/ui/runs", "run": f"/ui/runs/{LONG_RUN}"}
VISITS = 15
OPEN_PAGES = 100
FRAGMENT = "/ui/fragments/overview"
# As in live.js.
SOON_S = 2.0
SAVERS = 4
# Well below what a disk takes: what is measured is how long one waits, not how much goes through.
SAVE_EVERY_S = 0.02
TURNS, TURN_S = 4, 8.0
MOST_PAGE_MS = 100.0
MOST_PAGE_BYTES = 100_000
MOST_SLOWER = 1.2


def measure_pages(folder: Path) -> int:
    """Fill a sidecar, look at its pages, have pages open while others save; print and judge."""
    github, api_url = start_github(folder)
    sidecar, url = start_sidecar(folder, api_url, "commit")
    try:
        asyncio.run(fill(url))
        wait_until_drained(url)
        figures: dict[str, Any] = {name: look(url, path) for name, path in PAGES.items()}
        figures["acknowledged"] = asyncio.run(save_beside_pages(url))
    finally:
        end(sidecar)
        end(github)
    print(json.dumps(figures, indent=2))
    saved = figures["acknowledged"]
    return report(
        {
            **{
                f"{name} within {MOST_PAGE_MS:.0f} ms": figures[name]["server_ms"] <= MOST_PAGE_MS
                for name in PAGES
            },
            **{
                f"{name} below {MOST_PAGE_BYTES // 1000} KB": figures[name]["bytes"] <= MOST_PAGE_BYTES
                for name in PAGES
            },
            f"savers wait at most {MOST_SLOWER} times": saved["ratio"] <= MOST_SLOWER,
        }
    )


async def fill(url: str) -> None:
    """Make many runs of one checkpoint, and one of many."""
    async with Connection(url) as connection:
        for number in range(RUNS):
            await save(connection, f"run-{number:04d}", "phase_1_plan")
        for number in range(CHECKPOINTS):
            await save(connection, LONG_RUN, f"phase_{number % 9 + 1}")


async def save(connection: Connection, run_id: str, phase: str) -> None:
    """Hand in a small checkpoint."""
    body = {"trigger": "phase_complete", "phase": phase, "workflow": "nightly", "state": {"answer": 42}}
    status, content = await connection.call("POST", f"/v1/runs/{run_id}/checkpoints", encode(body))
    assert status == 202, content


def look(url: str, path: str) -> dict[str, float]:
    """Return how long the server takes for a page that was looked at before, and all its bytes."""
    page = fetch(url + path)
    attached = set(re.findall(rb'(?:href|src)="(/ui/static/[^"]+)"', page))
    weight = len(page) + sum(len(fetch(f"{url}{each.decode()}")) for each in attached)
    elapsed_ms = []
    for _ in range(VISITS):
        began = time.perf_counter()
        fetch(url + path)
        elapsed_ms.append((time.perf_counter() - began) * 1000)
    return {"server_ms": round(statistics.median(elapsed_ms), 1), "bytes": weight}


def fetch(address: str) -> bytes:
    with urllib.request.urlopen(address, timeout=60) as answer:
        return bytes(answer.read())


async def save_beside_pages(url: str) -> dict[str, float]:
    """Return how long savers wait without open pages and with them, measured by turns."""
    alone, beside = Tally(), Tally()
    for _ in range(TURNS):
        await save_for_a_while(url, alone)
        with open_pages(url):
            await save_for_a_while(url, beside)
    alone_ms, beside_ms = alone.percentile(0.99), beside.percentile(0.99)
    return {
        "p99_ms_alone": round(alone_ms, 1),
        "p99_ms_beside_pages": round(beside_ms, 1),
        "ratio": round(beside_ms / alone_ms, 2),
        "saves": len(beside.elapsed_ms),
    }


@contextlib.contextmanager
def open_pages(url: str) -> Iterator[None]:
    """Have pages open while this lasts, in a process of their own: what they cost who reads is not ours."""
    context = multiprocessing.get_context("fork")
    are_open, is_over, heard = context.Event(), context.Event(), context.Queue()
    process = context.Process(
        target=lambda: heard.put(asyncio.run(follow_all(url, are_open.set, is_over.is_set)))
    )
    process.start()
    assert are_open.wait(60), "not all pages could be opened"
    try:
        yield
    finally:
        is_over.set()
        assert all(heard.get(timeout=20)), "a page heard nothing"
        process.join()


async def follow_all(url: str, tell_open: Callable[[], None], is_over: Callable[[], bool]) -> list[int]:
    """Follow along as many open pages do until it is over; return how many bytes each has heard."""
    opened = asyncio.Barrier(OPEN_PAGES + 1)
    followers = [asyncio.create_task(follow(url, opened)) for _ in range(OPEN_PAGES)]
    await opened.wait()
    tell_open()
    while not is_over():
        await asyncio.sleep(0.1)
    for follower in followers:
        follower.cancel()
    return await asyncio.gather(*followers)


async def save_for_a_while(url: str, tally: Tally) -> None:
    """Have a few clients save now and then."""
    until = time.perf_counter() + TURN_S

    async def saver(number: int) -> None:
        async with Connection(url) as connection:
            sequence = 0
            while time.perf_counter() < until:
                sequence += 1
                await submit(connection, f"saver-{number}", sequence, tally)
                await asyncio.sleep(SAVE_EVERY_S)

    await asyncio.gather(*map(saver, range(SAVERS)))
    assert not tally.errors, tally.errors[0]


async def follow(url: str, opened: asyncio.Barrier) -> int:
    """Follow along as an open overview does, until this is cancelled; return how many bytes were heard.

    After an event it asks for its fragment again, as its script does: not before SOON_S, and not twice.
    """
    host, _, port = url.removeprefix("http://").partition(":")
    reader, writer = await asyncio.open_connection(host, int(port))
    writer.write(f"GET /v1/events HTTP/1.1\r\nHost: {host}\r\n\r\n".encode())
    await reader.readuntil(b"retry: ")
    await opened.wait()
    heard = 0
    refreshing: asyncio.Task[None] | None = None
    try:
        async with Connection(url) as connection:
            while piece := await reader.read(65536):
                heard += len(piece)
                if b"event:" in piece and (refreshing is None or refreshing.done()):
                    refreshing = asyncio.create_task(refresh(connection))
    except asyncio.CancelledError:
        writer.close()
        if refreshing:
            refreshing.cancel()
    return heard


async def refresh(connection: Connection) -> None:
    """Ask for what an open overview shows, a while after something happened."""
    await asyncio.sleep(SOON_S + SOON_S * random())
    status, _ = await connection.call("GET", FRAGMENT, b"")
    assert status == 200
