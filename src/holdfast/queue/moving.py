"""Moving checkpoints from one queue to another: each once, because its id tells, in the order of arrival."""

from collections.abc import Sequence
from dataclasses import dataclass, replace

from holdfast.errors import HoldfastError, InvalidCheckpoint, SpoolDamaged, SpoolError
from holdfast.format.checkpoint import renumber_body
from holdfast.format.receipt import Persistence, QueueItem, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.logs import log
from holdfast.queue.contract import Queue

MOST_TOGETHER = 200
MOST_BYTES_TOGETHER = 16 * 1024**2


@dataclass(frozen=True, slots=True)
class MovedItem:
    """A checkpoint on its way from one queue to another."""

    checkpoint_id: str
    run_id: str
    trigger: Trigger
    priority: Priority
    sequence: int | None
    fingerprint: str | None
    stored: bytes
    stored_sequence: int
    tells_fingerprint: bool = False

    def body(self, sequence: int) -> bytes:
        """Return the bytes as they were stored, under this number. Raises InvalidCheckpoint."""
        if sequence == self.stored_sequence:
            return self.stored
        try:
            return renumber_body(self.stored, sequence)
        except ValueError as error:  # a caller's orjson.Fragment was taken at its word
            raise InvalidCheckpoint("", f"its body is not JSON: {error}") from error

    def without_number(self) -> "MovedItem":
        """Return the same checkpoint, asking for the run's next number."""
        return replace(self, sequence=None)


def first_batch(source: Queue, waiting: Sequence[QueueItem]) -> list[QueueItem]:
    """Return those of the waiting items that came first, as many as move together."""
    arrivals = source.arrivals(item.checkpoint_id for item in waiting)
    known = [item for item in waiting if item.checkpoint_id in arrivals]
    known.sort(key=lambda item: arrivals[item.checkpoint_id])
    batch: list[QueueItem] = []
    size_bytes = 0
    for item in known[:MOST_TOGETHER]:
        size_bytes += item.size_bytes
        if batch and size_bytes > MOST_BYTES_TOGETHER:
            break
        batch.append(item)
    return batch


def move_batch(
    source: Queue, target: Queue, batch: Sequence[QueueItem], *, persistence: Persistence
) -> list[Receipt]:
    """Move these items, and return the receipts of those that moved.

    Killed anywhere, nothing is lost, and moving again doubles nothing: an item leaves its queue once the
    other one has it. One that is not accepted there is set aside. Raises SpoolError if the other is full.
    """
    moving = [each for item in batch if (each := _read(source, item))]
    outcomes = target.put_all(moving, persistence=persistence)
    taken: list[Receipt] = []
    for each, outcome in zip(moving, outcomes, strict=True):
        if isinstance(outcome, SpoolError):  # it is full: the rest waits here, in its order
            source.hand_over([receipt.checkpoint_id for receipt in taken])
            raise outcome
        if isinstance(outcome, HoldfastError):
            item = next(item for item in batch if item.checkpoint_id == each.checkpoint_id)
            source.set_aside(item, str(outcome))
            log.error("checkpoint_set_aside", checkpoint_id=each.checkpoint_id, cause=str(outcome))
        else:
            taken.append(outcome)
    source.hand_over([receipt.checkpoint_id for receipt in taken])
    return taken


def move_all(source: Queue, target: Queue, items: Sequence[QueueItem]) -> None:
    """Move these items, in the order of their arrival; `source` learns how far their runs are.

    Killed anywhere, it is done again the next time. Raises SpoolError.
    """
    rest = list(items)
    while batch := first_batch(source, rest):
        receipts = move_batch(source, target, batch, persistence=Persistence.NORMAL)
        for run_id, sequence in {each.run_id: each.sequence_number for each in receipts}.items():
            source.learn_sequence(run_id, sequence)
        moved = {item.checkpoint_id for item in batch}
        rest = [item for item in rest if item.checkpoint_id not in moved]
    log.info("checkpoints_handed_on", checkpoints=len(items), runs=len({item.run_id for item in items}))


def _read(source: Queue, item: QueueItem) -> MovedItem | None:
    try:
        stored = source.read(item)
    except SpoolDamaged as error:
        log.error("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
        return None
    return MovedItem(
        checkpoint_id=item.checkpoint_id,
        run_id=item.run_id,
        trigger=item.trigger,
        priority=item.priority,
        sequence=None if item.is_automatic else item.sequence,
        fingerprint=source.fingerprint(item.checkpoint_id, stored),
        stored=stored,
        stored_sequence=item.sequence,
    )
