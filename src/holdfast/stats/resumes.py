"""Counts the resume plans that were asked for on this machine: nothing else records them.

A line for each in a file that any process appends to. To count is worth no failure and no waiting: nothing is
synced, and what cannot be written is not counted.
"""

import os
from contextlib import suppress
from pathlib import Path

from holdfast.format.moments import format_moment
from holdfast.stats.figures import ResumeCount

MOST_BYTES = 1024**2
"""When the file has become as large, it is put aside, and the one that was put aside before goes."""

_NAME = "resumes.log"
_EARLIER = "resumes.earlier.log"


def count_resume(folder: Path, run_id: str, now: float) -> None:
    """Note that a plan for this run was given out."""
    path = folder / _NAME
    with suppress(OSError):
        # One write of a short line to a file opened for appending is never mixed with another's.
        descriptor = os.open(path, os.O_WRONLY | os.O_APPEND | os.O_CREAT, 0o600)
        try:
            os.write(descriptor, f"{format_moment(now)} {run_id}\n".encode())
            is_full = os.fstat(descriptor).st_size >= MOST_BYTES
        finally:
            os.close(descriptor)
        if is_full:
            path.replace(folder / _EARLIER)


def read_resumes(folder: Path, run_id: str | None = None) -> ResumeCount:
    """Return how many plans were given out, for one run or for all, and since when they are counted."""
    lines: list[str] = []
    for name in (_EARLIER, _NAME):
        with suppress(OSError, UnicodeDecodeError):
            lines += (folder / name).read_text(encoding="utf-8").splitlines()
    resumes = [line.split() for line in lines if len(line.split()) == 2]
    counted = sum(run_id in (None, each) for _, each in resumes)
    return ResumeCount(counted, resumes[0][0] if resumes else None)
