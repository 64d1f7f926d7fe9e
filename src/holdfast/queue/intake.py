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
    has_room,
    make_body,
    make_row,
    tell_fingerprint,
)
from holdfast.queue.contract import PutOutcome
from holdfast.queue.rows import ItemRow, Totals
from holdfast.queue.tables import find_row, read_body, read_for_put, write_body


def take_in(
    database: sqlite3.Connection, prepared: Sequence[Prepared | HoldfastError], terms: PutTerms
) -> tuple[list[PutOutcome], dict[str, RunNumbers]]:
    """Store what is new; return the answer to each, a receipt or an error, and the numbers of their runs."""
    intake = _IntakeTransaction(database, terms)
    return intake.take(prepared), intake.numbers


class _IntakeTransaction:
    """One transaction that takes checkpoints in."""

    def __init__(self, database: sqlite3.Connection, terms: PutTerms) -> None:
        self._database = database
        self._terms = terms
        self._totals: Totals | None = None
        self._added = self._added_bytes = 0
        self.numbers: dict[str, RunNumbers] = {}

    def take(self, prepared: Sequence[Prepared | HoldfastError]) -> list[PutOutcome]:
        outcomes = [self._settle(each) for each in prepared]
        if self._added:
            self._database.execute(tables.ADD_TO_TOTAL, (self._added, self._added_bytes, 0, 0, 0, 0))
        return outcomes

    def _settle(self, prepared: Prepared | HoldfastError) -> PutOutcome:
        if isinstance(prepared, HoldfastError):
            return prepared
        try:
            return self._accept(prepared)
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
        """Store a checkpoint unless it is known, under another number if its own was taken meanwhile."""
        new_item, database, limits = prepared.new_item, self._database, self._terms.limits
        numbers, totals = self._look_up(new_item.run_id)
        number = numbers.choose(new_item.sequence, lambda wanted: self._is_taken(new_item.run_id, wanted))
        # That it is known shows when its row is added; where that may not happen, it is asked first.
        is_doubtful = number != prepared.number or not has_room(totals, len(prepared.body), limits)
        if is_doubtful and (known := self._answer_known(prepared)):
            return known
        if number != prepared.number:
            prepared = make_body(new_item, number)
        self._totals = check_limits(totals, len(prepared.body), limits)
        row = make_row(prepared, self._terms)
        added = database.execute(tables.INSERT_ITEM, row)
        if not added.rowcount:
            self._totals = totals
            return self._answer_known(prepared) or row.receipt
        write_body(database, added.lastrowid or 0, prepared.digest, prepared.body)
        numbers.take(number)
        self._added += 1
        self._added_bytes += row.size
        return row.receipt

    def _look_up(self, run_id: str) -> tuple[RunNumbers, Totals]:
        """Return the numbers of a run, and the totals with all that this transaction has added."""
        if self._totals is None or run_id not in self.numbers:
            totals, highest, floor = read_for_put(self._database, run_id)
            self.numbers[run_id] = RunNumbers(highest, floor)
            self._totals = self._totals or totals
        return self.numbers[run_id], self._totals

    def _is_taken(self, run_id: str, number: int) -> bool:
        return self._database.execute(tables.SELECT_NUMBER, (run_id, number)).fetchone() is not None
