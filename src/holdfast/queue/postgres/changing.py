"""Changing rows of the shared queue, within one transaction."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from holdfast.errors import UnknownRun
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection
from holdfast.queue.postgres.statements import columns_of
from holdfast.queue.rows import ItemRow, Totals, select_changing


@dataclass(frozen=True, slots=True)
class PostgresChange:
    """A transaction on the queue of one target, at one moment."""

    connection: Connection
    target: int
    now: float

    def execute(self, statement: str, values: Sequence[object]) -> psycopg.Cursor[Any]:
        """Carry out one statement."""
        return self.connection.execute(statement.encode(), values)

    def find_rows(self, checkpoint_ids: Iterable[str]) -> Sequence[ItemRow]:
        rows = self.execute(statements.LOCK_ITEMS, (self.target, list(checkpoint_ids)))
        return [ItemRow._make(row) for row in rows]

    def find_known(self, checkpoint_id: str) -> ItemRow:
        rows = self.find_rows([checkpoint_id])
        if not rows:
            raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")
        return rows[0]

    def read_body(self, row: ItemRow) -> bytes | None:
        found = self.execute(statements.SELECT_BODY, (self.target, row.checkpoint_id)).fetchone()
        return found[-1] if found else None

    def store(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> None:
        self._store(statements.SET_ITEMS, [], rows, changed)

    def store_moved(self, row: ItemRow, moved: ItemRow, body: bytes) -> None:
        self._store(statements.SET_ITEMS_WITH_BODY, [body], [row], [moved])

    def store_verified(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> Sequence[ItemRow]:
        self._store(statements.SET_ITEMS_WITH_BODY, [None], rows, changed)
        return rows

    def set_backoff(self, checkpoint_ids: Sequence[str], reason: str, not_before: float) -> None:
        values = (not_before, _clean(reason), self.now, self.target, checkpoint_ids)
        self.execute(statements.SET_BACKOFF, values)

    def drop(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]:
        self.raise_runs([_number_of(row) for row in rows])
        self.execute(statements.DELETE_ITEMS, ([row.arrival for row in rows],))
        return rows

    def drop_verified(self, run_id: str) -> list[tuple[str, int]]:
        return self.execute(statements.DELETE_VERIFIED, (self.target, run_id)).fetchall()

    def drop_oldest(self, older_than: float, most: int) -> list[tuple[str, int]]:
        return self.execute(statements.DELETE_OLD, (self.target, older_than, most)).fetchall()

    def count_verified(self) -> int:
        (known,) = self.execute(statements.COUNT_VERIFIED, (self.target,)).fetchone() or (0,)
        return int(known)

    def raise_runs(self, runs: Sequence[tuple[str, int, int]]) -> None:
        if runs:
            self.execute(statements.RAISE_RUNS, (self.target, *columns_of(runs)))

    def count(self, more: Totals) -> None:
        self.execute(statements.ADD_TO_TOTAL, (self.target, *more[:4]))

    def _store(
        self, statement: str, body: list[bytes | None], rows: Sequence[ItemRow], changed: Sequence[ItemRow]
    ) -> None:
        if not rows:
            return
        values = [
            (row.arrival, *select_changing(new._replace(reason=_clean(new.reason))))
            for row, new in zip(rows, changed, strict=True)
        ]
        self.execute(statement, (self.now, *body, *columns_of(values)))
        for row, new in zip(rows, changed, strict=True):
            if row.sequence != new.sequence:
                self.raise_runs([(new.run_id, new.sequence, 0), _number_of(row)])


def _number_of(row: ItemRow) -> tuple[str, int, int]:
    """Return what keeps the number that an item loses from being given again."""
    return row.run_id, row.sequence, row.sequence


def _clean(reason: str | None) -> str | None:
    """Return a reason as PostgreSQL can keep it."""
    return reason and reason.replace("\0", "").encode("utf-8", "replace").decode()
