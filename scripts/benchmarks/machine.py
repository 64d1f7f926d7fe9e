"""Describes the machine, because every absolute number is that machine's own."""

import os
import platform
import sqlite3
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

SHARED_MEMORY = Path("/dev/shm")
_PEERS = ("PyGithub", "githubkit", "langgraph-checkpoint-sqlite", "persist-queue")


def describe(disk: Path, memory: Path) -> dict[str, str]:
    """Return what a reader must know to judge the numbers."""
    return {
        "system": f"{platform.system()} {platform.machine()}",
        "processor": _processor(),
        "cores": str(len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()),
        "memory": f"{os.sysconf('SC_PAGE_SIZE') * os.sysconf('SC_PHYS_PAGES') / 2**30:.0f} GB",
        "load before": f"{os.getloadavg()[0]:.2f}",
        "python": platform.python_version(),
        "sqlite": sqlite3.sqlite_version,
        "git": _git_version(),
        "spools and local peers on": file_system(disk),
        "repositories on": file_system(memory),
        **{name: _version(name) for name in _PEERS},
    }


def is_busy() -> bool:
    """Whether others keep the cores from what is to be measured."""
    return os.getloadavg()[0] > (os.cpu_count() or 1) / 2


def file_system(folder: Path) -> str:
    """Return the kind of file system that `folder` lies on."""
    try:
        lines = Path("/proc/mounts").read_text(encoding="utf-8").splitlines()
    except OSError:
        return "unknown"
    mounts = [line.split()[1:3] for line in lines]
    own = [(len(place), kind) for place, kind in mounts if folder.is_relative_to(place)]
    return max(own)[1] if own else "unknown"


def _processor() -> str:
    try:
        lines = Path("/proc/cpuinfo").read_text(encoding="utf-8").splitlines()
    except OSError:
        return platform.processor() or "unknown"
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return names[0] if names else "unknown"


def _git_version() -> str:
    answer = subprocess.run(["git", "--version"], capture_output=True, text=True, check=False)
    return answer.stdout.strip().removeprefix("git version ") or "none"


def _version(distribution: str) -> str:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return "not installed"
