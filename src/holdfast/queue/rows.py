"""The rows of the queue as values: an item with all that is known of it, and the running totals."""

import hashlib
from collections.abc import Callable, Iterable, Sequence
from operator import itemgetter
from typing import Any, NamedTuple

import orjson

from holdfast.errors import SpoolUnwritable
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue.contract import Journey, Quarantined

_TRIGGERS = {str(each): each for each in Trigger}
_PRIORITIES = tuple(Priority)
# By their text: to ask the enumeration takes ten times as long.
_STATUSES = {str(each): each for each in Progress}
_PERSISTENCES = {str(each): each for each in Persistence}

ItemsByRow = dict[tuple[Any, ...], QueueItem]


class Totals(NamedTuple):
    """Running totals, changed in the same transaction as the rows that they count."""

    depth: int = 0
    bytes: int = 0
    set_aside: int = 0
    set_aside_bytes: int = 0
    salvaged: int = 0
    lost: int = 0


class ItemRow(NamedTuple):
    """A row of `item`, column by column."""

    arrival: int | None
    checkpoint_id: str
    run_id: str
    sequence: int
    trigger: str
    priority: int
    size: int
    arrived_at: float
    is_automatic: int
    digest: bytes
    seal: bytes
    fingerprint: str | None
    persistence: str
    status: str
    file_path: str
    commit_sha: str | None = None
    blob_sha: str | None = None
    reason: str | None = None
    attempts: int = 0
    not_before: float = 0.0
    changed_at: float = 0.0

    @property
    def receipt(self) -> Receipt:
        """What its caller is told."""
        return Receipt(
            self.checkpoint_id,
            self.run_id,
            self.sequence,
            _STATUSES[self.status],
            _PERSISTENCES[self.persistence],
            self.file_path,
            self.commit_sha,
            self.blob_sha,
            self.reason,
        )

    @property
    def is_plausible(self) -> bool:
        """Whether the words that no seal covers are some that we know."""
        return self.status in _STATUSES and self.persistence in _PERSISTENCES

    def sealed(self) -> "ItemRow":
        """Return the row with the seal that it must have."""
        return self._replace(seal=make_seal(self[1:9], self.digest))

    def delivered(self, delivery: Delivery, status: Progress) -> "ItemRow":
        """Return the row that says where the checkpoint has arrived; once verified, it is not tried again."""
        is_last = status is Progress.VERIFIED
        return self._replace(
            sequence=delivery.sequence,
            status=status.value,
            file_path=delivery.file_path,
            commit_sha=delivery.commit_sha,
            blob_sha=delivery.blob_sha,
            reason=None,
            attempts=0 if is_last else self.attempts,
            not_before=0.0 if is_last else self.not_before,
        ).sealed()

    @property
    def is_sound(self) -> bool:
        """Whether nothing that the seal covers was altered."""
        return self.seal == make_seal(self[1:9], self.digest)


WAITING_COLUMNS = ", ".join((*ItemRow._fields[1:9], "not_before"))
# What changes while a checkpoint is on its way.
CHANGING = (
    *("sequence", "size", "digest", "seal", "status", "file_path"),
    *("commit_sha", "blob_sha", "reason", "attempts", "not_before"),
)
select_changing = itemgetter(*map(ItemRow._fields.index, CHANGING))
JOURNEY_COLUMNS = "checkpoint_id, run_id, sequence, trigger, size, arrived_at, status, changed_at"


def count_change(before: Iterable[ItemRow], after: Iterable[ItemRow] = ()) -> Totals:
    """Return how the totals change when these items, which have their bodies, become those."""
    more = [0, 0, 0, 0]
    for sign, rows in ((-1, before), (+1, after)):
        for row in rows:
            place = 2 if row.status == Progress.REFUSED else 0
            more[place] += sign
            more[place + 1] += sign * row.size
    return Totals(*more)


def make_seal(identity: tuple[Any, ...], content: Any = b"") -> bytes:
    """Return the seal over the columns that make a row, and the bytes that belong to it.

    Of an item, these are the digest of its body and the columns from its id on that stay as they are; the
    arrival is given by the database. Columns of a damaged row may be anything: their seal is empty.
    """
    try:
        return hashlib.sha256(orjson.dumps(identity) + content).digest()
    except TypeError:
        return b""


def understand_item(columns: tuple[Any, ...]) -> QueueItem:
    """Return the item that the columns of a sound row stand for. Raises SpoolUnwritable for a newer one."""
    try:
        return make_item(columns)
    except (LookupError, TypeError) as error:
        raise SpoolUnwritable(
            f"checkpoint {columns[0]} in the spool is of a newer format than this Holdfast knows; "
            "use the version that wrote it"
        ) from error


def make_journey(columns: Sequence[Any]) -> Journey:
    """Return how far a checkpoint has come, by the columns that tell it."""
    checkpoint_id, run_id, sequence, trigger, size, arrived_at, status, changed_at = columns
    progress = Progress(status)
    return Journey(checkpoint_id, run_id, sequence, trigger, size, arrived_at, progress, changed_at)


def understand_all(
    rows: Iterable[tuple[Any, ...]], understand: Callable[[tuple[Any, ...]], QueueItem]
) -> tuple[ItemsByRow, frozenset[str]]:
    """Return the items of these rows, by row, and the runs that have a checkpoint of a newer Holdfast.

    Such a run waits as a whole, so that its order stays: none of its items is among these.
    """
    items, newer = {}, set()
    for row in rows:
        try:
            items[row] = understand(row)
        except SpoolUnwritable:
            newer.add(str(row[1]))
    if newer:
        items = {row: item for row, item in items.items() if item.run_id not in newer}
    return items, frozenset(newer)


def understand_set_aside(
    rows: Iterable[ItemRow], understand: Callable[[tuple[Any, ...]], QueueItem]
) -> list[Quarantined]:
    """Return the items that are set aside, with the reasons; not those of runs of a newer Holdfast."""
    reasons = {row[1:9]: row.reason or "" for row in rows}
    items, _ = understand_all(reasons, understand)
    return [Quarantined(item, reasons[columns]) for columns, item in items.items()]


def tell_newer(runs: Iterable[str]) -> str:
    """Return in one sentence which runs wait for the version that put their checkpoints."""
    named = ", ".join(sorted(runs))
    return (
        f"the spool has checkpoints of a newer format than this Holdfast knows, of run {named}: "
        "these wait until the version that wrote them drains, all others go on"
    )


def make_item(columns: tuple[Any, ...]) -> QueueItem:
    """Return the item that the second to ninth columns of `item` stand for. Raises LookupError, TypeError."""
    checkpoint_id, run_id, sequence, trigger, priority, size, arrived_at, is_automatic = columns
    return QueueItem(
        checkpoint_id,
        run_id,
        sequence,
        _TRIGGERS[trigger],
        _PRIORITIES[priority],
        size,
        arrived_at,
        bool(is_automatic),
    )
