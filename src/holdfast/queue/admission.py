"""Whether a checkpoint is accepted, and under which number: decisions alone, nothing is stored here."""

import hashlib
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from holdfast.errors import CheckpointChanged, HoldfastError, InvalidCheckpoint, SpoolError, SpoolFull
from holdfast.format.checkpoint import fingerprint_body
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress
from holdfast.queue.contract import NewItem, QueueLimits
from holdfast.queue.rows import ItemRow, Totals, make_seal

IN_BODY = ""
"""Stands for a fingerprint that is still to be made of the body, if anyone asks."""


class PutTerms(NamedTuple):
    """What holds for all checkpoints that are put together.

    With `defers_fingerprints`, no fingerprint is made where the body can tell it later.
    """

    limits: QueueLimits
    layout: Layout
    now: float
    persistence: Persistence
    are_new: bool
    defers_fingerprints: bool = False


class Prepared(NamedTuple):
    """A new item with all that is costly to make, made before any lock is taken."""

    new_item: NewItem
    number: int
    body: bytes
    digest: bytes


@dataclass(slots=True)
class RunNumbers:
    """The numbers of one run: the highest that is known, and the one up to which none is given again.

    >>> numbers = RunNumbers(highest=7, floor=3)
    >>> [numbers.choose(wanted, lambda number: number == 5) for wanted in (None, 9, 4, 5, 3)]
    [8, 9, 4, 8, 8]
    """

    highest: int = 0
    floor: int = 0

    def choose(self, wanted: int | None, is_taken: Callable[[int], bool]) -> int:
        """Return `wanted` if it is free, else the number after the highest."""
        if wanted is None or wanted <= self.floor or (wanted <= self.highest and is_taken(wanted)):
            return self.highest + 1
        return wanted

    def take(self, number: int) -> None:
        """Mark `number` as known."""
        self.highest = max(self.highest, number)


def prepare(
    new_items: Sequence[NewItem], next_number: Callable[[str], int]
) -> list[Prepared | HoldfastError]:
    """Return each new item under its likely number, or what is wrong with it.

    `next_number` tells the likely next number of a run. It may be wrong, as other processes take numbers
    too; then the body is made a second time.
    """
    following: dict[str, int] = {}
    prepared: list[Prepared | HoldfastError] = []
    for new_item in new_items:
        run_id = new_item.run_id
        try:
            check_ids(run_id, new_item.checkpoint_id)
            number = following.get(run_id) or next_number(run_id)
            likely = number if new_item.sequence is None else new_item.sequence
            prepared.append(make_body(new_item, likely))
            following[run_id] = max(number, likely + 1)
        except SpoolError:
            raise
        except HoldfastError as error:
            prepared.append(error)
    return prepared


def make_body(new_item: NewItem, number: int) -> Prepared:
    """Return a new item with the body that it has under this number."""
    body = new_item.body(number)
    return Prepared(new_item, number, body, hashlib.sha256(body).digest())


def make_row(prepared: Prepared, terms: PutTerms) -> ItemRow:
    """Return the row of a checkpoint that is accepted, as it waits."""
    new_item, number, digest = prepared.new_item, prepared.number, prepared.digest
    is_deferred = terms.defers_fingerprints and new_item.tells_fingerprint
    identity = (
        new_item.checkpoint_id,
        new_item.run_id,
        number,
        new_item.trigger.value,
        new_item.priority.rank,
        len(prepared.body),
        float(terms.now),
        int(new_item.sequence != number),
    )
    return ItemRow(
        None,
        *identity,
        digest=digest,
        seal=make_seal(identity, digest),
        fingerprint=IN_BODY if is_deferred else new_item.fingerprint,
        persistence=terms.persistence.value,
        status=Progress.SPOOLED.value,
        file_path=terms.layout.checkpoint_path(new_item.run_id, number, new_item.trigger),
        changed_at=terms.now,
    )


def tell_fingerprint(row: ItemRow, body: bytes | None) -> str | None:
    """Return the fingerprint that the body of this row tells; None if there is none, or it is not sound."""
    if body is None or hashlib.sha256(body).digest() != row.digest:
        return None
    try:
        return fingerprint_body(body)
    except (InvalidCheckpoint, ValueError):
        return None


def check_known(new_item: NewItem, row: ItemRow) -> None:
    """Raise CheckpointChanged unless `new_item` says the same as the checkpoint of this id did."""
    if new_item.run_id == row.run_id:
        if new_item.fingerprint and new_item.fingerprint == row.fingerprint:
            return
        # One of the two may have no fingerprint, or one that was made in another way, as of what comes back
        # sealed from an export: compare what would be stored.
        if make_body(new_item, row.sequence).digest == row.digest:
            return
    raise CheckpointChanged(new_item.checkpoint_id)


def check_ids(run_id: str, checkpoint_id: str) -> None:
    """Raise InvalidCheckpoint for ids that name nothing."""
    if not run_id or "|" in run_id:
        raise InvalidCheckpoint("run_id", "it is empty or contains a bar")
    if not checkpoint_id:
        raise InvalidCheckpoint("checkpoint_id", "it is empty")


def check_limits(totals: Totals, size_bytes: int, limits: QueueLimits) -> Totals:
    """Return the totals with one more item of this size. Raises SpoolFull if it is one too many."""
    if not has_room(totals, size_bytes, limits):
        items, held_bytes = totals.depth + totals.set_aside, totals.bytes + totals.set_aside_bytes
        raise SpoolFull(
            f"the spool holds {items:,} checkpoints in {held_bytes:,} bytes and takes at most "
            f"{limits.max_items:,} in {limits.max_bytes:,}; let it drain, or raise its limit"
        )
    return totals._replace(depth=totals.depth + 1, bytes=totals.bytes + size_bytes)


def has_room(totals: Totals, size_bytes: int, limits: QueueLimits) -> bool:
    """Whether one more item of this size is not one too many."""
    held_bytes = totals.bytes + totals.set_aside_bytes
    is_too_many = totals.depth + totals.set_aside >= limits.max_items
    return not is_too_many and held_bytes + size_bytes <= limits.max_bytes
