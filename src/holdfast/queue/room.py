"""Room on the disk: what must stay free, what deleted rows have left in the file, and giving that back."""

import os
import sqlite3
from pathlib import Path

from holdfast.errors import DiskFailed, SpoolError, SpoolUnwritable
from holdfast.logs import log
from holdfast.queue.contract import QueueLimits
from holdfast.queue.folder import QueueFolder
from holdfast.queue.tables import read_totals

# An emptied file keeps its size for what comes next, but no more than this.
_WORTH_COMPACTING_BYTES = 16 * 1024**2


def check_free_space(folder: QueueFolder, size_bytes: int, limits: QueueLimits) -> None:
    """Raise SpoolUnwritable before the disk is full: an SQLite file needs room to be drained, too."""
    least_bytes = limits.min_free_bytes + size_bytes
    free_bytes = free_disk_bytes(folder.path)
    if free_bytes >= least_bytes or free_bytes + folder.look(_free_file_bytes) >= least_bytes:
        return
    raise too_full(folder.path, free_bytes, limits)


def too_full(folder: Path, free_bytes: int, limits: QueueLimits) -> SpoolUnwritable:
    """Return the error that says that the disk of `folder` takes no more."""
    return SpoolUnwritable(
        f"the disk of {folder} has {free_bytes:,} bytes left, and {limits.min_free_bytes:,} must stay free; "
        "free some space on it, or choose another disk with HOLDFAST_DATA_DIR"
    )


def compact_if_worth_it(folder: QueueFolder) -> None:
    """Give the space of an emptied queue back to the disk. Raises DiskFailed."""
    totals, free_bytes = folder.look(lambda database: (read_totals(database), _free_file_bytes(database)))
    if totals.depth or free_bytes < _WORTH_COMPACTING_BYTES or totals.set_aside_bytes > free_bytes:
        return
    try:
        folder.compact()
    except DiskFailed:
        raise
    except SpoolError as error:
        log.warning("spool_not_compacted", cause=str(error))


def free_disk_bytes(folder: Path) -> int:
    """Return how much the disk of `folder` has left. Raises SpoolUnwritable."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        raise SpoolUnwritable(f"{folder} cannot be looked at: {error}") from error
    return disk.f_bavail * disk.f_frsize


def _free_file_bytes(database: sqlite3.Connection) -> int:
    """Return how much the file has room for without growing."""
    (pages,) = database.execute("pragma freelist_count").fetchone()
    (page_bytes,) = database.execute("pragma page_size").fetchone()
    return int(pages * page_bytes)
