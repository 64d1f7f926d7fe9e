"""The queue on this machine's disk: SQLite tables in a folder of its own."""

import sqlite3
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import TypeVar

from holdfast.clock import Clock
from holdfast.errors import SpoolDamaged
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, QueueItem
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
from holdfast.queue.contract import (
    DAMAGED,
    Hear,
    Journey,
    NewItem,
    PutOutcome,
    Quarantined,
    QueueLimits,
    Wake,
)
from holdfast.queue.folder import QueueFolder
from holdfast.queue.intake import take_in
from holdfast.queue.room import check_free_space, compact_if_worth_it
from holdfast.queue.rows import ItemRow, ItemsByRow, Totals, make_journey, select_changing
from holdfast.queue.table_queue import NextNumbers, TableQueue, settle

T = TypeVar("T")


class SqliteQueue(TableQueue):
    """The durable queue in one folder, as the protocol `Queue` promises it."""

    def __init__(self, folder: QueueFolder, *, limits: QueueLimits, clock: Clock, layout: Layout) -> None:
        super().__init__(layout)
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._next_numbers = NextNumbers()

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
        check_limits(self._folder.look(tables.read_totals), 1, self._limits)

    def read(self, item: QueueItem) -> bytes:
        body, fault = self._folder.look(lambda database: tables.read_checked(database, item.checkpoint_id))
        if fault is None:
            return body
        self.set_aside(item, DAMAGED)
        raise SpoolDamaged(f"checkpoint {item.checkpoint_id} is set aside: {fault}")

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        fingerprints = self._tell_fingerprints(outcomes)

        def work(change: SqliteChange) -> None:
            change.database.executemany(tables.SET_FINGERPRINT, fingerprints)
            settle(change, outcomes)

        self._change(work)
        compact_if_worth_it(self._folder)

    def set_aside_entries(self) -> list[Quarantined]:
        return self._folder.look(tables.read_set_aside)

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        wanted = list(checkpoint_ids)
        rows = self._folder.look(lambda database: list(tables.find_rows(database, wanted)))
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
        highest, _ = self._folder.look(lambda database: tables.read_numbers(database, run_id))
        return highest

    def note(self, name: str, value: bytes) -> None:
        self._folder.change(lambda database: tables.write_notes(database, [(name, value)]))

    def notes(self) -> dict[str, bytes]:
        return self._folder.look(tables.read_notes)

    def forget(self, *names: str) -> None:
        rows = [(name,) for name in names]
        self._folder.change(lambda database: database.executemany(tables.DELETE_NOTE, rows))

    def drainer(self) -> AbstractContextManager[None]:
        return self._folder.drainer()

    def drained_by(self) -> str | None:
        return None

    def listen(self, wake: Wake, hear: Hear) -> None:
        """Do nothing: who drains looks by itself, which costs little."""

    def write_back(self) -> None:
        self._folder.write_back()

    def fingerprint(self, checkpoint_id: str, body: bytes) -> str | None:
        """Return the fingerprint that a checkpoint with this body was put with."""
        row = self._find(checkpoint_id)
        if row and row.fingerprint == IN_BODY:
            return tell_fingerprint(row, body)
        return row.fingerprint if row else None

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        super().hand_over(checkpoint_ids)
        compact_if_worth_it(self._folder)

    def close(self) -> None:
        self._folder.close()

    def _tell_fingerprints(self, checkpoint_ids: Iterable[str]) -> list[tuple[str, int, bytes]]:
        """Return what is to be remembered of bodies that are about to go, made while nobody waits for it."""
        found = []
        for checkpoint_id in checkpoint_ids:
            row, body = self._folder.look(partial(tables.read_untold, checkpoint_id=checkpoint_id))
            if row and (fingerprint := tell_fingerprint(row, body)):
                found.append((fingerprint, row.arrival or 0, row.digest))
        return found

    def _change(self, work: Callable[["SqliteChange"], T]) -> T:
        return self._folder.change(lambda database: work(SqliteChange(database, self._clock.now())))

    def _find(self, checkpoint_id: str) -> ItemRow | None:
        return self._folder.look(lambda database: tables.find_row(database, checkpoint_id))

    def _read_waiting(self, known: ItemsByRow) -> tuple[ItemsByRow, frozenset[str]]:
        return self._folder.look(lambda database: tables.read_waiting(database, known))

    def _read_figures(self) -> tuple[Totals, Sequence[float | None]]:
        def work(database: sqlite3.Connection) -> tuple[Totals, Sequence[float | None]]:
            firsts = [database.execute(tables.SELECT_OLDEST, (each.rank,)).fetchone() for each in Priority]
            return tables.read_totals(database), [first[0] for first in firsts if first]

        return self._folder.look(work)


