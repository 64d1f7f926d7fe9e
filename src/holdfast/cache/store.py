"""A folder of sealed rows: each value is stored behind a digest of its key and its bytes.

So a flipped bit is found when it is read. Some of what is needed has no public call in diskcache 5.6: many
rows in one statement, keys without their values, large values without copies. For these the table is spoken
to directly; the version is pinned, and the table's shape is stored in every file that it wrote.
"""

import os
import shutil
import sqlite3
import threading
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path

from holdfast.cache.database import DATABASE, FAILURES, Database, cause_of, open_database
from holdfast.disk import (
    SEAL_BYTES,
    DatabaseDamaged,
    RowDamaged,
    StoreMoved,
    check_seal,
    digest_of,
    make_private_folder,
    part_when_forked,
    seal,
    sync_folder,
    translate,
    unseal,
)
from holdfast.errors import DiskFailed, SpoolError, SpoolUnwritable

_Row = tuple[str, object, object, object, int]

_CHUNK = 500
_LAST_CHARACTER = "\U0010ffff"

# SQLite and its driver copy a value thrice on its way; a value beyond this is read and written in place.
_LARGE_BYTES = 1024**2
_IS_LARGE = f"typeof(value) = 'blob' AND length(value) > {_LARGE_BYTES}"
_ROW = f"key, mode, filename, CASE WHEN {_IS_LARGE} THEN NULL ELSE value END, {_IS_LARGE}"

_SELECT = f"SELECT {_ROW} FROM Cache WHERE raw = 1 AND key IN ({{}})"  # noqa: S608 (constants alone)
_SELECT_KEYS = "SELECT key FROM Cache WHERE key >= ? AND key < ? AND raw = 1 ORDER BY key LIMIT ?"
_SELECT_ITEMS = f"SELECT {_ROW} FROM Cache WHERE key > ? AND key < ? AND raw = 1 ORDER BY key LIMIT ?"  # noqa: S608
_SELECT_ROWID = "SELECT rowid FROM Cache WHERE key = ? AND raw = 1"
_UPSERT = (
    "INSERT INTO Cache (key, raw, store_time, access_time, mode, value) VALUES (?, 1, 0, 0, 1, ?)"
    " ON CONFLICT (key, raw) DO UPDATE"
    " SET expire_time = NULL, tag = NULL, size = 0, mode = 1, filename = NULL, value = excluded.value"
)
_MAKE_ROOM = "UPDATE Cache SET value = zeroblob(?) WHERE key = ? AND raw = 1"
_DELETE = "DELETE FROM Cache WHERE key = ? AND raw = 1"


