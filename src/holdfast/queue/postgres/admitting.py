"""Taking checkpoints in, for the queue in PostgreSQL: one transaction, two turns to the server and back.

First the runs are locked, so that their numbers follow the order of arrival; then everything is read that the
decision needs; then everything is written.
"""

import zlib
from collections.abc import Sequence

from holdfast.errors import HoldfastError
from holdfast.queue.admission import (
    Prepared,
    PutTerms,
    RunNumbers,
    check_known,
    check_limits,
    make_body,
    make_row,
)
from holdfast.queue.contract import NewItem, PutOutcome
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection, Database
from holdfast.queue.postgres.statements import columns_of, write_rows
from holdfast.queue.rows import ItemRow, Totals


def take_in(
    database: Database,
    target: int,
    prepared: Sequence[Prepared | HoldfastError],
    terms: Sequence[PutTerms],
) -> tuple[list[PutOutcome], dict[str, RunNumbers]]:
    """Store what is new; return the answer to each, a receipt or an error, and the numbers of their runs.

    Each has its own terms.
    """

    def work(connection: Connection, is_repeated: bool) -> tuple[list[PutOutcome], dict[str, RunNumbers]]:
        admission = _Admission(connection, target, may_be_known=is_repeated)
        outcomes = admission.take(prepared, terms)
        return outcomes, admission.numbers

    runs = {each.new_item.run_id for each in prepared if isinstance(each, Prepared)}
    keys = sorted({zlib.crc32(f"{target}\n{run_id}".encode()) - 2**31 for run_id in runs})
    locks = ", ".join(f"pg_advisory_xact_lock({statements.LOCK_CLASS}, {key})" for key in keys)
    return database.change(work, first=locks or "1")


class _Admission:
    """One transaction that takes checkpoints in."""

    def __init__(self, connection: Connection, target: int, *, may_be_known: bool) -> None:
        self._connection = connection
        self._target = target
        self._may_be_known = may_be_known
        self._known: dict[str, ItemRow] = {}
        self._taken: set[tuple[str, int]] = set()
        self._rows: list[tuple[ItemRow, bytes]] = []
        self._touched: list[int] = []
        self._totals = self._before = Totals()
        self.numbers: dict[str, RunNumbers] = {}

    def take(
        self, prepared: Sequence[Prepared | HoldfastError], terms: Sequence[PutTerms]
    ) -> list[PutOutcome]:
        sound = [(each, own) for each, own in zip(prepared, terms, strict=True) if isinstance(each, Prepared)]
        self._read([each.new_item for each, _ in sound], [own for _, own in sound])
        outcomes = [self._settle(each, own) for each, own in zip(prepared, terms, strict=True)]
        self._write(max((own.now for own in terms), default=0.0))
        return outcomes

    def _read(self, new_items: Sequence[NewItem], terms: Sequence[PutTerms]) -> None:
        target, say = self._target, self._connection.execute
        runs = sorted({each.run_id for each in new_items})
        ids = [
            each.checkpoint_id
            for each, own in zip(new_items, terms, strict=True)
            if self._may_be_known or not own.are_new or each.tells_fingerprint or each.fingerprint
        ]
        wanted = [(each.run_id, each.sequence) for each in new_items if each.sequence is not None]
        self.numbers = {run_id: RunNumbers() for run_id in runs}
        # All is asked before the first answer is read, so that it is one turn.
        state = say(statements.SELECT_STATE.encode(), (target, target, runs))
        known = say(statements.SELECT_ITEMS.encode(), (target, ids)) if ids else ()
        taken = say(statements.SELECT_TAKEN, (*columns_of(wanted), target)) if wanted else ()
        for *totals, run_id, highest, floor in state:
            self._totals = self._before = Totals(*totals)
            if run_id is not None:
                self.numbers[run_id] = RunNumbers(highest, floor)
        self._known = {row.checkpoint_id: row for row in map(ItemRow._make, known)}
        self._taken = set(taken)

    def _write(self, now: float) -> None:
        target, say = self._target, self._connection.execute
        before, after = self._before, self._totals
        if self._touched:
            say(statements.TOUCH_ITEMS, (now, self._touched))
        if self._rows:
            text = write_rows([row for row, _ in self._rows])
            bodies = [body for _, body in self._rows]
            highest = [(run_id, each.highest, each.floor) for run_id, each in self.numbers.items()]
            added = (after.depth - before.depth, after.bytes - before.bytes, 0, 0)
            values = (target, text, bodies, target, *columns_of(highest), target, *added)
            say(statements.TAKE_IN.encode(), values)

    def _settle(self, prepared: Prepared | HoldfastError, terms: PutTerms) -> PutOutcome:
        if isinstance(prepared, HoldfastError):
            return prepared
        new_item = prepared.new_item
        try:
            row = self._known.get(new_item.checkpoint_id)
            if row is None:
                return self._accept(prepared, terms)
            check_known(new_item, row)
        except HoldfastError as error:
            return error
        # Whoever stored it may have been answered by a server that had not yet confirmed it: a commit that
        # changes something is confirmed, and with it all that came before.
        if row.arrival is not None:
            self._touched.append(row.arrival)
        return row.receipt

    def _accept(self, prepared: Prepared, terms: PutTerms) -> PutOutcome:
        """Store a new checkpoint, under another number if its own was taken meanwhile."""
        new_item = prepared.new_item
        totals = check_limits(self._totals, len(prepared.body), terms.limits)
        numbers = self.numbers[new_item.run_id]
        number = numbers.choose(new_item.sequence, lambda wanted: (new_item.run_id, wanted) in self._taken)
        if number != prepared.number:
            prepared = make_body(new_item, number)
            totals = check_limits(self._totals, len(prepared.body), terms.limits)
        row = make_row(prepared, terms)
        self._rows.append((row, prepared.body))
        self._known[new_item.checkpoint_id] = row
        self._taken.add((new_item.run_id, number))
        numbers.take(number)
        self._totals = totals
        return row.receipt
