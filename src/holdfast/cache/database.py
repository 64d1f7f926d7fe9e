"""The one door to diskcache: its database, set up so that nothing is evicted unasked and nothing unpickled.

diskcache is written for caches. Its defaults evict, write large values to files that are never synced,
load pickles, and lose the newest commits in a power cut; here every one of them is set otherwise.
"""

import os
import sqlite3
import threading
import weakref
from collections.abc import Mapping
from itertools import count
from pathlib import Path
from typing import Any

import diskcache

from holdfast.disk import LOCK_TIMEOUT_S, RowDamaged

DATABASE = "cache.db"

FAILURES = (diskcache.Timeout, sqlite3.Error, OSError)
"""Whatever may come of using a database."""

_MODE_RAW = 1
_NEVER = 2**62
# A cache per connection, and there is one connection per thread: 4 MB each, not diskcache's 32.
_CACHE_SIZE_KIB = -4096

_connection_numbers = count()

_EVICT = "DELETE FROM Cache WHERE rowid = (SELECT rowid FROM Cache ORDER BY access_time LIMIT 1)"

_BOOKKEEPING = (
    "DROP INDEX IF EXISTS Cache_expire_time",
    "DROP TRIGGER IF EXISTS Settings_count_insert",
    "DROP TRIGGER IF EXISTS Settings_count_delete",
    "DROP TRIGGER IF EXISTS Settings_size_insert",
    "DROP TRIGGER IF EXISTS Settings_size_update",
    "DROP TRIGGER IF EXISTS Settings_size_delete",
)


class _BytesDisk(diskcache.Disk):  # type: ignore[misc]
    """Stores bytes under text, inside the database; refuses every other kind of row, unread."""

    def put(self, key: object) -> tuple[str, bool]:
        if type(key) is not str:
            raise TypeError(f"a key is text, not {type(key).__name__}")
        return key, True

    def get(self, key: object, raw: object) -> str:
        if not raw or type(key) is not str:
            raise RowDamaged(repr(key)[:40], "its key is not plain text, so Holdfast did not write it")
        return key

    def store(self, value: object, read: bool, key: object = None) -> tuple[int, int, None, memoryview]:  # noqa: ARG002
        if type(value) is not bytes:
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
        return 0, _MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, read: bool) -> bytes:  # noqa: ARG002
        if mode != _MODE_RAW or filename is not None or type(value) is not bytes:
            raise RowDamaged("?", "it is a pickle, a file or no bytes at all, so Holdfast did not write it")
        return value


class Database(diskcache.Cache):  # type: ignore[misc]
    """diskcache's Cache, with connections that obey our pragmas and can be closed from any thread.

    diskcache takes the pragmas of a new connection from a row of the database; here they are fixed,
    because a promise of durability must not hang on a stored row.
    """

    def __init__(self, folder: Path, pragmas: Mapping[str, int], **settings: object) -> None:
        self._path = folder / DATABASE
        self._closers: list[weakref.finalize[..., Any]] = []
        # diskcache stores its settings anew at every opening, in some thirty commits. None of them
        # needs a sync of its own: the first commit that follows syncs them all.
        self._pragmas: Mapping[str, int] = {**pragmas, "synchronous": 1}
        stored = {f"sqlite_{name}": value for name, value in self._pragmas.items()}
        # diskcache closes its connection once while it opens; each closing writes the whole log back.
        self._is_open = False
        super().__init__(str(folder), disk=_BytesDisk, timeout=LOCK_TIMEOUT_S, **stored, **settings)
        self._is_open = True
        if settings["eviction_policy"] == "none":
            self._drop_bookkeeping()
        self._pragmas = pragmas
        self._con.execute(f"PRAGMA synchronous = {pragmas['synchronous']}")
        self.reset("sqlite_synchronous", pragmas["synchronous"])

    def _drop_bookkeeping(self) -> None:
        """Drop what diskcache keeps for evicting: where nothing is evicted, it only slows writes down."""
        for statement in _BOOKKEEPING:
            self._con.execute(statement)

    @property
    def _con(self) -> sqlite3.Connection:
        if getattr(self._local, "pid", None) != os.getpid():
            self._local.pid, self._local.con = os.getpid(), None
        connection: sqlite3.Connection | None = getattr(self._local, "con", None)
        if connection is None:
            connection = self._local.con = self._connect()
            self._local.number = next(_connection_numbers)
        return connection

    @property
    def connection_number(self) -> int:
        """Return a number that no other connection of this process has had."""
        return int(self._local.number)

    def _connect(self) -> sqlite3.Connection:
        # Not diskcache's own timeout, which is 0 while it opens: another process may be opening just now,
        # or recovering the log of one that was killed.
        connection = sqlite3.connect(
            self._path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        try:
            for name, value in self._pragmas.items():
                connection.execute(f"PRAGMA {name} = {value}")
        except BaseException:
            connection.close()
            raise
        self._closers = [closer for closer in self._closers if closer.alive]
        # A thread that ends closes its connection; otherwise each would hold its files open for ever.
        self._local.closer = weakref.finalize(threading.current_thread(), connection.close)
        self._closers.append(self._local.closer)
        return connection

    def make_room(self) -> None:
        """Evict what was not read for longest until the rest is within the bound: the end of a transaction.

        diskcache's own culling looks at the size of the file, which shrinks with the commit alone: every
        further row of a transaction would evict ten more.
        """
        while self._used_bytes() > self.size_limit:
            if not self._con.execute(_EVICT).rowcount:
                return

    def _used_bytes(self) -> int:
        (pages,) = self._con.execute("PRAGMA page_count").fetchone()
        (free_pages,) = self._con.execute("PRAGMA freelist_count").fetchone()
        return int((pages - free_pages) * self._page_size)

    def close(self) -> None:
        """Close the connection of this thread."""
        if self._is_open and getattr(self._local, "con", None) is not None:
            self._local.con = None
            self._local.closer()

    def close_all(self) -> None:
        """Close the connections of all threads."""
        self._local.con = None
        for closer in self._closers:
            closer()


def open_database(folder: Path, *, is_durable: bool, max_bytes: int | None) -> Database:
    """Open the database in `folder`, or make it there. Raises one of FAILURES."""
    pragmas = {"synchronous": 2 if is_durable else 1, "cache_size": _CACHE_SIZE_KIB, "mmap_size": 0}
    return Database(
        folder,
        pragmas,
        eviction_policy="least-recently-used" if max_bytes else "none",
        cull_limit=0,
        size_limit=max_bytes or _NEVER,
        disk_min_file_size=_NEVER,
        # A bounded store must shrink to get below its bound; elsewhere that would only cost time.
        sqlite_auto_vacuum=1 if max_bytes else 0,
    )


def cause_of(error: BaseException) -> BaseException:
    """Return the error behind it: diskcache hides it behind a Timeout, or behind its failed rollback."""
    hides = isinstance(error, diskcache.Timeout) or "cannot rollback" in str(error)
    return error.__context__ if hides and error.__context__ else error
