"""The one door to SQLite: connections, transactions that the disk has confirmed, and forks.

A process has two connections to a file, one that writes and one that reads, each used by one thread at a
time. SQLite must not be carried across a fork: the child would believe in locks that only its parent has, and
either could delete the log that the other writes to. So both are closed before every fork, and opened again
when they are next needed, on either side.
"""

import os
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, closing, contextmanager, suppress
from pathlib import Path
from typing import TypeVar
from urllib.parse import quote
from weakref import WeakSet

from holdfast.disk import (
    LOCK_TIMEOUT_S,
    NO_ROOM_TO_SHARE,
    UNCONFIRMED,
    DatabaseDamaged,
    StoreMoved,
    translate,
)
from holdfast.errors import DiskFailed, SpoolError, SpoolUnwritable
from holdfast.queue.sqlite_pages import PAGE_BYTES

T = TypeVar("T")
Work = Callable[[sqlite3.Connection], T]

_BEGIN, _BEGIN_WRITING, _COMMIT = "begin", "begin immediate", "commit"
_FAILED_SYNCS = {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}

# The log is written back to the file when it has this many pages, and some put pays for that: with 8 MB it is
# one in a hundred of 50 KB, with SQLite's own 4 MB one in fifty. To write over a log that was written back is
# quicker than to let it grow, so that more is no gain.
_LOG_PAGES = 8 * 1024**2 // PAGE_BYTES
_LOG_BYTES = 32 * 1024**2
_PRAGMAS = (
    "synchronous = full",
    f"wal_autocheckpoint = {_LOG_PAGES}",
    f"journal_size_limit = {_LOG_BYTES}",
    "cache_size = -4096",
    "mmap_size = 0",
    "temp_store = memory",
)

# Connections that their own thread was using at a fork. They are the parent's: never used, nor closed, here.
_inherited: list[sqlite3.Connection] = []
# Held where no fork may come between: while a SqliteFile is added, or a connection is open that is none's.
_no_fork = threading.RLock()


