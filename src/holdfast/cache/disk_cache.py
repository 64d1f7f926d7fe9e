"""The one door to diskcache: bytes by name, kept while there is room, lost without harm.

Nothing that goes wrong here reaches the caller: what cannot be kept is not kept, what cannot be read is
absent, and a damaged cache is emptied and begun anew.
"""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import diskcache

from holdfast.logs import log

DATABASE = "cache.db"
LOCK_TIMEOUT_S = 2.0  # waiting longer costs more than asking GitHub
REST_S = 30.0  # how long a cache that is locked, or cannot be opened, is left alone

_DIGEST_BYTES = 32
_MODE_RAW = 1
_NEVER = 2**62
_LAST_CHARACTER = "\U0010ffff"

_PRAGMAS = {
    "auto_vacuum": 1,
    "journal_mode": "wal",
    "synchronous": 1,
    "cache_size": -2048,  # KiB for each connection, and each thread has one
    "mmap_size": 0,  # a mapped file that someone else shortens ends the process
    "journal_size_limit": 4 * 1024**2,
}

_SELECT_KEYS = "SELECT key FROM Cache WHERE raw = 1 AND typeof(key) = 'text' AND key >= ? AND key < ?"
_EVICT = "DELETE FROM Cache WHERE rowid = (SELECT rowid FROM Cache ORDER BY access_time LIMIT 1)"

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED}
_INCURABLE = _LOCKED | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}

ResultT = TypeVar("ResultT")

_inherited: list[sqlite3.Connection] = []


class DiskCache:
    """Bytes by name in `folder`, at most `max_bytes` of them; what was not used for longest makes room.

    Nothing is kept that would leave less than `min_free_bytes` free on the disk. No method raises. Threads
    and processes may share it, but a forked process goes without: SQLite's locks do not survive a fork.
    """

    def __init__(
        self,
        folder: Path,
        *,
        max_bytes: int,
        min_free_bytes: int = 0,
        now: Callable[[], float] = time.monotonic,
    ) -> None:
        self._folder = folder
        self._max_bytes = max_bytes
        self._min_free_bytes = min_free_bytes
        self._now = now
        self._resting_until = float("-inf")
        self._database: _Database | None = None
        self._pid = os.getpid()
        self._opening = threading.Lock()
        self._attempt(lambda _: None)

    def close(self) -> None:
        """Let go of the files. Nothing is kept or found from here on."""
        self._resting_until = float("inf")
        self._database = None  # a thread at work holds it until it is done

    def get(self, key: str) -> bytes | None:
        """Return what is kept under `key`, if anything."""
        return self.get_many([key]).get(key)

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return what is kept under each of `keys`; absent ones are left out."""

        def read(database: _Database) -> dict[str, bytes]:
            with database.transact():
                found = {key: _read(database, key) for key in keys}
            return {key: value for key, value in found.items() if value is not None}

        return self._attempt(read) or {}

    def set(self, key: str, value: bytes) -> bool:
        """Keep `value` under `key`, and return whether it is kept. If not, `key` is absent if possible."""
        return self.set_many({key: value})

    def set_many(self, values: Mapping[str, bytes]) -> bool:
        """Keep all of `values`, or none of them, and return whether they are kept."""

        def keep(database: _Database) -> bool:
            if not self._has_room(sum(map(len, values.values()))):
                for key in values:
                    database.delete(key)
                return False
            with database.transact():
                for key, value in values.items():
                    database.set(key, _digest(key, value) + value)
                database.make_room(self._max_bytes)
            return True

        return self._attempt(keep) or False

    def delete(self, key: str) -> bool:
        """Forget what is kept under `key`, and return whether it is forgotten."""

        def forget(database: _Database) -> bool:
            database.delete(key)
            return True

        return self._attempt(forget) or False

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`."""
        return self._attempt(lambda database: database.keys(prefix)) or []

    def _has_room(self, size_bytes: int) -> bool:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize - size_bytes >= self._min_free_bytes

    def _attempt(self, use: Callable[["_Database"], ResultT]) -> ResultT | None:
        """Return what `use` makes of the database, or None."""
        if os.getpid() != self._pid:
            return None
        database = self._database
        try:
            if database is None or not database.is_in_place():
                database = self._open()
            return None if database is None else use(database)
        except Exception as error:
            self._recover(database, error)
            return None

    def _open(self) -> "_Database | None":
        """Open the database anew, unless that failed a moment ago or another thread is at it."""
        if self._now() < self._resting_until or not self._opening.acquire(blocking=False):
            return None
        try:
            self._database = None
            try:
                self._database = _Database(self._folder)
            except Exception as error:
                if not _is_damage(error):
                    raise
                self._empty(error)
                self._database = _Database(self._folder)
        except Exception as error:
            self._resting_until = self._now() + REST_S
            log.warning("cache_not_opened", folder=str(self._folder), cause=_describe(error))
        finally:
            self._opening.release()
        return self._database

    def _recover(self, database: "_Database | None", error: Exception) -> None:
        """Leave nothing half done after `error`, and get rid of what is damaged."""
        if database is not None:
            with suppress(Exception):
                database.close()  # a transaction that could not be ended ends with its connection
        if not _is_damage(error):
            if _code_of(error) in _LOCKED:
                self._resting_until = self._now() + REST_S
                self._database = None
            log.debug("cache_not_used", cause=_describe(error))
        elif self._database is database:  # no other thread was quicker
            self._database = None
            self._empty(error)

    def _empty(self, error: Exception) -> None:
        log.warning("cache_emptied", folder=str(self._folder), cause=_describe(error))
        shutil.rmtree(self._folder, ignore_errors=True)


