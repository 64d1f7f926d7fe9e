"""The queue's folder: its database, its locks, and what happens when the database is damaged.

    queue/              the database
    damaged-<time>/     a damaged database, kept as it was found, with a report beside it
    open.lock           held while the database is opened or salvaged
    drainer.lock        held by the one process that drains

A damaged database is moved away first and read afterwards: whoever still commits into it sees, on
checking after the commit, that the file has moved, and commits again into the new one. So nothing
that was acknowledged can fall between the two. It is read when nobody commits into it any more.

The new database has a name of its own: SQLite deletes the log of a file by its name when the last connection
closes, and one that was closing while the folder was moved would delete the log of the new file.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.disk import (
    LOCK_TIMEOUT_S,
    DatabaseDamaged,
    StoreMoved,
    confirm_folder,
    make_private_folder,
    part_when_forked,
    translate,
)
from holdfast.errors import SpoolUnwritable
from holdfast.format.paths import Layout
from holdfast.locks import locked, writers_kept_out
from holdfast.logs import log
from holdfast.queue import earlier_format, tables
from holdfast.queue.salvage import REPORT, Salvage, SalvageReport
from holdfast.queue.sqlite_file import SqliteFile, Work, connected, read_once
from holdfast.queue.sqlite_pages import PAGE_BYTES
from holdfast.queue.tables import check_waiting

T = TypeVar("T")

DATABASE = "queue.db"

_QUEUE = "queue"
_SALVAGED = "salvaged"
_MAKING = "making.db"
_DAMAGED = "damaged-"
_OPEN_TIMEOUT_S = 60
_TRIES = 3


class _ThreadState(threading.local):
    """What one thread is doing, whichever queue it does it to."""

    is_opening = False


_thread = _ThreadState()


class QueueFolder:
    """The folder of one queue, and the file in it: opened anew when replaced, salvaged when damaged."""

    def __init__(self, path: Path, *, clock: Clock, layout: Layout) -> None:
        self.path = path
        self._clock = clock
        self._layout = layout
        self._mutex = threading.Lock()
        with _opening_once():
            self._file = self._open()
        part_when_forked(self)

    def part(self) -> None:
        """Let go of the lock, which a thread of the parent may have held when this process was forked."""
        self._mutex = threading.Lock()

    @classmethod
    def open(cls, path: Path, *, clock: Clock, layout: Layout) -> "QueueFolder":
        """Open the queue in the folder `path`, made if it is missing. Raises SpoolUnwritable, SpoolBusy."""
        make_private_folder(path)
        return cls(path, clock=clock, layout=layout)

    def change(self, work: Work[T]) -> T:
        """Return what `work` does in one transaction, done again if the file had to be replaced meanwhile."""
        return self._use(lambda file: file.change(work))

    def look(self, work: Work[T]) -> T:
        """Return what `work` reads, read again if the file had to be replaced meanwhile."""
        return self._use(lambda file: file.look(work))

    def write_back(self) -> None:
        """Write the log back to the file, beside the commits."""
        self._use(lambda file: file.write_back())

    def compact(self) -> None:
        """Give the space of deleted rows back to the disk."""
        self._use(lambda file: file.compact())

    @contextmanager
    def drainer(self) -> Iterator[None]:
        """Hold the one place of the drainer. Raises SpoolBusy."""
        holder = self.path / "drainer.pid"
        with locked(self.path / "drainer.lock", timeout_s=0, busy=lambda: _describe(holder)):
            with self._our_errors():
                holder.write_text(str(os.getpid()))
            yield

    def close(self) -> None:
        """Close the database."""
        self._file.close()

    def _use(self, use: Callable[[SqliteFile], T]) -> T:
        for _ in range(_TRIES):
            file = self._file
            try:
                return use(file)
            except StoreMoved:
                self._replace(file, is_damaged=False)
            except DatabaseDamaged as error:
                log.warning("spool_damage_found", folder=str(self.path), reason=str(error))
                self._replace(file, is_damaged=True)
        return use(self._file)

    def _replace(self, old: SqliteFile, *, is_damaged: bool) -> None:
        with _opening_once(), self._mutex:
            if self._file is old:
                new = self._open(damaged=old if is_damaged else None)
                new.failure = old.failure
                self._file = new
                old.close()

    def _open(self, damaged: SqliteFile | None = None) -> SqliteFile:
        """Open the database; `damaged` is moved away and salvaged first, unless someone else has done so."""
        lock = locked(self.path / "open.lock", timeout_s=_OPEN_TIMEOUT_S, busy=_describe_opening)
        with lock, self._our_errors():
            earlier = earlier_format.find(self.path)
            self._finish_salvage()
            if (damaged and damaged.is_in_place()) or _has_lost_its_head(self.path / _QUEUE):
                self._salvage()
            try:
                file = self._open_checked()
            except DatabaseDamaged as error:
                log.warning("spool_damage_found", folder=str(self.path), reason=str(error))
                self._salvage()
                file = self._open_checked()
            if earlier:
                file.change(earlier.write_to)
                earlier.discard()
            return file

    def _open_checked(self) -> SqliteFile:
        """Open the database, or make it, and count its items, so that damage among them shows now."""
        make_private_folder(self.path / _QUEUE)
        with self._our_errors():
            path = make_database(find_database(self.path / _QUEUE))
        # Whoever made or replaced it may have died, or failed, before the disk confirmed its name.
        confirm_folder(self.path / _QUEUE)
        confirm_folder(self.path)
        file = SqliteFile(path)
        try:
            file.look(check_waiting)
        except BaseException:
            file.close()
            raise
        return file

    def _salvage(self) -> None:
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        taken = len(list(self.path.glob(f"{_DAMAGED}{stamp}*")))
        damaged = self.path / f"{_DAMAGED}{stamp}{f'-{taken}' if taken else ''}"
        for earlier in self._unreported():
            # It was replaced before its process died. Nothing else tells it from this one, as clocks are set.
            SalvageReport.leave_unwritten(earlier)
        (self.path / _QUEUE).rename(damaged)
        confirm_folder(self.path)
        self._finish_salvage()

    def _finish_salvage(self) -> None:
        """Salvage what was moved away and is not replaced yet, perhaps by a process that was killed."""
        queue, salvaged = self.path / _QUEUE, self.path / _SALVAGED
        unreported = self._unreported()
        if queue.exists() or not unreported:
            return
        damaged = max(unreported)
        old = find_database(damaged)
        shutil.rmtree(salvaged, ignore_errors=True)
        make_private_folder(salvaged)
        new = make_database(salvaged / f"queue-{damaged.name.removeprefix(_DAMAGED)}.db")
        shm = old.with_name(f"{old.name}-shm")
        with (
            writers_kept_out(shm, timeout_s=LOCK_TIMEOUT_S, busy=_describe_writing),
            connected(new) as database,
        ):
            salvage = Salvage(old, self._layout, self._clock.now())
            # A log would hold all of it a second time, and there is nothing that it could undo.
            database.execute("pragma journal_mode = delete")
            database.execute("begin")
            salvage.write_to(database)
            database.execute("commit")
            database.execute("pragma journal_mode = wal")
        salvaged.rename(queue)
        confirm_folder(self.path)
        salvage.report.write_to(damaged)
        log.warning("spool_salvaged", kept_in=str(damaged), **salvage.report.numbers())

    def _unreported(self) -> list[Path]:
        return [each for each in self.path.glob(f"{_DAMAGED}*") if not (each / REPORT).exists()]

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except (OSError, sqlite3.Error, UnicodeDecodeError) as error:
            raise translate(error, self.path) from error


@contextmanager
def _opening_once() -> Iterator[None]:
    """Raise SpoolUnwritable in a signal handler that interrupts an opening: it would wait for itself."""
    if _thread.is_opening:
        raise SpoolUnwritable("this thread is just opening the spool; save again when it has done so")
    _thread.is_opening = True
    try:
        yield
    finally:
        _thread.is_opening = False


def find_database(folder: Path) -> Path:
    """Return the one database in `folder`, even if only its log is left; else what a first one is called."""
    for each in folder.glob("queue*.db*"):
        return folder / f"{each.name.partition('.db')[0]}.db"
    return folder / DATABASE


def make_database(path: Path) -> Path:
    """Make the database, unless it is there.

    Raises SpoolUnwritable for one of another format, DatabaseDamaged if format and tables do not agree.
    """
    if not path.exists():
        _make_new(path)
    elif not path.stat().st_size:
        raise DatabaseDamaged(f"the spool in {path.parent} is empty, and none is ever made so")
    if not read_once(path, lambda database: _is_laid_out(database, path)):
        with connected(path) as database:
            _lay_out(database)
        confirm_folder(path.parent)
    return path


def _is_laid_out(database: sqlite3.Connection, path: Path) -> bool:
    """Whether there are tables. Raises SpoolUnwritable, DatabaseDamaged if they are not as they should be."""
    (version,) = database.execute("pragma user_version").fetchone()
    are_ours = tables.are_ours(database)
    if are_ours != (version == tables.FORMAT):
        raise DatabaseDamaged(f"the spool has format {version} and tables that do not belong to it")
    if version not in (0, tables.FORMAT):
        raise SpoolUnwritable(
            f"the spool in {path.parent} has format {version}, and this Holdfast knows {tables.FORMAT}; "
            "use the version that wrote it"
        )
    if version == 0 and database.execute("select 1 from sqlite_master").fetchone():
        raise DatabaseDamaged(f"the spool in {path.parent} has lost its format")
    return bool(version)


def _make_new(path: Path) -> None:
    """Make the database under another name first: one that has its name is whole."""
    for left_over in path.parent.glob(f"{_MAKING}*"):
        left_over.unlink()
    making = path.with_name(_MAKING)
    # To close a file that SQLite has open would take SQLite's locks from this process; this one is new.
    os.close(os.open(making, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    with connected(making) as database:
        _lay_out(database)
    making.rename(path)
    confirm_folder(path.parent)


def _lay_out(database: sqlite3.Connection) -> None:
    database.execute(f"pragma page_size = {PAGE_BYTES}")
    database.execute("pragma journal_mode = wal")
    database.execute("pragma synchronous = full")
    database.execute("begin immediate")
    for statement in tables.SCHEMA:
        database.execute(statement)
    database.execute(f"pragma user_version = {tables.FORMAT}")
    database.execute("commit")


def _has_lost_its_head(queue: Path) -> bool:
    """Whether the file is empty while its log is not: SQLite would throw the log away."""
    database = find_database(queue)
    wal = database.with_name(f"{database.name}-wal")
    has_head = database.exists() and database.stat().st_size > 0
    return not has_head and wal.exists() and wal.stat().st_size > 0


def _describe(holder: Path) -> str:
    try:
        who = f"process {int(holder.read_text())}"
    except (OSError, ValueError):
        who = "another process"
    return f"{who} is draining this spool; stop it, or let it finish"


def _describe_writing() -> str:
    return f"a process has been writing to this spool for more than {LOCK_TIMEOUT_S} s; see whether it hangs"


def _describe_opening() -> str:
    return (
        f"another process keeps this spool from being opened since {_OPEN_TIMEOUT_S} s; see whether it hangs"
    )
