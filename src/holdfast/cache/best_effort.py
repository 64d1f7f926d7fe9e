"""Bytes by name, kept as far as that is possible.

Nothing that goes wrong here reaches the caller: what cannot be kept is not kept, what cannot be read is
absent, and a damaged cache is emptied and begun anew.
"""

import os
import shutil
import sqlite3
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from hashlib import blake2b
from pathlib import Path
from typing import TypeVar

from holdfast.cache.disk_cache import DiskCache, cause_of
from holdfast.logs import log

REST_S = 30.0  # how long a cache that is locked, or cannot be opened, is left alone

_LOCKED = {sqlite3.SQLITE_BUSY, sqlite3.SQLITE_LOCKED, sqlite3.SQLITE_PROTOCOL}
# What a new, empty cache would meet as well.
_INCURABLE = _LOCKED | {
    sqlite3.SQLITE_FULL,
    sqlite3.SQLITE_READONLY,
    sqlite3.SQLITE_CANTOPEN,
    sqlite3.SQLITE_PERM,
    sqlite3.SQLITE_NOMEM,
}

ResultT = TypeVar("ResultT")


class BestEffortCache:
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
        self._database: DiskCache | None = None
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

        def read(database: DiskCache) -> dict[str, bytes]:
            with database.transact():
                rows = {key: database.get(key, tag=True) for key in keys}
            found: dict[str, bytes] = {}
            for key, (value, digest) in rows.items():
                if value is None:
                    continue
                if digest == _digest(key, value):
                    found[key] = value
                else:  # damaged, or not written by Holdfast
                    database.delete(key)
            return found

        return self._attempt(read) or {}

    def set(self, key: str, value: bytes) -> bool:
        """Keep `value` under `key`, and return whether it is kept; if not, an earlier one may be."""
        return self.set_many({key: value})

    def set_many(self, values: Mapping[str, bytes]) -> bool:
        """Keep all of `values`, or none of them, and return whether they are kept."""

        def keep(database: DiskCache) -> bool:
            if not self._has_room(sum(map(len, values.values()))):
                return False
            digests = {key: _digest(key, value) for key, value in values.items()}
            with database.transact():
                for key, value in values.items():
                    database.set(key, value, tag=digests[key])
                database.make_room(self._max_bytes)
            return True

        return self._attempt(keep) or False

    def delete(self, key: str) -> bool:
        """Forget what is kept under `key`, and return whether it is forgotten."""

        def forget(database: DiskCache) -> bool:
            database.delete(key)
            return True

        return self._attempt(forget) or False

    def keys(self, prefix: str) -> list[str]:
        """Return the keys that begin with `prefix`."""
        return self._attempt(lambda database: database.keys(prefix)) or []

    def empty(self) -> None:
        """Delete the files with all that is in them, freed pages included; the next use begins anew."""
        if os.getpid() == self._pid:
            shutil.rmtree(self._folder, ignore_errors=True)

    def _has_room(self, size_bytes: int) -> bool:
        disk = os.statvfs(self._folder)
        return disk.f_bavail * disk.f_frsize - size_bytes >= self._min_free_bytes

    def _attempt(self, use: Callable[[DiskCache], ResultT]) -> ResultT | None:
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

    def _open(self) -> DiskCache | None:
        """Open the database anew, unless that failed a moment ago or another thread is at it."""
        if self._now() < self._resting_until or not self._opening.acquire(blocking=False):
            return None
        try:
            self._database = None
            try:
                self._database = DiskCache(self._folder)
            except Exception as error:
                if not _is_damage(error):
                    raise
                self._empty(error)
                self._database = DiskCache(self._folder)
        except Exception as error:
            self._resting_until = self._now() + REST_S
            log.warning("cache_not_opened", folder=str(self._folder), cause=_describe(error))
        finally:
            self._opening.release()
        return self._database

    def _recover(self, database: DiskCache | None, error: Exception) -> None:
        """Leave nothing half done after `error`, and get rid of what is damaged."""
        if database is not None:
            database.drop_connection()  # and with it a transaction that could not be ended
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


def _digest(key: str, value: bytes) -> str:
    # A processor that has no instruction for it takes three times as long for sha256.
    digest = blake2b(f"{key}\n".encode(), digest_size=32)
    digest.update(value)
    return digest.hexdigest()


def _is_damage(error: Exception) -> bool:
    """Whether emptying the cache may help: after anything but a lock, a full disk or a refusal."""
    cause = cause_of(error)
    return not isinstance(cause, OSError | MemoryError) and _code_of(error) not in _INCURABLE


def _code_of(error: Exception) -> int:
    return getattr(cause_of(error), "sqlite_errorcode", 0) & 0xFF


def _describe(error: Exception) -> str:
    return repr(cause_of(error))
