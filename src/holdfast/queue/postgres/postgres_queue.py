"""The queue that several machines share: PostgreSQL tables, one drainer for each target."""

import hashlib
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any, TypeVar

from holdfast.clock import Clock
from holdfast.disk import make_private_folder
from holdfast.errors import HoldfastError, SpoolDamaged, UnknownRun
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority
from holdfast.queue.admission import Prepared, PutTerms, check_limits, prepare
from holdfast.queue.common import CommonQueue, NextNumbers
from holdfast.queue.contract import (
    DAMAGED,
    LONGEST_BACKOFF_S,
    Backoff,
    Journey,
    NewItem,
    PutOutcome,
    Quarantined,
    QueueLimits,
    QueueStatus,
    Wake,
)
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.admitting import Intake
from holdfast.queue.postgres.changing import Change
from holdfast.queue.postgres.database import Connection, Database, check_not_saving
from holdfast.queue.postgres.lease import Lease
from holdfast.queue.postgres.migrations import prepare_database
from holdfast.queue.postgres.news import News
from holdfast.queue.postgres.together import Together
from holdfast.queue.room import free_disk_bytes, too_full
from holdfast.queue.rows import ItemRow, Totals, make_journey, understand_all, understand_item

T = TypeVar("T")
_Prepared = Sequence[Prepared | HoldfastError]

# Those who save wait for the server's disk together; a few transactions at once keep it busy.
MOST_TRANSACTIONS = 3
_PURGE_CHUNK = 500
_SETTLED = frozenset({Progress.VERIFIED, Progress.REFUSED})