class Store:
    """Sealed rows: bytes by text key. Made by `open_store`; safe for use by threads and processes.

    Every method raises SpoolUnwritable when the disk does not take a write, DatabaseDamaged when the
    file cannot be trusted, RowDamaged when a row cannot, and StoreMoved when the file was replaced.
    """

    def __init__(self, folder: Path, database: Database, *, is_bounded: bool) -> None:
        self.folder = folder
        self._database = database
        self._is_bounded = is_bounded
        # Threads of one process wait here, in turn; SQLite's own waiting sleeps in growing steps.
        self._lock = threading.RLock()
        self._failure: str | None = None
        self._writer: int | None = None
        self._refusal: SpoolError | None = None
        self._commits = 0
        self._path = str(folder / DATABASE)
        self._identity = self._identify()
        part_when_forked(self)

    def get(self, key: str) -> bytes | None:
        """Return what is stored under `key`, or None."""
        if not self._is_bounded:
            return self.get_many([key]).get(key)
        try:
            with self._lock, self._our_errors():
                sealed = self._database.get(key)
            return None if sealed is None else unseal(key, sealed)
        except RowDamaged:
            # A cache can do without it.
            self.delete(key)
            return None

    def version(self) -> tuple[int, ...]:
        """Return what changes whenever anyone, in this process or another, has stored something.

        Not every change of it means that: each thread has its own.
        """
        with self._our_errors():
            self._check_in_place()
            (version,) = self._sql("PRAGMA data_version").fetchone()
        return self._commits, self._database.connection_number, version

    def get_many(self, keys: Iterable[str]) -> dict[str, bytes]:
        """Return what is stored under each of `keys`; absent ones are left out."""
        wanted = list(keys)
        found: dict[str, bytes] = {}
        for start in range(0, len(wanted), _CHUNK):
            chunk = wanted[start : start + _CHUNK]
            with self._our_errors():
                if self._writer != threading.get_ident():
                    self._check_in_place()
                rows = self._sql(_SELECT.format(",".join("?" * len(chunk))), chunk).fetchall()
            found |= dict(self._open_rows(rows))
        return found

    def get_unchecked(self, key: str) -> bytes | None:
        """Return what is stored under `key` even if it does not match its digest, or None.

        For keeping damaged bytes, never for use. A pickle or a file is still refused.
        """
        found = self._read(key)
        return found[1] if found else None

    def keys(self, prefix: str, limit: int = -1) -> list[str]:
        """Return the keys that begin with `prefix`, sorted. No value is read."""
        with self._our_errors():
            self._check_in_place()
            rows = self._sql(_SELECT_KEYS, (prefix, prefix + _LAST_CHARACTER, limit)).fetchall()
        return [key for (key,) in rows]

    def items(self, prefix: str) -> Iterator[tuple[str, bytes]]:
        """Yield the rows whose key begins with `prefix`, sorted, without holding all of them in memory."""
        last = prefix
        while True:
            with self._our_errors():
                self._check_in_place()
                rows = self._sql(_SELECT_ITEMS, (last, prefix + _LAST_CHARACTER, _CHUNK)).fetchall()
            yield from self._open_rows(rows)
            if len(rows) < _CHUNK:
                return
            last = rows[-1][0]

    def set(self, key: str, value: bytes) -> None:
        """Store `value` under `key`, in place of what was there."""
        if not self._is_bounded:
            return self.set_many({key: value})
        with self._joined():
            is_large = len(value) > _LARGE_BYTES
            self._database.set(key, b"" if is_large else seal(key, value))
            if is_large:
                self._write_large(key, value)
        return None

    def set_many(self, values: Mapping[str, bytes], digests: Mapping[str, bytes] | None = None) -> None:
        """Store all of `values`, or none of them. `digests` spares the hashing of values that were hashed."""
        digests = digests or {}
        large = [key for key, value in values.items() if len(value) > _LARGE_BYTES]
        rows = [
            (key, b"" if key in large else seal(key, value, digests.get(key)))
            for key, value in values.items()
        ]
        if not large:
            self._write(_UPSERT, rows)
            return
        with self._joined():
            self._write(_UPSERT, rows)
            for key in large:
                self._write_large(key, values[key], digests.get(key))

    def delete(self, *keys: str) -> None:
        """Remove the rows of all `keys`, or none; absent ones are passed over."""
        self._write(_DELETE, [(key,) for key in keys])

    def transact(self) -> AbstractContextManager[None]:
        """Hold the write lock: what is written inside is stored together at the end, or not at all.

        When it has ended, the disk has confirmed it (a durable store) and the file is still in its place.
        Not to be nested.
        """
        return _Transaction(self)

    @contextmanager
    def rehearse(self, refusal: SpoolError) -> Iterator[None]:
        """Hold the write lock: what is written inside is seen inside, and never stored.

        A transaction inside raises `refusal`.
        """
        with self._lock, self._our_errors():
            # What is not committed stays in memory, so that this needs no room on the disk.
            self._sql("PRAGMA cache_spill = 0")
            try:
                self._begin()
                try:
                    self._refusal = refusal
                    yield
                finally:
                    self._refusal = None
                    self._end(is_whole=False)
            finally:
                self._sql("PRAGMA cache_spill = 1")

    def is_in_place(self) -> bool:
        """Tell whether the database in the folder is still the one that was opened."""
        return self._identity is not None and self._identify() == self._identity

    def close(self) -> None:
        """Close the connections of all threads; none of them may be at work."""
        self._failure = "it was closed"
        with self._our_errors():
            self._database.close_all()

    def part(self) -> None:
        """Let go of the lock, which a thread of the parent may have held when this process was forked."""
        self._lock = threading.RLock()
        self._writer = self._database._txn_id = self._refusal = None  # noqa: SLF001

    def _write(self, statement: str, rows: Iterable[tuple[object, ...]]) -> None:
        with self._joined():
            self._database._con.executemany(statement, rows)  # noqa: SLF001

    def _joined(self) -> AbstractContextManager[None]:
        """Return the transaction that this thread is in, or one of its own."""
        return nullcontext() if self._writer == threading.get_ident() else self.transact()

    def _write_large(self, key: str, value: bytes, digest: bytes | None = None) -> None:
        """Fill in the value of a row that is there, without a copy of it in memory."""
        self._sql(_MAKE_ROOM, (SEAL_BYTES + len(value), key))
        with self._open_large(key, is_readonly=False) as blob:
            blob.write(seal(key, b"", digest or digest_of(value)))
            blob.write(value)

    def _read(self, key: str) -> tuple[bytes, bytes] | None:
        """Return a value, and before it what it is sealed with, as they are; None if there is none."""
        connection = self._database._con  # noqa: SLF001
        is_alone = not connection.in_transaction
        with self._our_errors():
            if is_alone:
                # The row must not become another one between the two looks at it.
                connection.execute("BEGIN")
            try:
                row = self._sql(_SELECT.format("?"), [key]).fetchone()
                if row is None:
                    return None
                sealed = self._fetch(*row)
                if not row[-1]:
                    return sealed[:SEAL_BYTES], sealed[SEAL_BYTES:]
                with self._open_large(key, is_readonly=True) as blob:
                    return blob.read(SEAL_BYTES), blob.read()
            finally:
                if is_alone:
                    connection.rollback()

    def _open_large(self, key: str, *, is_readonly: bool) -> sqlite3.Blob:
        (rowid,) = self._sql(_SELECT_ROWID, (key,)).fetchone()
        connection = self._database._con  # noqa: SLF001
        return connection.blobopen("Cache", "value", rowid, readonly=is_readonly)

    def _sql(self, statement: str, values: Sequence[object] = ()) -> sqlite3.Cursor:
        cursor: sqlite3.Cursor = self._database._con.execute(statement, values)  # noqa: SLF001
        return cursor

    def _open_rows(self, rows: Iterable[_Row]) -> Iterator[tuple[str, bytes]]:
        for row in rows:
            key, *_, is_large = row
            sealed = self._fetch(*row)
            if not is_large:
                yield key, unseal(key, sealed)
            elif found := self._read(key):
                check_seal(key, *found)
                yield key, found[1]

    def _fetch(self, key: str, mode: object, filename: object, value: object, is_large: int) -> bytes:
        """Return the bytes of a row, none of a large one. Raises RowDamaged if it holds something else."""
        try:
            sealed: bytes = self._database.disk.fetch(mode, filename, b"" if is_large else value, False)
        except RowDamaged as error:
            raise RowDamaged(key, str(error).partition("damaged: ")[2]) from None
        return sealed

    def _identify(self) -> tuple[int, int] | None:
        try:
            stat = os.stat(self._path)  # noqa: PTH116 (half the time of Path.stat, on every put)
        except OSError:
            return None
        return stat.st_dev, stat.st_ino

    def _check_in_place(self) -> None:
        if not self.is_in_place():
            raise self._moved()

    def _moved(self) -> StoreMoved:
        return StoreMoved(f"the database in {self.folder} was replaced")

    def _begin(self) -> None:
        if self._refusal:
            raise self._refusal
        if self._failure:
            raise SpoolUnwritable(f"{self.folder} takes nothing more: {self._failure}")
        self._sql("BEGIN IMMEDIATE")
        # diskcache's own methods join a transaction of this thread.
        self._writer = self._database._txn_id = threading.get_ident()  # noqa: SLF001

    def _end(self, *, is_whole: bool) -> None:
        self._writer = self._database._txn_id = None  # noqa: SLF001
        if not is_whole:
            self._abandon()
            return
        try:
            if self._is_bounded:
                self._database.make_room()
            self._sql("COMMIT")
        except BaseException:
            self._abandon()
            raise
        self._commits += 1
        self._check_in_place()

    def _abandon(self) -> None:
        """Leave no transaction open, not even after a commit that failed."""
        connection = self._database._con  # noqa: SLF001
        try:
            if connection.in_transaction:
                connection.rollback()
        except sqlite3.Error:
            self._database.close()

    def _our_errors(self) -> "_OurErrors":
        return _OurErrors(self)

    def _explain(self, error: BaseException) -> SpoolError:
        cause = cause_of(error)
        if _is_failed_sync(cause):
            # Linux forgets what a failed fsync did not write: a second one would succeed and lie.
            self._failure = "the disk failed to confirm a write; check the disk, then start Holdfast again"
            return DiskFailed(str(translate(cause, self.folder)))
        return translate(cause, self.folder) if self.is_in_place() else self._moved()