class _Lease:
    """Closes a connection when it is let go: with the end of its thread, or with the database.

    A connection alone would stay open until the garbage collector finds it. In a forked process it stays
    as it is: closing it would disturb the parent.
    """

    def __init__(self, connection: sqlite3.Connection) -> None:
        self._connection = connection
        self._pid = os.getpid()

    def __del__(self) -> None:
        if self._pid == os.getpid():
            self._connection.close()
        else:
            _inherited.append(self._connection)


class _BytesDisk(diskcache.Disk):  # type: ignore[misc]
    """Stores bytes under text, inside the database. Loads no pickle, and reads or deletes no file."""

    def put(self, key: object) -> tuple[str, bool]:
        if type(key) is not str:
            raise TypeError(f"a key is text, not {type(key).__name__}")
        return key, True

    def get(self, key: object, raw: object) -> str:
        if not raw or type(key) is not str:
            raise TypeError("a key that is not plain text, so Holdfast did not write it")
        return key

    def store(self, value: object, *_: object, **__: object) -> tuple[int, int, None, memoryview]:
        if type(value) is not bytes:
            raise TypeError(f"a value is bytes, not {type(value).__name__}")
        return 0, _MODE_RAW, None, sqlite3.Binary(value)

    def fetch(self, mode: object, filename: object, value: object, *_: object) -> bytes:
        """Return the bytes of a row; none of one that Holdfast did not write, which no digest matches."""
        is_ours = mode == _MODE_RAW and filename is None and type(value) is bytes
        return value if is_ours and isinstance(value, bytes) else b""

    def remove(self, file_path: object) -> None:
        """Leave the file alone: only a row that Holdfast did not write names one."""


class _Database(diskcache.Cache):  # type: ignore[misc]
    """diskcache's Cache with connections of our own. Every method may raise anything.

    diskcache's take their pragmas from a stored row, wait up to a minute for a lock while it opens, and
    stay open when their thread has ended.
    """

    def __init__(self, folder: Path) -> None:
        self._path = folder / DATABASE
        folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        folder.chmod(0o700)
        if os.path.expandvars(folder.expanduser()) != str(folder):  # as diskcache does
            raise OSError(f"{folder} contains a variable")
        super().__init__(
            str(folder),
            disk=_BytesDisk,
            eviction_policy="least-recently-used",
            cull_limit=0,
            disk_min_file_size=_NEVER,
            **{f"sqlite_{name}": value for name, value in _PRAGMAS.items()},
        )
        self._identity = self._identify()

    @property
    def _con(self) -> sqlite3.Connection:
        connection: sqlite3.Connection | None = getattr(self._local, "con", None)
        if connection is None:
            connection = self._local.con = self._connect()
        return connection

    @property
    def _sql_retry(self) -> Callable[..., sqlite3.Cursor]:
        return self._con.execute

    def _connect(self) -> sqlite3.Connection:
        connection = sqlite3.connect(
            self._path, timeout=LOCK_TIMEOUT_S, isolation_level=None, check_same_thread=False
        )
        self._local.lease = _Lease(connection)
        for name, value in _PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {value}")
        return connection

    def is_in_place(self) -> bool:
        """Whether the file in the folder is still the one that was opened."""
        try:
            return self._identify() == self._identity
        except FileNotFoundError:
            return False

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`."""
        return [key for (key,) in self._con.execute(_SELECT_KEYS, (prefix, prefix + _LAST_CHARACTER))]

    def make_room(self, max_bytes: int) -> None:
        """Evict what was not used for longest until the rest is within `max_bytes`: the end of a transaction.

        diskcache's own culling evicts ten rows at once, however large, and looks at the size of the file,
        which shrinks with the commit alone.
        """
        while self._used_bytes() > max_bytes:
            if not self._con.execute(_EVICT).rowcount:
                return

    def _used_bytes(self) -> int:
        (pages,) = self._con.execute("PRAGMA page_count").fetchone()
        (free_pages,) = self._con.execute("PRAGMA freelist_count").fetchone()
        return int((pages - free_pages) * self._page_size)

    def _identify(self) -> tuple[int, int]:
        status = self._path.stat()
        return status.st_dev, status.st_ino


def _read(database: _Database, key: str) -> bytes | None:
    """Return the value of `key` if its digest matches; a row that was damaged or planted is deleted."""
    row: bytes | None = database.get(key)
    if row is None:
        return None
    value = row[_DIGEST_BYTES:]
    if _digest(key, value) == row[:_DIGEST_BYTES]:
        return value
    database.delete(key)
    return None


def _digest(key: str, value: bytes) -> bytes:
    digest = sha256(f"{key}\n".encode())
    digest.update(value)
    return digest.digest()


def _is_damage(error: Exception) -> bool:
    """Whether a new, empty cache may be without `error`: anything but a lock, a full disk, a refusal."""
    cause = _cause_of(error)
    return not isinstance(cause, OSError | MemoryError) and _code_of(error) not in _INCURABLE


def _code_of(error: Exception) -> int:
    return getattr(_cause_of(error), "sqlite_errorcode", 0) & 0xFF


def _cause_of(error: Exception) -> BaseException:
    """Return the error behind it: diskcache hides it behind a Timeout, or behind its failed rollback."""
    hides = isinstance(error, diskcache.Timeout) or "cannot rollback" in str(error)
    return error.__context__ if hides and error.__context__ else error


def _describe(error: Exception) -> str:
    return repr(_cause_of(error))
