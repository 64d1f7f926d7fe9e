"""The queue on this machine's disk: SQLite tables in a folder of its own."""

import hashlib
import sqlite3
from collections.abc import Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path
from typing import Any

from holdfast.clock import Clock
from holdfast.errors import SpoolDamaged, UnknownRun
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority
from holdfast.queue import tables
from holdfast.queue.admission import (
    IN_BODY,
    Prepared,
    PutTerms,
    check_limits,
    prepare,
    tell_fingerprint,
)
from holdfast.queue.common import CommonQueue, NextNumbers
from holdfast.queue.contract import (
    DAMAGED,
    LONGEST_BACKOFF_S,
    Backoff,
    Hear,
    Journey,
    NewItem,
    PutOutcome,
    Quarantined,
    QueueLimits,
    QueueStatus,
    Wake,
)
from holdfast.queue.folder import QueueFolder
from holdfast.queue.intake import take_in
from holdfast.queue.room import check_free_space, compact_if_worth_it
from holdfast.queue.rows import ItemRow, make_journey
from holdfast.queue.tables import (
    count_item,
    find_known,
    find_row,
    find_rows,
    keep_number,
    raise_runs,
    read_body,
    read_checked,
    read_item,
    read_notes,
    read_numbers,
    read_set_aside,
    read_totals,
    read_untold,
    read_waiting,
    write_body,
    write_notes,
)

_PURGE_CHUNK = 500
_SETTLED = frozenset({Progress.VERIFIED, Progress.REFUSED})