@dataclass(frozen=True, slots=True)
class SqliteChange:
    """A transaction on the queue of this machine, at one moment."""

    database: sqlite3.Connection
    now: float

    def find_rows(self, checkpoint_ids: Iterable[str]) -> Sequence[ItemRow]:
        return list(tables.find_rows(self.database, checkpoint_ids))

    def find_known(self, checkpoint_id: str) -> ItemRow:
        return tables.find_known(self.database, checkpoint_id)

    def read_body(self, row: ItemRow) -> bytes | None:
        return tables.read_body(self.database, row.arrival or 0)

    def store(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> None:
        for row, new in zip(rows, changed, strict=True):
            self.database.execute(tables.SET_ITEM, (*select_changing(new), self.now, row.arrival))
            if new.sequence != row.sequence:
                self._keep_number(row)

    def store_moved(self, row: ItemRow, moved: ItemRow, body: bytes) -> None:
        self.store([row], [moved])
        self._delete_body(row)
        tables.write_body(self.database, row.arrival or 0, moved.digest, body)

    def store_verified(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> Sequence[ItemRow]:
        self.store(rows, changed)
        return [row for row in rows if self._delete_body(row)]

    def set_backoff(self, checkpoint_ids: Sequence[str], reason: str, not_before: float) -> None:
        changes = [(not_before, reason, self.now, checkpoint_id) for checkpoint_id in checkpoint_ids]
        self.database.executemany(tables.SET_BACKOFF, changes)

    def drop(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        freed = [row for row in rows if self._delete_body(row)]
        for row in rows:
            self._keep_number(row)
            self.database.execute(tables.DELETE_ITEM, (row.arrival,))
        return freed

    def drop_verified(self, run_id: str) -> list[tuple[str, int]]:
        return self._drop_found(tables.SELECT_VERIFIED, (run_id,))

    def drop_oldest(self, older_than: float, most: int) -> list[tuple[str, int]]:
        return self._drop_found(tables.SELECT_OLD, (older_than, most))

    def count_verified(self) -> int:
        return int(self.database.execute(tables.COUNT_VERIFIED).fetchone()[0])

    def raise_runs(self, runs: Sequence[tuple[str, int, int]]) -> None:
        tables.raise_runs(self.database, runs)

    def count(self, more: Totals) -> None:
        self.database.execute(tables.ADD_TO_TOTAL, more)

    def _keep_number(self, row: ItemRow) -> None:
        """See to it that nobody is given the number that an item has just lost."""
        # Whoever asks for it, or for one below it, is given the next: in the repository others have these.
        tables.raise_runs(self.database, [(row.run_id, row.sequence, row.sequence)])

    def _delete_body(self, row: ItemRow) -> bool:
        return self.database.execute(tables.DELETE_BODY, (row.arrival,)).rowcount > 0

    def _drop_found(self, statement: str, values: Sequence[object]) -> list[tuple[str, int]]:
        gone = self.database.execute(statement, values).fetchall()
        self.database.executemany(tables.DELETE_ITEM, [(arrival,) for arrival, _, _ in gone])
        return [(run_id, number) for _, run_id, number in gone]
