"""The queue that several machines share: PostgreSQL tables, one drainer for each target."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clock import Clock
from holdfast.disk import make_private_folder
from holdfast.errors import HoldfastError, SpoolDamaged, UnknownRun
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress, QueueItem
from holdfast.format.triggers import Priority
from holdfast.queue.admission import Prepared, PutTerms, check_limits, prepare
from holdfast.queue.contract import (
    DAMAGED,
    Hear,
    Journey,
    NewItem,
    PutOutcome,
    Quarantined,
    QueueLimits,
    Settled,
    Wake,
)
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.admitting import Intake
from holdfast.queue.postgres.changing import PostgresChange
from holdfast.queue.postgres.database import Connection, Database, check_not_saving
from holdfast.queue.postgres.lease import Lease
from holdfast.queue.postgres.migrations import prepare_database
from holdfast.queue.postgres.news import News
from holdfast.queue.postgres.together import Together
from holdfast.queue.room import free_disk_bytes, too_full
from holdfast.queue.rows import (
    ItemRow,
    ItemsByRow,
    Totals,
    make_journey,
    understand_all,
    understand_item,
    understand_set_aside,
)
from holdfast.queue.table_queue import NextNumbers, TableQueue

T = TypeVar("T")
_Prepared = Sequence[Prepared | HoldfastError]

# Those who save wait for the server's disk together; a few transactions at once keep it busy.
MOST_TRANSACTIONS = 3


class PostgresQueue(TableQueue):
    """The durable queue of one target, as the protocol `Queue` promises it.

    `folder` is on the local disk, which must have room for the case that the database is away. A database
    that it does not own is left open when it is closed: others use it, too.
    """

    def __init__(
        self,
        database: Database,
        target: int,
        *,
        folder: Path,
        limits: QueueLimits,
        clock: Clock,
        layout: Layout,
        owns_database: bool = True,
    ) -> None:
        super().__init__(layout)
        self._database = database
        self._owns_database = owns_database
        self._target = target
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._lease = Lease(database, target)
        self._news = News(database, target)
        self._intake = Intake(database, target)
        self._together = Together(self._take_in, MOST_TRANSACTIONS)
        self._next_numbers = NextNumbers()

    @classmethod
    def open(
        cls,
        database: Database,
        target: str,
        *,
        folder: Path,
        limits: QueueLimits,
        clock: Clock,
        layout: Layout,
        owns_database: bool = True,
    ) -> "PostgresQueue":
        """Open the queue of the target of that name, with the tables made or brought up to date.

        Raises InvalidSettings if a person must act, DatabaseAway if the server does not answer.
        """
        make_private_folder(folder)
        prepare_database(database)
        number = _find_target(database, target)
        return cls(
            database,
            number,
            folder=folder,
            limits=limits,
            clock=clock,
            layout=layout,
            owns_database=owns_database,
        )

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        check_not_saving()
        terms = PutTerms(self._limits, self._layout, self._clock.now(), persistence, are_new)
        prepared = prepare(new_items, self._next_numbers.likely)
        self._check_free_space(sum(len(each.body) for each in prepared if isinstance(each, Prepared)))
        outcomes = self._together.do((prepared, terms))
        self._news.tell(is_urgent=any(each.priority is Priority.CRITICAL for each in new_items))
        return outcomes

    def check_room(self) -> None:
        self._check_free_space(1)
        check_limits(self._database.look(self._read_totals), 1, self._limits)

    def read(self, item: QueueItem) -> bytes:
        row, body = self._find_body(item.checkpoint_id)
        if body is not None and hashlib.sha256(body).digest() == row.digest and row.is_sound:
            return body
        if row.status == Progress.VERIFIED:
            # Who drains alone finds what it has listed, unless another has taken over and stored it.
            self._change(lambda _: None)
            raise UnknownRun(f"checkpoint {item.checkpoint_id} is not in the spool any more")
        self.set_aside(item, DAMAGED)
        raise SpoolDamaged(f"checkpoint {item.checkpoint_id} is set aside: {DAMAGED}")

    def set_aside_entries(self) -> list[Quarantined]:
        rows = self._look(statements.SELECT_SET_ASIDE, self._target)
        return understand_set_aside(map(ItemRow._make, rows), understand_item)

    def fingerprint(self, checkpoint_id: str, _body: bytes, /) -> str | None:
        row = self._find(checkpoint_id)
        return row.fingerprint if row else None

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        rows = self._look(statements.SELECT_ITEMS, self._target, list(checkpoint_ids))
        return {row[1]: row[0] for row in rows}

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        return list(map(make_journey, self._look(statements.SELECT_JOURNEYS, self._target, run_id, most)))

    def verified_between(self, begin: float, end: float) -> int:
        ((count,),) = self._look(statements.COUNT_VERIFIED_BETWEEN, self._target, begin, end)
        return int(count)

    def known_sequence(self, run_id: str) -> int:
        rows = self._look(statements.SELECT_RUNS, self._target, [run_id])
        return max((highest for _, highest, _ in rows), default=0)

    def note(self, name: str, value: bytes) -> None:
        values = (self._target, name, value)
        self._change(lambda change: change.execute(statements.WRITE_NOTE, values))

    def notes(self) -> dict[str, bytes]:
        return dict(self._look(statements.SELECT_NOTES, self._target))

    def forget(self, *names: str) -> None:
        values = (self._target, list(names))
        self._change(lambda change: change.execute(statements.DELETE_NOTES, values))

    def drainer(self) -> AbstractContextManager[None]:
        return self._lease.held()

    def drained_by(self) -> str | None:
        holder = self._lease.holder()
        return holder.name if holder else None

    def listen(self, wake: Wake, hear: Hear) -> None:
        self._news.listen(wake, hear)

    def write_back(self) -> None:
        """Do nothing: the database sees to its log itself."""

    def close(self) -> None:
        self._news.close()
        if self._owns_database:
            self._database.close()

    def _take_in(self, works: Sequence[tuple[_Prepared, PutTerms]]) -> list[list[PutOutcome]]:
        """Take in what callers have prepared, as one transaction."""
        asked = [(each, terms) for mine, terms in works for each in mine]
        outcomes, numbers = self._intake.take_in(asked)
        self._next_numbers.remember(numbers)
        answers = iter(outcomes)
        return [[next(answers) for _ in mine] for mine, _ in works]

    def _look(self, statement: str, *values: object) -> list[Any]:
        return self._database.look(
            lambda connection: connection.execute(statement.encode(), values).fetchall(), is_long=True
        )

    def _change(self, work: Callable[[PostgresChange], T]) -> T:
        """Carry out `work` as one transaction, unless this thread was to drain and another has taken over."""

        def guarded(connection: Connection, _: bool) -> T:
            self._lease.check(connection)
            return work(PostgresChange(connection, self._target, self._clock.now()))

        return self._database.change(guarded, is_long=True)

    def _tell_settled(self, rows: Sequence[ItemRow]) -> None:
        settled = [Settled(Progress(row.status), row.run_id, row.checkpoint_id, row.sequence) for row in rows]
        self._news.tell_settled(settled)

    def _find(self, checkpoint_id: str) -> ItemRow | None:
        rows = self._look(statements.SELECT_ITEMS, self._target, [checkpoint_id])
        return ItemRow._make(rows[0]) if rows else None

    def _find_body(self, checkpoint_id: str) -> tuple[ItemRow, bytes | None]:
        rows = self._look(statements.SELECT_BODY, self._target, checkpoint_id)
        if not rows:
            raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")
        *columns, body = rows[0]
        return ItemRow._make(columns), body

    def _read_waiting(self, known: ItemsByRow) -> tuple[ItemsByRow, frozenset[str]]:
        rows = self._look(statements.SELECT_WAITING, self._target)
        return understand_all(rows, lambda row: known.get(row) or understand_item(row[:-1]))

    def _read_figures(self) -> tuple[Totals, Sequence[float | None]]:
        values = (self._target, [each.rank for each in Priority])

        def work(connection: Connection) -> tuple[Totals, Sequence[float | None]]:
            totals = self._read_totals(connection)
            return totals, [moment for (moment,) in connection.execute(statements.SELECT_OLDEST, values)]

        return self._database.look(work)

    def _read_totals(self, connection: Connection) -> Totals:
        return Totals(*(connection.execute(statements.SELECT_TOTAL, (self._target,)).fetchone() or ()))

    def _check_free_space(self, size_bytes: int) -> None:
        """Raise SpoolUnwritable where an outage of the database could not be bridged."""
        free_bytes = free_disk_bytes(self._folder)
        if free_bytes < self._limits.min_free_bytes + size_bytes:
            raise too_full(self._folder, free_bytes, self._limits)


def _find_target(database: Database, name: str) -> int:
    def work(connection: Connection, _: bool) -> int:
        connection.execute(statements.ADD_TARGET, (name,))
        (target,) = connection.execute(statements.FIND_TARGET, (name,)).fetchone() or (0,)
        return int(target)

    known = database.look(lambda connection: connection.execute(statements.FIND_TARGET, (name,)).fetchone())
    return int(known[0]) if known else database.change(work)
