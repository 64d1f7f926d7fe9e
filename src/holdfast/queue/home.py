"""The spool's folder: its database, its locks, and what happens when the database is damaged.

    queue/              the database
    journal             what was accepted and is not in the database yet
    damaged-<time>/     a damaged database, kept as it was found, with a report beside it
    open.lock           held while the database is opened or salvaged
    drainer.lock        held by the one process that drains

A damaged database is moved away first and read afterwards: whoever still commits into it sees, on
checking after the commit, that the file has moved, and commits again into the new one. So nothing
that was acknowledged can fall between the two.
"""

import os
import shutil
import threading
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import TypeVar

from filelock import FileLock, Timeout

from holdfast.cache.database import DATABASE
from holdfast.cache.store import Store, open_store
from holdfast.clock import Clock
from holdfast.disk import (
    DatabaseDamaged,
    RowDamaged,
    StoreMoved,
    make_private_folder,
    sync_folder,
    translate,
)
from holdfast.errors import SpoolBusy, SpoolError, SpoolUnwritable
from holdfast.format.paths import Layout
from holdfast.logs import log
from holdfast.queue import keys
from holdfast.queue.journal import Journal
from holdfast.queue.salvage import REPORT, salvage

T = TypeVar("T")

_QUEUE = "queue"
_SALVAGED = "salvaged"
_DAMAGED = "damaged-"
_OPEN_TIMEOUT_S = 60
_TRIES = 3
_FORMAT = b"2"
# The first format had no journal.
_OLDER_FORMAT = b"1"


class Home:
    """The folder of one spool, and the store in it: reopened when it was replaced, salvaged when damaged."""

    def __init__(self, folder: Path, *, clock: Clock, layout: Layout) -> None:
        self.folder = folder
        self._clock = clock
        self._layout = layout
        self._mutex = threading.Lock()
        self._store = self._open()

    @classmethod
    def open(cls, folder: Path, *, clock: Clock, layout: Layout) -> "Home":
        """Open the spool in `folder`, which is made if it is missing. Raises SpoolUnwritable, SpoolBusy."""
        make_private_folder(folder)
        return cls(folder, clock=clock, layout=layout)

    def use(self, work: Callable[[Store], T]) -> T:
        """Return what `work` does with the store, done again if the store had to be replaced meanwhile."""
        for _ in range(_TRIES):
            store = self._store
            try:
                return work(store)
            except StoreMoved:
                self._replace(store, is_damaged=False)
            except (DatabaseDamaged, RowDamaged) as error:
                log.warning("spool_damage_found", folder=str(self.folder), reason=str(error))
                self._replace(store, is_damaged=True)
        return work(self._store)

    @contextmanager
    def drainer(self) -> Iterator[None]:
        """Hold the one place of the drainer. Raises SpoolBusy."""
        holder = self.folder / "drainer.pid"
        with self._locked("drainer.lock", timeout_s=0, busy=lambda: _describe(holder)):
            with self._our_errors():
                holder.write_text(str(os.getpid()))
            yield

    def close(self) -> None:
        """Close the database."""
        self._store.close()

    def _replace(self, old: Store, *, is_damaged: bool) -> None:
        with self._mutex:
            if self._store is old:
                self._store = self._open(damaged=old if is_damaged else None)

    def _open(self, damaged: Store | None = None) -> Store:
        """Open the database; `damaged` is moved away and salvaged first, unless someone else has done so."""
        queue = self.folder / _QUEUE
        with self._locked("open.lock", timeout_s=_OPEN_TIMEOUT_S, busy=_describe_opening), self._our_errors():
            self._finish_salvage()
            if (damaged and damaged.is_in_place()) or _has_lost_its_head(queue):
                self._salvage()
            try:
                return _open_checked(queue)
            except DatabaseDamaged as error:
                log.warning("spool_damage_found", folder=str(self.folder), reason=str(error))
            self._salvage()
            return _open_checked(queue)

    def _salvage(self) -> None:
        stamp = datetime.fromtimestamp(self._clock.now(), UTC).strftime("%Y%m%dT%H%M%SZ")
        taken = len(list(self.folder.glob(f"{_DAMAGED}{stamp}*")))
        damaged = self.folder / f"{_DAMAGED}{stamp}{f'-{taken}' if taken else ''}"
        (self.folder / _QUEUE).rename(damaged)
        sync_folder(self.folder)
        self._finish_salvage()

    def _finish_salvage(self) -> None:
        """Salvage what was moved away and is not replaced yet, perhaps by a process that was killed."""
        queue, salvaged = self.folder / _QUEUE, self.folder / _SALVAGED
        if queue.exists():
            return
        unreported = [
            damaged for damaged in self.folder.glob(f"{_DAMAGED}*") if not (damaged / REPORT).exists()
        ]
        if not unreported:
            return
        # An earlier one without a report was replaced before its process died: only the newest is still due.
        damaged = max(unreported)
        shutil.rmtree(salvaged, ignore_errors=True)
        # Whoever absorbs the journal into the old file must have ended: what the file then says is absorbed
        # would be missing here if it were read before.
        with closing(Journal(self.folder)) as journal, journal.held():
            report = salvage(damaged, salvaged, layout=self._layout, now=self._clock.now())
        salvaged.rename(queue)
        sync_folder(self.folder)
        report.write_to(damaged)
        log.warning("spool_salvaged", kept_in=str(damaged), **report.numbers())

    @contextmanager
    def _locked(self, name: str, *, timeout_s: float, busy: Callable[[], str]) -> Iterator[None]:
        lock = FileLock(self.folder / name, timeout=timeout_s, thread_local=False)
        try:
            with self._our_errors():
                lock.acquire(poll_interval=0.01)
        except Timeout:
            raise SpoolBusy(busy()) from None
        try:
            yield
        finally:
            lock.release()

    @contextmanager
    def _our_errors(self) -> Iterator[None]:
        try:
            yield
        except Timeout:
            raise
        except OSError as error:
            raise translate(error, self.folder) from error


def _open_checked(queue: Path) -> Store:
    """Open the database and read all item keys, so that damage among them shows now."""
    store = open_store(queue, is_durable=True)
    try:
        store.keys(keys.TICKET)
        _check_format(store)
    except SpoolError:
        store.close()
        raise
    return store


def _check_format(store: Store) -> None:
    """Write the number of our format into a new database; refuse one that we cannot know."""
    try:
        stored = store.get(keys.FORMAT)
    except RowDamaged as error:
        raise DatabaseDamaged(str(error)) from error
    if stored is None or stored == _OLDER_FORMAT:
        store.set(keys.FORMAT, _FORMAT)
    elif stored != _FORMAT:
        raise SpoolUnwritable(
            f"the spool in {store.folder} has format {stored.decode()}, and this Holdfast knows "
            f"{_FORMAT.decode()}; use the version that wrote it"
        )


def _has_lost_its_head(queue: Path) -> bool:
    """Tell whether the file is empty while its log is not: SQLite would throw the log away."""
    database, wal = queue / DATABASE, queue / f"{DATABASE}-wal"
    has_head = database.exists() and database.stat().st_size > 0
    return not has_head and wal.exists() and wal.stat().st_size > 0


def _describe(holder: Path) -> str:
    try:
        who = f"process {int(holder.read_text())}"
    except (OSError, ValueError):
        who = "another process"
    return f"{who} is draining this spool; stop it, or let it finish"


def _describe_opening() -> str:
    return (
        f"another process keeps this spool from being opened since {_OPEN_TIMEOUT_S} s; see whether it hangs"
    )
