"""Changing rows of the shared queue, within one transaction."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import psycopg

from holdfast.errors import UnknownRun
from holdfast.format.receipt import Delivery, Progress
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection
from holdfast.queue.postgres.statements import columns_of
from holdfast.queue.rows import ItemRow


@dataclass(frozen=True, slots=True)
class Change:
    """A transaction on the queue of one target, at one moment."""

    connection: Connection
    target: int
    now: float

    def execute(self, statement: str, values: Sequence[object]) -> psycopg.Cursor[Any]:
        """Carry out one statement."""
        return self.connection.execute(statement.encode(), values)

    def lock_rows(self, checkpoint_ids: Iterable[str]) -> list[ItemRow]:
        """Return the rows of these checkpoints, which nobody else changes until the end."""
        rows = self.execute(statements.LOCK_ITEMS, (self.target, list(checkpoint_ids)))
        return [ItemRow._make(row) for row in rows]

    def lock_known(self, checkpoint_id: str) -> ItemRow:
        """Return the row of this checkpoint, as `lock_rows` does. Raises UnknownRun."""
        rows = self.lock_rows([checkpoint_id])
        if not rows:
            raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")
        return rows[0]

    def deliver(
        self, statement: str, rows: Sequence[ItemRow], outcomes: Mapping[str, Delivery], status: Progress
    ) -> None:
        """Let the receipts say where the checkpoints have arrived."""
        if not rows:
            return
        changes, numbers = [], []
        for row in rows:
            each = outcomes[row.checkpoint_id]
            seal = row._replace(sequence=each.sequence).sealed().seal
            changes.append((row.arrival, each.sequence, seal, each.file_path, each.commit_sha, each.blob_sha))
            numbers.append((row.run_id, max(row.sequence, each.sequence), 0))
        self.execute(statement, (str(status), self.now, *columns_of(changes)))
        self.raise_runs(numbers)

    def raise_runs(self, runs: Sequence[tuple[str, int, int]]) -> None:
        """See to it that `highest` and `floor` of these runs are at least these."""
        if runs:
            self.execute(statements.RAISE_RUNS, (self.target, *columns_of(runs)))

    def set_status(self, row: ItemRow, status: Progress, reason: str | None) -> None:
        """Let a row say how it stands with its checkpoint, and why."""
        self.execute(statements.SET_STATUS, (str(status), reason, self.now, row.arrival))

    def count(
        self, depth: int = 0, bytes_more: int = 0, set_aside: int = 0, set_aside_bytes: int = 0
    ) -> None:
        """Add these to the totals."""
        values = (self.target, depth, bytes_more, set_aside, set_aside_bytes)
        self.execute(statements.ADD_TO_TOTAL, values)
