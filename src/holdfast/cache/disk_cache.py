"""The one door to diskcache: a cache of bytes in one SQLite file, which loads no pickle."""

import os
import sqlite3
from collections.abc import Callable
from pathlib import Path

import diskcache

DATABASE = "cache.db"
LOCK_TIMEOUT_S = 2.0  # waiting longer costs more than asking GitHub

_MODE_RAW = 1
_NEVER = 2**62
_LAST_CHARACTER = "\U0010ffff"

_PRAGMAS = {
    "synchronous": 0,  # after a power cut the cache may be damaged; syncing would slow the queue down
    "auto_vacuum": 1,
    "journal_mode": "wal",
    "cache_size": -256,  # KiB for each connection, and each thread has one; the system caches the file
    "mmap_size": 0,  # a mapped file that someone else shortens ends the process
    "journal_size_limit": 4 * 1024**2,
}

# diskcache writes the time of each access into the text of its statement, which is never used again.
_STATEMENTS = 24

_SELECT_KEYS = "SELECT key FROM Cache WHERE raw = 1 AND typeof(key) = 'text' AND key >= ? AND key < ?"
_EVICT = "DELETE FROM Cache WHERE rowid = (SELECT rowid FROM Cache ORDER BY access_time LIMIT 1)"

_inherited: list[sqlite3.Connection] = []  # in a forked process: the connections of its parent


class _ConnectionCloser:
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
        """Return the bytes of a row, or none if it is of a kind that Holdfast does not write."""
        return value if mode == _MODE_RAW and filename is None and isinstance(value, bytes) else b""

    def remove(self, file_path: object) -> None:
        """Leave the file alone: only a row that Holdfast did not write names one."""


class DiskCache(diskcache.Cache):  # type: ignore[misc]
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
        # SQLite gives its log the same rights as the file.
        os.close(os.open(self._path, os.O_RDWR | os.O_CREAT, 0o600))
        self._path.chmod(0o600)
        super().__init__(
            str(folder),
            disk=_BytesDisk,
            eviction_policy="least-recently-used",
            cull_limit=0,
            # Values stay in the database: diskcache forgets the file of a write that failed, which is never
            # found again, and deletes whatever file a row names.
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
            self._path,
            timeout=LOCK_TIMEOUT_S,
            isolation_level=None,
            check_same_thread=False,
            cached_statements=_STATEMENTS,
        )
        self._local.closer = _ConnectionCloser(connection)
        for name, value in _PRAGMAS.items():
            connection.execute(f"PRAGMA {name} = {value}")
        return connection

    def close(self) -> None:
        """Keep the connection: diskcache closes it once while it opens, which writes the whole log back."""

    def drop_connection(self) -> None:
        """Close the connection of this thread; the next use makes another."""
        self._local.con = self._local.closer = None

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


def cause_of(error: Exception) -> BaseException:
    """Return the error behind it: diskcache hides it behind a Timeout, or behind its failed rollback."""
    hides = isinstance(error, diskcache.Timeout) or "cannot rollback" in str(error)
    return error.__context__ if hides and error.__context__ else error
