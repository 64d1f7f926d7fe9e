"""The local disk: folders of our own, and errors that say what to do."""

import errno
import hashlib
import os
import sqlite3
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol
from weakref import WeakSet

from holdfast.errors import DiskFailed, SpoolDamaged, SpoolError, SpoolUnwritable

LOCK_TIMEOUT_S = 10
NO_ROOM_TO_SHARE = sqlite3.SQLITE_IOERR_SHMSIZE
"""SQLite's code where the disk has no room for the file that lets several use a database."""
UNCONFIRMED = "the disk failed to confirm a write; check the disk, then start Holdfast again"


class DatabaseDamaged(SpoolDamaged):
    """The database as a whole cannot be trusted: its rows are to be salvaged into a new one."""


class StoreMoved(SpoolError):
    """The database in the folder is no longer the one that was opened: nothing counts as stored."""


class Forkable(Protocol):
    """What holds locks that a forked process must not share with its parent."""

    def part(self) -> None:
        """Let go of them, in the forked process."""


_forkable: WeakSet[Forkable] = WeakSet()


def part_when_forked(each: Forkable) -> None:
    """Let `each` part from its parent in every process that is forked from this one."""
    _forkable.add(each)


def _part_all() -> None:
    for each in list(_forkable):
        each.part()


os.register_at_fork(after_in_child=_part_all)


def digest_of(value: bytes) -> bytes:
    """Return the digest that a body is known by."""
    return hashlib.sha256(value).digest()


def make_private_folder(folder: Path) -> None:
    """Make `folder` for this user alone, and sync its name, and that of every folder made above it.

    Raises SpoolUnwritable; DiskFailed as `confirm_folder` does.
    """
    try:
        missing = [each for each in (folder, *folder.parents) if not each.exists()]
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        for made in missing:
            confirm_folder(made.parent)
        if folder.stat().st_mode & 0o077:
            folder.chmod(0o700)
    except OSError as error:
        raise translate(error, folder) from error


def sync_folder(folder: Path) -> None:
    """Make the disk confirm the names in `folder`."""
    with _opened(folder) as descriptor:
        os.fsync(descriptor)


def confirm_folder(folder: Path) -> None:
    """Do what `sync_folder` does. Raises DiskFailed if that fails, or has failed here or above before.

    Linux forgets what a failed fsync did not write: a second one would succeed and lie.
    """
    if not _unconfirmed.isdisjoint((folder, *folder.parents)):
        raise DiskFailed(f"{folder} takes nothing more: {UNCONFIRMED}")
    with _opened(folder) as descriptor:
        try:
            os.fsync(descriptor)
        except OSError as error:
            _unconfirmed.add(folder)
            raise DiskFailed(str(translate(error, folder))) from error


_unconfirmed: set[Path] = set()


@contextmanager
def _opened(folder: Path) -> Iterator[int]:
    descriptor = os.open(folder, os.O_RDONLY)
    try:
        yield descriptor
    finally:
        os.close(descriptor)


def translate(error: BaseException, folder: Path) -> SpoolError:
    """Return our error for one of SQLite or of the system, in a sentence that says what to do."""
    code = getattr(error, "sqlite_errorcode", 0)
    text = str(error)
    if code == NO_ROOM_TO_SHARE or (code == sqlite3.SQLITE_CANTOPEN and _takes_no_files(folder)):
        code, text = sqlite3.SQLITE_FULL, "the disk is full"
    code &= 0xFF
    if isinstance(error, OSError) and error.errno in _SQLITE_CODES:
        code, text = _SQLITE_CODES[error.errno], error.strerror or text
    is_garbled = isinstance(error, UnicodeDecodeError) or text.startswith(_GARBLED)
    if is_garbled or code in _DAMAGED:
        return DatabaseDamaged(f"the database in {folder} is damaged: {text}")
    if code == sqlite3.SQLITE_ERROR and ("no such table" in text or "no such column" in text):
        return DatabaseDamaged(f"the database in {folder} has lost its tables")
    for codes, advice in _ADVICE:
        if code in codes:
            return SpoolUnwritable(f"{folder}: {text}; {advice}")
    return SpoolUnwritable(f"{folder} cannot be used: {text or type(error).__name__}")


def _takes_no_files(folder: Path) -> bool:
    """Whether the disk has no room for the name of another file: SQLite says only that it cannot open one."""
    try:
        disk = os.statvfs(folder)
    except OSError:
        return False
    return not disk.f_bavail or (disk.f_files > 0 and not disk.f_favail)


# What SQLite and its driver say of damage for which they have no code.
_GARBLED = ("Could not decode", "unsupported file format")

# Our statements break no constraint, unless rows are there that should not be.
_DAMAGED = {sqlite3.SQLITE_CORRUPT, sqlite3.SQLITE_NOTADB, sqlite3.SQLITE_CONSTRAINT}

# The system's refusals as SQLite's, so that the same fault is told in the same words.
_SQLITE_CODES = {
    errno.ENOSPC: sqlite3.SQLITE_FULL,
    errno.EDQUOT: sqlite3.SQLITE_FULL,
    errno.EROFS: sqlite3.SQLITE_READONLY,
    errno.EACCES: sqlite3.SQLITE_PERM,
    errno.EPERM: sqlite3.SQLITE_PERM,
    errno.EIO: sqlite3.SQLITE_IOERR,
}
_ADVICE: tuple[tuple[set[int], str], ...] = (
    ({sqlite3.SQLITE_FULL}, "free some space on this disk and try again"),
    (
        {sqlite3.SQLITE_READONLY, sqlite3.SQLITE_PERM, sqlite3.SQLITE_CANTOPEN},
        "let this user write to the folder, or choose another one with HOLDFAST_DATA_DIR",
    ),
    (
        {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED},
        f"another process has held it for more than {LOCK_TIMEOUT_S} s; see whether one hangs",
    ),
    ({sqlite3.SQLITE_IOERR}, "check the disk: it may be full, read-only or failing"),
)
