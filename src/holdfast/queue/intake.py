"""Taking checkpoints in: known or new, which number, is there room; then one transaction for all of them."""

import math
import sqlite3
from collections.abc import Sequence

from holdfast.disk import DatabaseDamaged
from holdfast.errors import HoldfastError
from holdfast.format.receipt import Progress
from holdfast.queue import tables
from holdfast.queue.admission import (
    IN_BODY,
    Prepared,
    PutTerms,
    RunNumbers,
    check_known,
    check_limits,
    make_body,
    make_row,
    tell_fingerprint,
)
from holdfast.queue.contract import PutOutcome
from holdfast.queue.rows import ItemRow
from holdfast.queue.tables import find_row, read_body, read_numbers, read_totals, write_body


def take_in(
    database: sqlite3.Connection, prepared: Sequence[Prepared | HoldfastError], terms: PutTerms
) -> tuple[list[PutOutcome], dict[str, RunNumbers]]:
    """Store what is new; return the answer to each, a receipt or an error, and the numbers of their runs."""
    intake = _Intake(database, terms)
    return intake.take(prepared), intake.numbers


class _Intake:
    """One transaction that takes checkpoints in."""

    def __init__(self, database: sqlite3.Connection, terms: PutTerms) -> None:
        self._database = database
        self._terms = terms
        self._totals = self._before = read_totals(database)
        self.numbers: dict[str, RunNumbers] = {}

    def take(self, prepared: Sequence[Prepared | HoldfastError]) -> list[PutOutcome]:
        outcomes = [self._settle(each) for each in prepared]
        if self._totals == self._before:
            return outcomes
        added = (self._totals.depth - self._before.depth, self._totals.bytes - self._before.bytes, 0, 0, 0, 0)
        self._database.execute(tables.ADD_TO_TOTAL, added)
        return outcomes

    def _settle(self, prepared: Prepared | HoldfastError) -> PutOutcome:
        if isinstance(prepared, HoldfastError):
            return prepared
        new_item = prepared.new_item
        try:
            is_named = new_item.tells_fingerprint or new_item.fingerprint
            is_surely_new = self._terms.are_new and not is_named
            known = None if is_surely_new else self._answer_known(prepared)
            return known or self._accept(prepared)
        except DatabaseDamaged:
            raise
        except HoldfastError as error:
            return error

    def _answer_known(self, prepared: Prepared) -> PutOutcome | None:
        row = find_row(self._database, prepared.new_item.checkpoint_id)
        if row is None:
            return None
        self._check_known(prepared, row)
        # Whoever stored it may have died before the disk confirmed it. A commit that changes something
        # is confirmed, and with it all that came before.
        later = max(self._terms.now, math.nextafter(row.changed_at, math.inf))
        self._database.execute(tables.TOUCH_ITEM, (later, row.arrival))
        return row.receipt

    def _check_known(self, prepared: Prepared, row: ItemRow) -> None:
        """Raise CheckpointChanged unless a checkpoint says the same as the one of this id."""
        if row.fingerprint == IN_BODY and prepared.digest == row.digest:
            return  # sent again just as it was
        if row.fingerprint == IN_BODY:
            body = read_body(self._database, row.arrival or 0)
            row = row._replace(fingerprint=tell_fingerprint(row, body))
            if not row.fingerprint and row.status == Progress.REFUSED:
                return  # lost or damaged: nothing is left to compare with, and the receipt says so
        check_known(prepared.new_item, row)

    def _accept(self, prepared: Prepared) -> PutOutcome:
        """Store a new checkpoint, under another number if its own was taken meanwhile."""
        new_item, database = prepared.new_item, self._database
        totals = check_limits(self._totals, len(prepared.body), self._terms.limits)
        numbers = self._numbers_of(new_item.run_id)
        number = numbers.choose(new_item.sequence, lambda wanted: self._is_taken(new_item.run_id, wanted))
        if number != prepared.number:
            prepared = make_body(new_item, number)
            totals = check_limits(self._totals, len(prepared.body), self._terms.limits)
        row = make_row(prepared, self._terms)
        added = database.execute(tables.INSERT_ITEM, row)
        if not added.rowcount:
            # Thought to be new, but a first try of this very put was stored before it failed.
            return self._answer_known(prepared) or row.receipt
        write_body(database, added.lastrowid or 0, prepared.digest, prepared.body)
        numbers.take(number)
        self._totals = totals
        return row.receipt

    def _numbers_of(self, run_id: str) -> RunNumbers:
        if run_id not in self.numbers:
            self.numbers[run_id] = RunNumbers(*read_numbers(self._database, run_id))
        return self.numbers[run_id]

    def _is_taken(self, run_id: str, number: int) -> bool:
        return self._database.execute(tables.SELECT_NUMBER, (run_id, number)).fetchone() is not None
