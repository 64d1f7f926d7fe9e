"""Taking checkpoints in, for the queue in PostgreSQL: at once if nothing stands against it, else with care.

At once is one statement, which is a transaction of its own. It depends on the numbers of the runs, which this
process guesses, and takes in the checkpoints of those runs for which the guess was right. With care is a
transaction of two turns to the server and back: first the runs are locked, so that their numbers follow the
order of arrival, and everything is read that the decision needs; then everything is written.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

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
from holdfast.queue.postgres import arrays, statements
from holdfast.queue.postgres.database import Connection, Database
from holdfast.queue.postgres.statements import NEW_COLUMNS, columns_of
from holdfast.queue.rows import ItemRow, Totals

_Asked = tuple[Prepared | HoldfastError, PutTerms]
_Row = tuple[ItemRow, bytes]

# What is larger is not sent on the strength of a guess.
_MOST_BYTES_AT_ONCE = 8 * 1024**2
_MOST_PASSED_OVER = 64
_PACK: dict[str, Callable[[Sequence[Any]], object]] = {"text": arrays.texts, "bytea": arrays.blobs}


class Admission(NamedTuple):
    """The answer to each, a receipt or an error, and the numbers of their runs."""

    outcomes: list[PutOutcome]
    numbers: dict[str, RunNumbers]


class Intake:
    """Takes checkpoints in for one target."""

    def __init__(self, database: Database, target: int) -> None:
        self._database = database
        self._target = target
        # Where replicas serve the same runs by turns, guesses are wrong: then it is tried less and less.
        self._passes_over = 0
        self._penalty = 1

    def take_in(self, asked: Sequence[_Asked]) -> Admission:
        """Store what is new; each has its own terms. Raises DatabaseAway."""
        group = _plan_group(asked) if self._may_guess() else None
        if group is None:
            return self._take_with_care(asked, may_be_known=False)
        accepted = self._take_at_once(group)
        if accepted is None:
            return self._take_with_care(asked, may_be_known=True)
        self._learn(len(group.last) - len(accepted), len(accepted))
        left = [
            each
            for each in asked
            if isinstance(each[0], Prepared) and each[0].new_item.run_id not in accepted
        ]
        admission = self._take_with_care(left, may_be_known=False) if left else Admission([], {})
        numbers = {run_id: RunNumbers(group.last[run_id]) for run_id in accepted}
        taken = (row.receipt for row, _ in group.rows if row.run_id in accepted)
        return Admission(
            list(_merge(asked, accepted, taken, iter(admission.outcomes))), {**numbers, **admission.numbers}
        )

    def _may_guess(self) -> bool:
        self._passes_over -= 1
        return self._passes_over < 0

    def _learn(self, wrong: int, right: int) -> None:
        if wrong > right:
            self._passes_over = self._penalty
            self._penalty = min(_MOST_PASSED_OVER, 2 * self._penalty)
        elif not wrong:
            self._passes_over, self._penalty = 0, 1

    def _take_at_once(self, group: "_Group") -> frozenset[str] | None:
        """Return the runs whose checkpoints were taken in; None if that is not known."""
        limits, count = group.terms.limits, len(group.rows)
        size_bytes = sum(len(body) for _, body in group.rows)
        values = {
            "target": self._target,
            "runs": arrays.texts(list(group.last)),
            "highest": arrays.numbers(group.last.values()),
            "before": arrays.numbers(group.before.values()),
            "perhaps_known": arrays.texts(group.perhaps_known),
            "items_before": limits.max_items - count,
            "bytes_before": limits.max_bytes - size_bytes,
            **_describe_rows(group.rows),
        }
        # Looking for ids takes another plan on an empty table than on a large one.
        keeps_plan = not group.perhaps_known
        accepted = self._database.change_at_once(statements.TAKE_IN_AT_ONCE, values, keeps_plan=keeps_plan)
        return None if accepted is None else frozenset(run_id for (run_id,) in accepted)

    def _take_with_care(self, asked: Sequence[_Asked], *, may_be_known: bool) -> Admission:
        def work(connection: Connection, is_repeated: bool) -> Admission:
            careful = _Careful(connection, self._target, may_be_known=may_be_known or is_repeated)
            return Admission(careful.take(asked), careful.numbers)

        return self._database.change(work, is_at_once=True)


class _Group(NamedTuple):
    """Checkpoints that can be taken in at once, with the numbers that their runs have before and after."""

    rows: list[_Row]
    before: dict[str, int]
    last: dict[str, int]
    perhaps_known: list[str]
    terms: PutTerms


def _plan_group(asked: Sequence[_Asked]) -> _Group | None:
    """Return all that is sound as one group; None where one of them asks for a number, or comes twice."""
    rows: list[_Row] = []
    before: dict[str, int] = {}
    last: dict[str, int] = {}
    perhaps_known: list[str] = []
    size_bytes = 0
    for each, terms in asked:
        if not isinstance(each, Prepared):
            continue
        new_item = each.new_item
        if new_item.sequence is not None:
            return None
        size_bytes += len(each.body)
        run_id = new_item.run_id
        number = last.get(run_id, each.number - 1) + 1
        before.setdefault(run_id, number - 1)
        last[run_id] = number
        sound = each if number == each.number else make_body(new_item, number)
        rows.append((make_row(sound, terms), sound.body))
        if new_item.tells_fingerprint or new_item.fingerprint:
            perhaps_known.append(new_item.checkpoint_id)
    is_twice = len({row.checkpoint_id for row, _ in rows}) < len(rows)
    if not rows or is_twice or size_bytes > _MOST_BYTES_AT_ONCE:
        return None
    return _Group(rows, before, last, perhaps_known, asked[0][1])


def _merge(
    asked: Sequence[_Asked],
    accepted: frozenset[str],
    taken: Iterator[PutOutcome],
    others: Iterator[PutOutcome],
) -> Iterator[PutOutcome]:
    """Yield the answers in the order of the questions: those of the accepted runs, and the others."""
    for each, _ in asked:
        if isinstance(each, HoldfastError):
            yield each
        else:
            yield next(taken if each.new_item.run_id in accepted else others)


def _describe_rows(rows: Sequence[_Row]) -> Mapping[str, object]:
    """Return new rows as what `INSERT_ITEMS` takes."""
    columns = dict(zip(ItemRow._fields, zip(*(row for row, _ in rows), strict=True), strict=True))
    columns["body"] = tuple(body for _, body in rows)
    return {name: _PACK.get(kind, arrays.numbers)(columns[name]) for name, kind in NEW_COLUMNS.items()}


class _Careful:
    """One transaction that takes checkpoints in."""

    def __init__(self, connection: Connection, target: int, *, may_be_known: bool) -> None:
        self._connection = connection
        self._target = target
        self._may_be_known = may_be_known
        self._known: dict[str, ItemRow] = {}
        self._taken: set[tuple[str, int]] = set()
        self._rows: list[_Row] = []
        self._totals = Totals()
        self.numbers: dict[str, RunNumbers] = {}

    def take(self, asked: Sequence[_Asked]) -> list[PutOutcome]:
        self._read([(each.new_item, terms) for each, terms in asked if isinstance(each, Prepared)])
        outcomes = [self._settle(each, terms) for each, terms in asked]
        self._write()
        return outcomes

    def _read(self, sound: Sequence[tuple[NewItem, PutTerms]]) -> None:
        target, say = self._target, self._connection.execute
        runs = sorted({new_item.run_id for new_item, _ in sound})
        ids = [
            new_item.checkpoint_id
            for new_item, terms in sound
            if self._may_be_known or not terms.are_new or new_item.tells_fingerprint or new_item.fingerprint
        ]
        wanted = [(each.run_id, each.sequence) for each, _ in sound if each.sequence is not None]
        # All is asked before the first answer is read, so that it is one turn.
        numbers = say(statements.LOCK_RUNS.encode(), (target, runs))
        totals = say(statements.SELECT_TOTAL.encode(), (target,))
        known = say(statements.SELECT_ITEMS.encode(), (target, ids)) if ids else ()
        taken = say(statements.SELECT_TAKEN, (*columns_of(wanted), target)) if wanted else ()
        self.numbers = {run_id: RunNumbers(highest, floor) for run_id, highest, floor in numbers}
        self._totals = Totals(*(totals.fetchone() or ()))
        self._known = {row.checkpoint_id: row for row in map(ItemRow._make, known)}
        self._taken = set(taken)

    def _write(self) -> None:
        begun = {run_id: each for run_id, each in self.numbers.items() if each.highest or each.floor}
        if self._rows:
            values = {
                "target": self._target,
                "runs": arrays.texts(list(begun)),
                "highest": arrays.numbers(each.highest for each in begun.values()),
                **_describe_rows(self._rows),
            }
            self._connection.execute(statements.TAKE_IN.encode(), values)
        if refused := [run_id for run_id in self.numbers if run_id not in begun]:
            # Whoever tries a new run each time, while there is no room, must not fill the database.
            self._connection.execute(statements.FORGET_RUNS.encode(), (self._target, refused))

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