class PostgresQueue(CommonQueue):
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
        self._database = database
        self._owns_database = owns_database
        self._target = target
        self._folder = folder
        self._limits = limits
        self._clock = clock
        self._layout = layout
        self._lease = Lease(database, target)
        self._news = News(database, target)
        self._intake = Intake(database, target)
        self._together = Together(self._take_in, MOST_TRANSACTIONS)
        self._next_numbers = NextNumbers()
        self._items: dict[tuple[Any, ...], QueueItem] = {}
        self._newer: frozenset[str] | None = None

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

    def pending(self, now: float | None = None) -> list[QueueItem]:
        # A drain lists again and again, and most rows are those of the last time.
        rows = self._look(statements.SELECT_WAITING, self._target)
        known = self._items
        found, self._newer = understand_all(rows, lambda row: known.get(row) or understand_item(row[:-1]))
        self._items = found
        if now is None:
            return list(found.values())
        latest = now + LONGEST_BACKOFF_S
        return [item for row, item in found.items() if not now < row[-1] <= latest]

    def newer_runs(self) -> frozenset[str]:
        if self._newer is None:
            self.pending()
        return self._newer or frozenset()

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

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        digest = hashlib.sha256(body).digest()
        path = self._layout.checkpoint_path(item.run_id, sequence, item.trigger)

        def work(change: Change) -> QueueItem:
            row = change.lock_known(item.checkpoint_id)
            if row.status in _SETTLED:
                raise UnknownRun(f"checkpoint {item.checkpoint_id} does not wait in the spool any more")
            moved = row._replace(sequence=sequence, size=len(body), digest=digest).sealed()
            changes = (sequence, len(body), digest, moved.seal, path, change.now, body, row.arrival)
            change.execute(statements.SET_NUMBER, changes)
            highest = max(row.sequence, sequence)
            change.raise_runs([(row.run_id, highest, 0)])
            change.count(bytes_more=len(body) - row.size)
            return understand_item(moved[1:9])

        return self._change(work)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        def work(change: Change) -> None:
            rows = change.lock_rows(outcomes)
            waiting = [row for row in rows if row.status == Progress.SPOOLED]
            change.deliver(statements.SET_COMMITTED, waiting, outcomes, Progress.COMMITTED)

        self._change(work)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        def work(change: Change) -> None:
            rows = change.lock_rows(outcomes)
            rows = [row for row in rows if row.status != Progress.VERIFIED]
            aside = [row.size for row in rows if row.status == Progress.REFUSED]
            waiting = [row.size for row in rows if row.status != Progress.REFUSED]
            change.deliver(statements.SET_VERIFIED, rows, outcomes, Progress.VERIFIED)
            change.count(-len(waiting), -sum(waiting), -len(aside), -sum(aside))

        self._change(work)

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        ids = [item.checkpoint_id for item in items]
        values = (not_before, _clean(reason), self._clock.now(), self._target, ids)
        self._change(lambda change: change.execute(statements.SET_BACKOFF, values))

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        row = self._find(checkpoint_id)
        return Backoff(row.attempts, row.not_before, row.reason or "") if row and row.attempts else None

    def set_aside(self, item: QueueItem, reason: str) -> None:
        def work(change: Change) -> None:
            row = change.lock_known(item.checkpoint_id)
            if row.status not in _SETTLED:
                change.set_status(row, Progress.REFUSED, _clean(reason))
                change.count(-1, -row.size, +1, +row.size)

        self._change(work)

    def set_aside_entries(self) -> list[Quarantined]:
        rows = [ItemRow._make(row) for row in self._look(statements.SELECT_SET_ASIDE, self._target)]
        reasons = {row[1:9]: row.reason or "" for row in rows}
        items, _ = understand_all(reasons, understand_item)
        return [Quarantined(item, reasons[columns]) for columns, item in items.items()]

    def restore(self, checkpoint_id: str) -> Receipt:
        _, body = self._find_body(checkpoint_id)

        def work(change: Change) -> Receipt:
            row = change.lock_known(checkpoint_id)
            if row.status != Progress.REFUSED:
                return row.receipt
            if body is None:
                raise UnknownRun("the body of this checkpoint is not in the spool")
            if hashlib.sha256(body).digest() != row.digest:
                raise SpoolDamaged(f"the body of checkpoint {checkpoint_id} is damaged; it stays set aside")
            change.set_status(row, Progress.SPOOLED, None)
            change.count(+1, +row.size, -1, -row.size)
            return row._replace(status=Progress.SPOOLED, reason=None).receipt

        return self._change(work)

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        row = self._find(checkpoint_id)
        return row.receipt if row else None

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        return self._drop(checkpoint_ids, but_for=frozenset({Progress.VERIFIED}))

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        self._drop(checkpoint_ids, but_for=_SETTLED)

    def _drop(self, checkpoint_ids: Iterable[str], *, but_for: frozenset[Progress]) -> int:
        """Drop checkpoints with their receipts, and return how many went. Their numbers stay taken."""
        wanted = list(checkpoint_ids)

        def work(change: Change) -> int:
            rows = [row for row in change.lock_rows(wanted) if row.status not in but_for]
            aside = [row.size for row in rows if row.status == Progress.REFUSED]
            waiting = [row.size for row in rows if row.status != Progress.REFUSED]
            change.raise_runs([(row.run_id, row.sequence, 0) for row in rows])
            change.execute(statements.DELETE_ITEMS, ([row.arrival for row in rows],))
            change.count(-len(waiting), -sum(waiting), -len(aside), -sum(aside))
            return len(rows)

        return self._change(work) if wanted else 0

    def fingerprint(self, checkpoint_id: str, _body: bytes, /) -> str | None:
        row = self._find(checkpoint_id)
        return row.fingerprint if row else None

    def forget_receipts(self, run_id: str) -> int:
        def work(change: Change) -> int:
            gone = change.execute(statements.DELETE_VERIFIED, (self._target, run_id)).fetchall()
            highest = max((number for (number,) in gone), default=0)
            change.raise_runs([(run_id, highest, highest)])
            return len(gone)

        return self._change(work)

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        def work(change: Change) -> int:
            (known,) = change.execute(statements.COUNT_VERIFIED, (self._target,)).fetchone() or (0,)
            most = min(_PURGE_CHUNK, max(0, known - keep))
            gone = change.execute(statements.DELETE_OLD, (self._target, older_than, most)).fetchall()
            change.raise_runs([(run_id, number, number) for run_id, number in gone])
            return len(gone)

        purged = 0
        while count := self._change(work):
            purged += count
        return purged

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        rows = self._look(statements.SELECT_ITEMS, self._target, list(checkpoint_ids))
        return {row[1]: row[0] for row in rows}

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        return list(map(make_journey, self._look(statements.SELECT_JOURNEYS, self._target, run_id, most)))

    def known_sequence(self, run_id: str) -> int:
        rows = self._look(statements.SELECT_RUNS, self._target, [run_id])
        return max((highest for _, highest, _ in rows), default=0)

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        if self.known_sequence(run_id) < sequence:
            self._change(lambda change: change.raise_runs([(run_id, sequence, 0)]))

    def note(self, name: str, value: bytes) -> None:
        values = (self._target, name, value)
        self._change(lambda change: change.execute(statements.WRITE_NOTE, values))

    def notes(self) -> dict[str, bytes]:
        return dict(self._look(statements.SELECT_NOTES, self._target))

    def forget(self, *names: str) -> None:
        values = (self._target, list(names))
        self._change(lambda change: change.execute(statements.DELETE_NOTES, values))

    def status(self, now: float) -> QueueStatus:
        ranks = [each.rank for each in Priority]

        def work(connection: Connection) -> QueueStatus:
            totals = self._read_totals(connection)
            firsts = connection.execute(statements.SELECT_OLDEST, (self._target, ranks)).fetchall()
            oldest = min((moment for (moment,) in firsts if moment is not None), default=now)
            return QueueStatus(
                depth=totals.depth,
                bytes=totals.bytes,
                oldest_age_s=max(0.0, now - oldest),
                set_aside=totals.set_aside,
                set_aside_bytes=totals.set_aside_bytes,
                salvaged=0,
                lost=0,
            )

        return self._database.look(work)

    def drainer(self) -> AbstractContextManager[None]:
        return self._lease.held()

    def drained_by(self) -> str | None:
        holder = self._lease.holder()
        return holder.name if holder else None

    def listen(self, wake: Wake) -> None:
        self._news.listen(wake)

    def write_back(self) -> None:
        """Do nothing: the database sees to its log itself."""

    def trouble(self) -> str | None:
        return None

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

    def _change(self, work: Callable[[Change], T]) -> T:
        """Carry out `work` as one transaction, unless this thread was to drain and another has taken over."""

        def guarded(connection: Connection, _: bool) -> T:
            self._lease.check(connection)
            return work(Change(connection, self._target, self._clock.now()))

        return self._database.change(guarded, is_long=True)

    def _find(self, checkpoint_id: str) -> ItemRow | None:
        rows = self._look(statements.SELECT_ITEMS, self._target, [checkpoint_id])
        return ItemRow._make(rows[0]) if rows else None

    def _find_body(self, checkpoint_id: str) -> tuple[ItemRow, bytes | None]:
        rows = self._look(statements.SELECT_BODY, self._target, checkpoint_id)
        if not rows:
            raise UnknownRun(f"checkpoint {checkpoint_id} is not in the spool")
        *columns, body = rows[0]
        return ItemRow._make(columns), body

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


def _clean(reason: str) -> str:
    """Return a reason as PostgreSQL can keep it."""
    return reason.replace("\0", "").encode("utf-8", "replace").decode()
