"""What every queue does alike, wherever it keeps its checkpoints, and what those with tables decide alike."""

import hashlib
from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Protocol, TypeVar

from holdfast.errors import HoldfastError, SpoolDamaged, UnknownRun
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.queue.admission import RunNumbers
from holdfast.queue.contract import (
    DAMAGED,
    LONGEST_BACKOFF_S,
    Backoff,
    NewItem,
    PutOutcome,
    Quarantined,
    QueueStatus,
)
from holdfast.queue.rows import ItemRow, ItemsByRow, Totals, count_change, understand_item

T = TypeVar("T")

_MAX_REMEMBERED = 10_000
_PURGE_CHUNK = 500
_SETTLED = frozenset({Progress.VERIFIED, Progress.REFUSED})


class CommonQueue(ABC):
    """The part of the protocol `Queue` that follows from the rest of it."""

    @abstractmethod
    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]: ...

    @abstractmethod
    def set_aside_entries(self) -> list[Quarantined]: ...

    def put(self, new_item: NewItem, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        (outcome,) = self.put_all([new_item], persistence=persistence)
        if isinstance(outcome, HoldfastError):
            raise outcome
        return outcome

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        return any(
            each.item.checkpoint_id == checkpoint_id and each.reason != DAMAGED
            for each in self.set_aside_entries()
        )


class NextNumbers:
    """Guesses at the next number of each run, from what this process has seen.

    They are not read, because a save would wait for whoever is listing. After a wrong guess the body is made
    once more.
    """

    def __init__(self) -> None:
        self._known: dict[str, int] = {}

    def likely(self, run_id: str) -> int:
        """Return which number a run will probably give next."""
        return self._known.get(run_id, 1)

    def remember(self, numbers: Mapping[str, RunNumbers]) -> None:
        """Let the next guesses begin where these numbers end."""
        if len(self._known) > _MAX_REMEMBERED:
            self._known.clear()
        self._known |= {run_id: each.highest + 1 for run_id, each in numbers.items()}


class Change(Protocol):
    """One transaction on the tables of a queue: nobody else changes the rows that it finds until it ends.

    No number that a row loses is given again. What drops bodies returns those rows that had one, and what
    drops receipts the run and number of each.
    """

    def find_rows(self, checkpoint_ids: Iterable[str]) -> Sequence[ItemRow]: ...

    def find_known(self, checkpoint_id: str) -> ItemRow: ...

    def read_body(self, row: ItemRow) -> bytes | None: ...

    def store(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> None: ...

    def store_moved(self, row: ItemRow, moved: ItemRow, body: bytes) -> None: ...

    def store_verified(self, rows: Sequence[ItemRow], changed: Sequence[ItemRow]) -> Sequence[ItemRow]: ...

    def set_backoff(self, checkpoint_ids: Sequence[str], reason: str, not_before: float) -> object: ...

    def drop(self, rows: Sequence[ItemRow]) -> Sequence[ItemRow]: ...

    def drop_verified(self, run_id: str) -> list[tuple[str, int]]: ...

    def drop_oldest(self, older_than: float, most: int) -> list[tuple[str, int]]: ...

    def count_verified(self) -> int: ...

    def raise_runs(self, runs: Sequence[tuple[str, int, int]]) -> None: ...

    def count(self, more: Totals) -> object: ...


class TableQueue(CommonQueue):
    """A queue in the tables of a database: what becomes of an item is decided here, and stored elsewhere."""

    def __init__(self, layout: Layout) -> None:
        self._layout = layout
        self._items: ItemsByRow = {}
        self._newer: frozenset[str] | None = None

    @abstractmethod
    def _change(self, work: Callable[[Change], T]) -> T:
        """Carry out `work` as one transaction."""

    def _tell_settled(self, rows: Sequence[ItemRow]) -> None:
        """Tell others who share this queue that these were verified or refused."""

    @abstractmethod
    def _find(self, checkpoint_id: str) -> ItemRow | None:
        """Return the row of a checkpoint, if it is known."""

    @abstractmethod
    def _read_waiting(self, known: ItemsByRow) -> tuple[ItemsByRow, frozenset[str]]:
        """Return what `understand_all` does of the waiting rows; what is `known` is not made again.

        Each row is that of an item, then `not_before`.
        """

    @abstractmethod
    def _read_figures(self) -> tuple[Totals, Sequence[float | None]]:
        """Return the totals, and when the oldest waiting item of each priority arrived."""

    @abstractmethod
    def known_sequence(self, run_id: str) -> int: ...

    def pending(self, now: float | None = None) -> list[QueueItem]:
        # A drain lists again and again, and most rows are those of the last time.
        found, self._newer = self._read_waiting(self._items)
        self._items = found
        if now is None:
            return list(found.values())
        latest = now + LONGEST_BACKOFF_S
        return [item for row, item in found.items() if not now < row[8] <= latest]

    def newer_runs(self) -> frozenset[str]:
        if self._newer is None:
            self.pending()
        return self._newer or frozenset()

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        digest = hashlib.sha256(body).digest()
        path = self._layout.checkpoint_path(item.run_id, sequence, item.trigger)

        def work(change: Change) -> QueueItem:
            row = change.find_known(item.checkpoint_id)
            if row.status in _SETTLED:
                raise UnknownRun(f"checkpoint {item.checkpoint_id} does not wait in the spool any more")
            moved = row._replace(sequence=sequence, size=len(body), digest=digest, file_path=path).sealed()
            change.store_moved(row, moved, body)
            _count(change, [row], [moved])
            return understand_item(moved[1:9])

        return self._change(work)

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        def work(change: Change) -> None:
            rows = [row for row in change.find_rows(outcomes) if row.status == Progress.SPOOLED]
            change.store(
                rows, [row.delivered(outcomes[row.checkpoint_id], Progress.COMMITTED) for row in rows]
            )

        self._change(work)

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        self._tell_settled(self._change(lambda change: settle(change, outcomes)))

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        ids = [item.checkpoint_id for item in items]
        self._change(lambda change: change.set_backoff(ids, reason, not_before))

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        row = self._find(checkpoint_id)
        return Backoff(row.attempts, row.not_before, row.reason or "") if row and row.attempts else None

    def set_aside(self, item: QueueItem, reason: str) -> None:
        def work(change: Change) -> list[ItemRow]:
            row = change.find_known(item.checkpoint_id)
            return [] if row.status in _SETTLED else [_set_status(change, row, Progress.REFUSED, reason)]

        self._tell_settled(self._change(work))

    def restore(self, checkpoint_id: str) -> Receipt:
        def work(change: Change) -> Receipt:
            row = change.find_known(checkpoint_id)
            if row.status != Progress.REFUSED:
                return row.receipt
            body = change.read_body(row)
            if body is None:
                raise UnknownRun("the body of this checkpoint is not in the spool")
            if hashlib.sha256(body).digest() != row.digest:
                raise SpoolDamaged(f"the body of checkpoint {checkpoint_id} is damaged; it stays set aside")
            return _set_status(change, row, Progress.SPOOLED, None).receipt

        return self._change(work)

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        row = self._find(checkpoint_id)
        return row.receipt if row else None

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        return self._drop(checkpoint_ids, but_for={Progress.VERIFIED})

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        """Let waiting checkpoints, which another queue has taken in, leave without a receipt."""
        self._drop(checkpoint_ids, but_for=_SETTLED)

    def _drop(self, checkpoint_ids: Iterable[str], *, but_for: Collection[str]) -> int:
        wanted = list(checkpoint_ids)

        def work(change: Change) -> int:
            rows = [row for row in change.find_rows(wanted) if row.status not in but_for]
            _count(change, change.drop(rows))
            return len(rows)

        return self._change(work) if wanted else 0

    def forget_receipts(self, run_id: str) -> int:
        return self._change(lambda change: _keep_numbers(change, change.drop_verified(run_id)))

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        def work(change: Change) -> int:
            most = min(_PURGE_CHUNK, max(0, change.count_verified() - keep))
            return _keep_numbers(change, change.drop_oldest(older_than, most))

        purged = 0
        while count := self._change(work):
            purged += count
        return purged

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
            self._change(lambda change: change.raise_runs(higher))

    def status(self, now: float) -> QueueStatus:
        totals, arrivals = self._read_figures()
        oldest = min((moment for moment in arrivals if moment is not None), default=now)
        return QueueStatus(oldest_age_s=max(0.0, now - oldest), **totals._asdict())

    def trouble(self) -> str | None:
        return None


def settle(change: Change, outcomes: Mapping[str, Delivery]) -> list[ItemRow]:
    """Let these checkpoints leave the queue: they are verified. Returns those that were not before."""
    rows = [row for row in change.find_rows(outcomes) if row.status != Progress.VERIFIED]
    delivered = [row.delivered(outcomes[row.checkpoint_id], Progress.VERIFIED) for row in rows]
    _count(change, change.store_verified(rows, delivered))
    return delivered


def _set_status(change: Change, row: ItemRow, status: Progress, reason: str | None) -> ItemRow:
    """Let a row with its body say how it stands with its checkpoint, and why."""
    changed = row._replace(status=status.value, reason=reason, attempts=0, not_before=0.0)
    change.store([row], [changed])
    _count(change, [row], [changed])
    return changed


def _count(change: Change, before: Iterable[ItemRow], after: Iterable[ItemRow] = ()) -> None:
    more = count_change(before, after)
    if any(more):
        change.count(more)


def _keep_numbers(change: Change, gone: Sequence[tuple[str, int]]) -> int:
    """See to it that none of these numbers, whose rows are gone, is given again. Returns how many."""
    change.raise_runs([(run_id, number, number) for run_id, number in gone])
    return len(gone)