class SqliteQueue(CommonQueue):
    """The durable queue in one folder, as the protocol `Queue` promises it."""

    def __init__(self, folder: QueueFolder, *, limits: QueueLimits, clock: Clock, layout: Layout) -> None:
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._layout = layout
        self._next_numbers = NextNumbers()
        self._items: dict[tuple[Any, ...], QueueItem] = {}
        self._newer: frozenset[str] | None = None

    @classmethod
    def open(cls, folder: Path, *, limits: QueueLimits, clock: Clock, layout: Layout) -> "SqliteQueue":
        """Open the queue in `folder`; what is left of a damaged one is salvaged first.

        Raises SpoolUnwritable, and SpoolBusy if another process keeps it from being opened.
        """
        return cls(
            QueueFolder.open(folder, clock=clock, layout=layout), limits=limits, clock=clock, layout=layout
        )

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        terms = PutTerms(
            self._limits, self._layout, self._clock.now(), persistence, are_new, defers_fingerprints=True
        )
        prepared = prepare(new_items, self._next_numbers.likely)
        size_bytes = sum(len(each.body) for each in prepared if isinstance(each, Prepared))
        check_free_space(self._folder, size_bytes, self._limits)
        outcomes, numbers = self._folder.change(lambda database: take_in(database, prepared, terms))
        self._next_numbers.remember(numbers)
        return outcomes

    def check_room(self) -> None:
        check_free_space(self._folder, 1, self._limits)
        check_limits(self._folder.look(read_totals), 1, self._limits)

    def pending(self, now: float | None = None) -> list[QueueItem]:
        # A drain lists again and again, and most rows are those of the last time.
        known = self._items
        found, self._newer = self._folder.look(lambda database: read_waiting(database, known))
        self._items = found
        if now is None:
            return list(found.values())
        latest = now + LONGEST_BACKOFF_S
        return [item for row, item in found.items() if not now < row[-2] <= latest]

    def newer_runs(self) -> frozenset[str]:
        if self._newer is None:
            self.pending()
        return self._newer or frozenset()

    def read(self, item: QueueItem) -> bytes:
        body, fault = self._folder.look(lambda database: read_checked(database, item.checkpoint_id))
        if fault is None:
            return body
        self.set_aside(item, DAMAGED)
        raise SpoolDamaged(f"checkpoint {item.checkpoint_id} is set aside: {fault}")

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        digest = hashlib.sha256(body).digest()
        path = self._layout.checkpoint_path(item.run_id, sequence, item.trigger)

        def work(database: sqlite3.Connection) -> QueueItem:
            row = find_known(database, item.checkpoint_id)
            if row.status in _SETTLED:
                raise UnknownRun(f"checkpoint {item.checkpoint_id} does not wait in the spool any more")
            moved = row._replace(sequence=sequence, size=len(body), digest=digest).sealed()
            changes = (sequence, len(body), digest, moved.seal, path, self._clock.now(), row.arrival)
            database.execute(tables.SET_NUMBER, changes)
            keep_number(database, row)
            database.execute(tables.DELETE_BODY, (row.arrival,))
            write_body(database, row.arrival or 0, digest, body)
            count_item(database, row, waiting=-1)
            count_item(database, moved, waiting=+1)
            return read_item(database, moved[1:9])

        return self._folder.change(work)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        def work(database: sqlite3.Connection) -> None:
            for row in find_rows(database, outcomes):
                if row.status == Progress.SPOOLED:
                    self._deliver(database, row, outcomes[row.checkpoint_id], Progress.COMMITTED)

        self._folder.change(work)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        fingerprints = self._tell_fingerprints(outcomes)

        def work(database: sqlite3.Connection) -> None:
            database.executemany(tables.SET_FINGERPRINT, fingerprints)
            for row in find_rows(database, outcomes):
                if row.status == Progress.VERIFIED:
                    continue
                if database.execute(tables.DELETE_BODY, (row.arrival,)).rowcount:
                    is_aside = row.status == Progress.REFUSED
                    count_item(database, row, waiting=is_aside - 1, aside=-is_aside)
                database.execute(tables.CLEAR_BACKOFF, (row.arrival,))
                self._deliver(database, row, outcomes[row.checkpoint_id], Progress.VERIFIED)

        self._folder.change(work)
        compact_if_worth_it(self._folder)

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        rows = [(not_before, reason, self._clock.now(), item.checkpoint_id) for item in items]
        self._folder.change(lambda database: database.executemany(tables.SET_BACKOFF, rows))

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        row = self._folder.look(lambda database: find_row(database, checkpoint_id))
        return Backoff(row.attempts, row.not_before, row.reason or "") if row and row.attempts else None

    def set_aside(self, item: QueueItem, reason: str) -> None:
        def work(database: sqlite3.Connection) -> None:
            row = find_known(database, item.checkpoint_id)
            if row.status not in _SETTLED:
                self._set_status(database, row, Progress.REFUSED, reason)
                count_item(database, row, waiting=-1, aside=+1)

        self._folder.change(work)

    def set_aside_entries(self) -> list[Quarantined]:
        return self._folder.look(read_set_aside)

    def restore(self, checkpoint_id: str) -> Receipt:
        def work(database: sqlite3.Connection) -> Receipt:
            row = find_known(database, checkpoint_id)
            if row.status != Progress.REFUSED:
                return row.receipt
            body = read_body(database, row.arrival or 0)
            if body is None:
                raise UnknownRun("the body of this checkpoint is not in the spool")
            if hashlib.sha256(body).digest() != row.digest:
                raise SpoolDamaged(f"the body of checkpoint {checkpoint_id} is damaged; it stays set aside")
            self._set_status(database, row, Progress.SPOOLED, None)
            count_item(database, row, waiting=+1, aside=-1)
            return row._replace(status=Progress.SPOOLED, reason=None).receipt

        return self._folder.change(work)

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        wanted = list(checkpoint_ids)

        def work(database: sqlite3.Connection) -> int:
            rows = [row for row in find_rows(database, wanted) if row.status != Progress.VERIFIED]
            for row in rows:
                if database.execute(tables.DELETE_BODY, (row.arrival,)).rowcount:
                    is_aside = row.status == Progress.REFUSED
                    count_item(database, row, waiting=is_aside - 1, aside=-is_aside)
                keep_number(database, row)
                database.execute(tables.DELETE_ITEM, (row.arrival,))
            return len(rows)

        return self._folder.change(work) if wanted else 0

    def forget_receipts(self, run_id: str) -> int:
        def work(database: sqlite3.Connection) -> int:
            gone = database.execute(tables.SELECT_VERIFIED, (run_id,)).fetchall()
            database.executemany(tables.DELETE_ITEM, [(arrival,) for arrival, _ in gone])
            raise_runs(database, [(run_id, number, number) for _, number in gone])
            return len(gone)

        return self._folder.change(work)

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        row = self._folder.look(lambda database: find_row(database, checkpoint_id))
        return row.receipt if row else None

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        def work(database: sqlite3.Connection) -> int:
            (known,) = database.execute(tables.COUNT_VERIFIED).fetchone()
            most = min(_PURGE_CHUNK, max(0, known - keep))
            gone = database.execute(tables.SELECT_OLD, (older_than, most)).fetchall()
            database.executemany(tables.DELETE_ITEM, [(arrival,) for arrival, _, _ in gone])
            raise_runs(database, [(run, number, number) for _, run, number in gone])
            return len(gone)

        purged = 0
        while count := self._folder.change(work):
            purged += count
        return purged

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        wanted = list(checkpoint_ids)
        rows = self._folder.look(lambda database: list(find_rows(database, wanted)))
        return {row.checkpoint_id: row.arrival or 0 for row in rows}

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        statement = tables.SELECT_JOURNEYS if run_id is None else tables.SELECT_JOURNEYS_OF_RUN
        wanted = (most,) if run_id is None else (run_id, most)
        rows = self._folder.look(lambda database: database.execute(statement, wanted).fetchall())
        return list(map(make_journey, rows))

    def verified_between(self, begin: float, end: float) -> int:
        wanted = (begin, end)
        (count,) = self._folder.look(
            lambda database: database.execute(tables.COUNT_VERIFIED_BETWEEN, wanted).fetchone()
        )
        return int(count)

    def known_sequence(self, run_id: str) -> int:
        highest, _ = self._folder.look(lambda database: read_numbers(database, run_id))
        return highest

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        self.learn_sequences({run_id: sequence})

    def learn_sequences(self, sequences: Mapping[str, int]) -> None:
        """Do what `learn_sequence` does, for many runs as one transaction."""
        higher = [
            (run_id, sequence, 0)
            for run_id, sequence in sequences.items()
            if self.known_sequence(run_id) < sequence
        ]
        if higher:
            self._folder.change(lambda database: raise_runs(database, higher))

    def note(self, name: str, value: bytes) -> None:
        self._folder.change(lambda database: write_notes(database, [(name, value)]))

    def notes(self) -> dict[str, bytes]:
        return self._folder.look(read_notes)

    def forget(self, *names: str) -> None:
        rows = [(name,) for name in names]
        self._folder.change(lambda database: database.executemany(tables.DELETE_NOTE, rows))

    def status(self, now: float) -> QueueStatus:
        def work(database: sqlite3.Connection) -> QueueStatus:
            totals = read_totals(database)
            firsts = [database.execute(tables.SELECT_OLDEST, (each.rank,)).fetchone() for each in Priority]
            oldest = min((first[0] for first in firsts if first), default=now)
            return QueueStatus(
                depth=totals.depth,
                bytes=totals.bytes,
                oldest_age_s=max(0.0, now - oldest),
                set_aside=totals.set_aside,
                set_aside_bytes=totals.set_aside_bytes,
                salvaged=totals.salvaged,
                lost=totals.lost,
            )

        return self._folder.look(work)

    def drainer(self) -> AbstractContextManager[None]:
        return self._folder.drainer()

    def drained_by(self) -> str | None:
        return None

    def listen(self, wake: Wake, hear: Hear) -> None:
        """Do nothing: who drains looks by itself, which costs little."""

    def write_back(self) -> None:
        self._folder.write_back()

    def trouble(self) -> str | None:
        return None

    def fingerprint(self, checkpoint_id: str, body: bytes) -> str | None:
        """Return the fingerprint that a checkpoint with this body was put with."""
        row = self._folder.look(lambda database: find_row(database, checkpoint_id))
        if row and row.fingerprint == IN_BODY:
            return tell_fingerprint(row, body)
        return row.fingerprint if row else None

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        """Let waiting checkpoints, which another queue has taken in, leave without a receipt."""
        wanted = list(checkpoint_ids)

        def work(database: sqlite3.Connection) -> None:
            for row in find_rows(database, wanted):
                if row.status not in _SETTLED:
                    database.execute(tables.DELETE_BODY, (row.arrival,))
                    database.execute(tables.DELETE_ITEM, (row.arrival,))
                    keep_number(database, row)
                    count_item(database, row, waiting=-1)

        self._folder.change(work)
        compact_if_worth_it(self._folder)

    def close(self) -> None:
        self._folder.close()

    def _tell_fingerprints(self, checkpoint_ids: Iterable[str]) -> list[tuple[str, int, bytes]]:
        """Return what is to be remembered of bodies that are about to go, made while nobody waits for it."""
        found = []
        for checkpoint_id in checkpoint_ids:
            row, body = self._folder.look(partial(read_untold, checkpoint_id=checkpoint_id))
            if row and (fingerprint := tell_fingerprint(row, body)):
                found.append((fingerprint, row.arrival or 0, row.digest))
        return found

    def _set_status(
        self, database: sqlite3.Connection, row: ItemRow, status: Progress, reason: str | None
    ) -> None:
        database.execute(tables.SET_STATUS, (str(status), reason, self._clock.now(), row.arrival))

    def _deliver(
        self, database: sqlite3.Connection, row: ItemRow, delivery: Delivery, status: Progress
    ) -> None:
        """Let the receipt say where the checkpoint has arrived."""
        seal = row._replace(sequence=delivery.sequence).sealed().seal
        path, commit_sha, blob_sha = delivery.file_path, delivery.commit_sha, delivery.blob_sha
        now = self._clock.now()
        changes = (str(status), delivery.sequence, seal, path, commit_sha, blob_sha, now, row.arrival)
        database.execute(tables.SET_DELIVERY, changes)
        if delivery.sequence != row.sequence:
            keep_number(database, row)
