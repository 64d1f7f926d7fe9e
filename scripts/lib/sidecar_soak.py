"""Days of work in minutes: a sidecar in a process of its own must not grow."""

import asyncio
import itertools
import json
import statistics
import time
from dataclasses import dataclass, field
from pathlib import Path

from sidecar_load import (
    Connection,
    Tally,
    ask,
    end,
    report,
    resources_of,
    start_github,
    start_sidecar,
    submit,
    wait_until_drained,
)

CLIENTS = 8
CHECKPOINTS_PER_RUN = 20
# What is spooled is held in memory in part: with more than this waiting, the clients wait.
MOST_SPOOLED = 400
SAMPLE_EVERY_S = 1.0
# A day's work, at a checkpoint every ten seconds, and what one may add to a process.
THOUSANDS_IN_A_DAY = 8.64
MOST_GROWTH_IN_A_DAY = 0.05
MOST_NEW_FILES = 2


@dataclass
class Samples:
    """The sidecar's memory and open files, as time went by."""

    memory_bytes: list[int] = field(default_factory=list)
    files: list[int] = field(default_factory=list)
    acknowledged: list[int] = field(default_factory=list)

    def look(self, pid: int, acknowledged: int) -> None:
        """Note how the process fares after so many checkpoints."""
        memory_bytes, files = resources_of(pid)
        self.memory_bytes.append(memory_bytes)
        self.files.append(files)
        self.acknowledged.append(acknowledged)

    def course(self, values: list[int], unit: float) -> dict[str, float]:
        """Return how `values` went: at the start, after the warm-up, at the end, and how they grow."""
        warm = len(values) // 4
        # The last one was taken when all was drained and every client had gone.
        done, rest = self.acknowledged[warm:-1], values[warm:-1]
        third = max(1, len(rest) // 3)
        slope = statistics.linear_regression(done, rest).slope if len(set(done)) > 1 else 0.0
        return {
            "start": round(values[0] / unit, 1),
            "warm": round(rest[0] / unit, 1),
            "first_third": round(statistics.median(rest[:third]) / unit, 1),
            "last_third": round(statistics.median(rest[-third:]) / unit, 1),
            "end": round(values[-1] / unit, 1),
            "growth_in_1000_checkpoints": round(slope * 1000 / unit, 3),
        }


def soak(folder: Path, seconds: float, write_mode: str) -> int:
    """Work for so long, print how the process fared, and judge."""
    github, api_url = start_github(folder)
    sidecar, url = start_sidecar(folder, api_url, write_mode)
    try:
        tally, samples = asyncio.run(_work(url, sidecar.pid, seconds))
        left = wait_until_drained(url)
        samples.look(sidecar.pid, len(tally.checkpoint_ids))
    finally:
        codes = [end(process) for process in (sidecar, github)]
    return _judge(tally, samples, left, codes)


def _judge(tally: Tally, samples: Samples, left: int, codes: list[int]) -> int:
    memory = samples.course(samples.memory_bytes, 1e6)
    files = samples.course(samples.files, 1)
    result = {
        "acknowledged": len(tally.checkpoint_ids),
        "hours_at_one_in_10_s": round(len(tally.checkpoint_ids) * 10 / 3600, 1),
        "memory_mb": memory,
        "open_files": files,
        "errors": len(tally.errors),
        "left_in_spool": left,
    }
    print(json.dumps(result, indent=2))
    return report(
        {
            "memory is flat, day by day": memory["growth_in_1000_checkpoints"] * THOUSANDS_IN_A_DAY
            <= memory["first_third"] * MOST_GROWTH_IN_A_DAY,
            "open files are flat": files["last_third"] <= files["first_third"] + MOST_NEW_FILES,
            "no error": not tally.errors,
            "all drained": left == 0,
            "exit 0": not any(codes),
        }
    )


async def _work(url: str, pid: int, seconds: float) -> tuple[Tally, Samples]:
    tally, samples, deadline = Tally(), Samples(), time.perf_counter() + seconds
    gate, numbers = asyncio.Event(), itertools.count()
    gate.set()
    await asyncio.gather(
        _sample(url, pid, deadline, tally, samples, gate),
        *(_client(url, deadline, tally, gate, numbers) for _ in range(CLIENTS)),
    )
    return tally, samples


async def _sample(
    url: str, pid: int, deadline: float, tally: Tally, samples: Samples, gate: asyncio.Event
) -> None:
    """Look at the process now and then, and let the clients wait while too much is spooled."""
    while time.perf_counter() < deadline:
        samples.look(pid, len(tally.checkpoint_ids))
        status = await asyncio.to_thread(ask, url, "/v1/status")
        if status["spool"]["depth"] > MOST_SPOOLED:
            gate.clear()
        else:
            gate.set()
        await asyncio.sleep(SAMPLE_EVERY_S)
    gate.set()


async def _client(
    url: str, deadline: float, tally: Tally, gate: asyncio.Event, numbers: "itertools.count[int]"
) -> None:
    """Carry out one run after the other: its checkpoints, and a resume."""
    async with Connection(url) as connection:
        while time.perf_counter() < deadline:
            run_id = f"soak-{next(numbers)}"
            for sequence in range(1, CHECKPOINTS_PER_RUN + 1):
                await gate.wait()
                await submit(connection, run_id, sequence, tally)
            for path in (f"/v1/runs/{run_id}/resume", "/metrics"):
                status, content = await connection.call("GET", path)
                if status != 200:
                    tally.errors.append(content)