class SqliteFile:
    """An SQLite database that is there, in WAL mode; safe for use by threads and processes.

    Every method raises SpoolUnwritable when the disk does not take a write, DatabaseDamaged when the file
    cannot be trusted, and StoreMoved when it was replaced by another.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        self.failure: str | None = None
        self._end: str | None = None
        self._name = str(path)
        # Threads of one process wait here, in turn; SQLite's own waiting sleeps in growing steps.
        self._writing, self._reading = threading.RLock(), threading.RLock()
        self._is_writing = False
        self._writer: sqlite3.Connection | None = None
        self._reader: sqlite3.Connection | None = None
        self._identity = self._identify()
        with _no_fork:
            _files.add(self)

    def change(self, work: Work[T]) -> T:
        """Return what `work` returns. What it writes is stored together, or not at all if it raises.

        When this returns, the disk has confirmed it, and the file is still in its place.
        """
        return self._alone(lambda: self._commit(work))

    def look(self, work: Work[T]) -> T:
        """Return what `work` reads, all of it as of one moment."""
        with self._reading:
            try:
                self._check_in_place()
                # No fork comes between while we read: it would have to wait for this lock.
                return _read_somehow(self._read_shared, lambda: closing(_connect(self.path)), work)
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                raise self._explain(error) from error

    def write_back(self) -> None:
        """Write the log back to the file, as far as nobody needs it, while others may go on to commit.

        A commit then finds a short log, and need not do so itself.
        """
        self._check_open(self.failure)
        self._check_in_place()
        try:
            # A connection of its own: whoever reads or commits meanwhile need not wait for this.
            with connected(self.path) as connection:
                connection.execute("pragma wal_checkpoint(passive)").fetchall()
        except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
            raise self._explain(error) from error

    def compact(self) -> None:
        """Give the space of deleted rows back to the disk."""
        self._alone(self._vacuum)

    def is_in_place(self) -> bool:
        """Whether the file at the path is still the one that was opened."""
        return self._identity is not None and self._identify() == self._identity

    def close(self) -> None:
        """Close both connections, for good."""
        with self._writing, self._reading:
            self._end = "it was closed"
            self._disconnect()

    def before_fork(self) -> None:
        """Take the locks and close the connections, but for one that this very thread is using."""
        self._writing.acquire()
        self._reading.acquire()
        self._disconnect()

    def after_fork(self, *, is_child: bool) -> None:
        """Let the threads of this process go on."""
        if is_child and (self._writer or self._reader):
            # SQLite would take the parent's locks for ours, whatever connection we open.
            _inherited.extend(each for each in (self._writer, self._reader) if each)
            self._writer = self._reader = None
            self._end = "this process was forked amid a save, which is its parent's"
        self._reading.release()
        self._writing.release()

    def _alone(self, write: Callable[[], T]) -> T:
        """Return what `write` returns, while no other thread of this process writes."""
        with self._writing:
            if self._is_writing:
                # A signal handler of this very thread: it would wait for itself.
                raise SpoolUnwritable("this thread is just saving; save again when it has done so")
            self._check_in_place()
            self._check_open(self.failure)
            self._is_writing = True
            try:
                return write()
            except (sqlite3.Error, OSError, UnicodeDecodeError) as error:
                raise self._explain(error) from error
            finally:
                self._is_writing = False

    def _commit(self, work: Work[T]) -> T:
        connection = self._writer = self._writer or self._connect()
        try:
            connection.execute(_BEGIN_WRITING)
            result = work(connection)
            self._check_open()
            connection.execute(_COMMIT)
        except BaseException:
            self._undo(connection)
            raise
        self._check_in_place()
        return result

    def _read_shared(self, work: Work[T]) -> T:
        connection = self._reader = self._reader or self._connect()
        if connection.in_transaction:
            return work(connection)  # a signal handler of this thread, amid its other look
        connection.execute(_BEGIN)
        try:
            return work(connection)
        finally:
            self._undo(connection)

    def _vacuum(self) -> None:
        connection = self._writer = self._writer or self._connect()
        connection.execute("vacuum")
        connection.execute("pragma wal_checkpoint(truncate)")

    def _check_open(self, failure: str | None = None) -> None:
        if self._end or failure:
            raise SpoolUnwritable(f"{self.path.parent} takes nothing more: {self._end or failure}")

    def _undo(self, connection: sqlite3.Connection) -> None:
        """Leave no transaction open, not even after a commit that failed."""
        if connection in _inherited or not connection.in_transaction:
            return
        try:
            connection.rollback()
        except sqlite3.Error:
            _close(connection)
            if connection is self._writer:
                self._writer = None
            else:
                self._reader = None

    def _connect(self) -> sqlite3.Connection:
        self._check_open()
        connection = _connect(self.path)
        try:
            for pragma in _PRAGMAS:
                connection.execute(f"pragma {pragma}")
            self._check_in_place()
        except BaseException:
            connection.close()
            raise
        return connection

    def _disconnect(self) -> None:
        if self._writer and not self._is_writing:
            _close(self._writer)
            self._writer = None
        if self._reader and not self._reader.in_transaction:
            _close(self._reader)
            self._reader = None

    def _identify(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._name)  # noqa: PTH116 (half the time of Path.stat, on every put)
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def _check_in_place(self) -> None:
        if not self.is_in_place():
            raise StoreMoved(f"the database in {self.path.parent} was replaced")

    def _explain(self, error: BaseException) -> SpoolError:
        folder = self.path.parent
        if getattr(error, "sqlite_errorcode", 0) in _FAILED_SYNCS:
            # Linux forgets what a failed fsync did not write: a second one would succeed and lie.
            self.failure = UNCONFIRMED
            return DiskFailed(str(translate(error, folder)))
        if getattr(error, "sqlite_errorcode", 0) == sqlite3.SQLITE_READONLY and os.access(
            self._name, os.W_OK
        ):
            # Nobody forbids it but the file's own header, which says that a later SQLite has written it.
            return DatabaseDamaged(f"the database in {folder} is damaged: its header forbids writing to it")
        if self.is_in_place():
            return translate(error, folder)
        return StoreMoved(f"the database in {folder} was replaced")


@contextmanager
def connected(path: Path) -> Iterator[sqlite3.Connection]:
    """Open a database that exists, for a moment. Raises sqlite3.Error."""
    with _no_fork, closing(_connect(path)) as connection:
        yield connection


def read_once(path: Path, work: Work[T]) -> T:
    """Return what `work` reads of a database that exists, also on a full disk. Raises sqlite3.Error."""

    def read(work: Work[T]) -> T:
        with connected(path) as connection:
            return work(connection)

    return _read_somehow(read, lambda: connected(path), work)


def _read_somehow(
    read: Callable[[Work[T]], T],
    connect: Callable[[], AbstractContextManager[sqlite3.Connection]],
    work: Work[T],
) -> T:
    """Return what `read` gives for `work`; on a full disk, what the only one that has the file open reads.

    SQLite needs a file of 32 KB beside a database that several may use. Where there is no room for it, nobody
    has the database open, and one alone does without that file.
    """
    try:
        return read(work)
    except sqlite3.OperationalError as error:
        if getattr(error, "sqlite_errorcode", 0) != NO_ROOM_TO_SHARE:
            raise
    with connect() as connection:
        connection.execute("pragma locking_mode = exclusive")
        return work(connection)


def _connect(path: Path) -> sqlite3.Connection:
    return sqlite3.connect(
        f"file:{quote(str(path))}?mode=rw",
        uri=True,
        timeout=LOCK_TIMEOUT_S,
        isolation_level=None,
        check_same_thread=False,
    )


def _close(connection: sqlite3.Connection) -> None:
    with suppress(sqlite3.Error):
        connection.close()


_files: WeakSet[SqliteFile] = WeakSet()
_forking: list[SqliteFile] = []


def _before_fork() -> None:
    _no_fork.acquire()
    _forking.extend(_files)
    for file in _forking:
        file.before_fork()


def _after_fork(*, is_child: bool) -> None:
    for file in _forking:
        file.after_fork(is_child=is_child)
    _forking.clear()
    _no_fork.release()


os.register_at_fork(
    before=_before_fork,
    after_in_parent=lambda: _after_fork(is_child=False),
    after_in_child=lambda: _after_fork(is_child=True),
)
