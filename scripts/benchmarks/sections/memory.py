"""Resident memory of whole processes: one that saves, and one that drains a spool of half a gigabyte."""

import json
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from benchmarks.contestants import COMMIT, CONTENTS
from benchmarks.report import Bar, Figure, Report
from benchmarks.workshop import Workshop

NAME = "memory"
_PROCESS = "benchmarks.lone_process"
LIMIT_MB = 200


def run(workshop: Workshop, report: Report, is_quick: bool) -> None:
    """Measure processes of their own, which report their own peak."""
    checkpoints = 1_000 if is_quick else 10_000
    saving = {
        name: _peak(name, "save", workshop.disk_folder(), 100)["peak_mb"]
        for name in ("Holdfast", "LangGraph SqliteSaver", "PyGithub loop")
    }
    report.add_values(
        saving, section=NAME, work="saving 100 of 50 KB", name="peak", unit="MB", baseline="Holdfast"
    )
    work = f"draining {checkpoints:,} of 50 KB"
    # Both at once: memory is not measured in time.
    with ThreadPoolExecutor() as pool:
        peaks = dict(pool.map(lambda name: (name, _drain(workshop, name, checkpoints)), (COMMIT, CONTENTS)))
    for name, found in peaks.items():
        cpu_s = found["cpu_s"] * 1000 / checkpoints
        report.figures += [
            Figure(NAME, work, name, "peak", found["peak_mb"], "MB"),
            Figure(NAME, work, name, "CPU per 1,000", cpu_s, "s"),
        ]
        promise = f"peak memory, {work}, {name.split()[1]} mode"
        report.bars.append(Bar(NAME, promise, found["peak_mb"], LIMIT_MB, "MB"))


def _drain(workshop: Workshop, name: str, checkpoints: int) -> dict[str, float]:
    with workshop.github() as github:
        return _peak(name, "drain", workshop.disk_folder(), checkpoints, github.url)


def _peak(name: str, task: str, folder: Path, checkpoints: int, url: str = "") -> dict[str, float]:
    command = [sys.executable, "-m", _PROCESS, task, name, str(folder), str(checkpoints), url]
    answer = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    found: dict[str, float] = json.loads(answer.stdout)
    return found