class _Transaction(AbstractContextManager[None]):
    """The time between BEGIN and COMMIT, for one thread at a time.

    diskcache's own leaves the transaction open when the commit fails, and names no cause when the
    beginning does.
    """

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        store = self._store
        store._lock.acquire()  # noqa: SLF001
        try:
            with store._our_errors():  # noqa: SLF001
                store._begin()  # noqa: SLF001
        except BaseException:
            store._lock.release()  # noqa: SLF001
            raise

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        store = self._store
        try:
            with store._our_errors():  # noqa: SLF001
                store._end(is_whole=error is None)  # noqa: SLF001
                if error is not None:
                    raise error
        finally:
            store._lock.release()  # noqa: SLF001


class _OurErrors:
    """Turns the errors of diskcache, SQLite and the system into ours; a class, as every put pays for it."""

    __slots__ = ("_store",)

    def __init__(self, store: Store) -> None:
        self._store = store

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, FAILURES):
            raise self._store._explain(error) from error  # noqa: SLF001


def open_store(folder: Path, *, is_durable: bool, max_bytes: int | None = None) -> Store:
    """Open the store in `folder`, which is made, for this user alone, if it is missing.

    A durable store confirms a write only once the disk has it, and evicts nothing. With `max_bytes` the
    store is a cache: what was not read for the longest time makes room. A cache that turns out to be
    damaged is emptied. Raises SpoolUnwritable, and DatabaseDamaged for a durable store.
    """
    try:
        make_private_folder(folder)
        return _open(folder, is_durable=is_durable, max_bytes=max_bytes)
    except DatabaseDamaged:
        if is_durable:
            raise
        shutil.rmtree(folder)
        return open_store(folder, is_durable=is_durable, max_bytes=max_bytes)


def _open(folder: Path, *, is_durable: bool, max_bytes: int | None) -> Store:
    if os.path.expandvars(os.path.expanduser(folder)) != str(folder):  # noqa: PTH111 (as diskcache does)
        raise SpoolUnwritable(f"{folder} cannot be used: its path contains a variable; choose another folder")
    try:
        is_new = not (folder / DATABASE).exists()
        database = open_database(folder, is_durable=is_durable, max_bytes=max_bytes)
        if is_new:
            sync_folder(folder)
    except FAILURES as error:
        raise translate(cause_of(error), folder) from error
    return Store(folder, database, is_bounded=max_bytes is not None)


def _is_failed_sync(error: BaseException) -> bool:
    code = getattr(error, "sqlite_errorcode", 0)
    return code in {sqlite3.SQLITE_IOERR_FSYNC, sqlite3.SQLITE_IOERR_DIR_FSYNC}
