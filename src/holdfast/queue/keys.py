"""The keys of the spool's rows. A item's key says all that planning needs, so that no body is read."""

from dataclasses import dataclass

from holdfast.disk import DatabaseDamaged
from holdfast.errors import InvalidCheckpoint
from holdfast.format.receipt import QueueItem
from holdfast.format.triggers import Priority, Trigger

TICKET = "ticket|"
ASIDE = "aside|"
RECEIPT = "receipt|"
RUN = "run|"
HOLD = "hold|"
NOTE = "note|"
TOTALS = "totals"
JOURNAL = "journal"
FORMAT = "format"

_PRIORITIES = tuple(Priority)
_AUTOMATIC = "+"


@dataclass(frozen=True, slots=True)
class Slot:
    """A item and its place in the line: the how-manieth that this spool ever accepted."""

    arrival: int
    item: QueueItem

    @property
    def name(self) -> str:
        """Return the part of the key that a waiting and a set-aside item share."""
        item = self.item
        sequence = f"{item.sequence}{_AUTOMATIC if item.is_automatic else ''}"
        return (
            f"{item.priority.rank}|{self.arrival:012d}|{item.arrived_at!r}|{sequence}|"
            f"{item.trigger}|{item.size_bytes}|{item.run_id}|{item.checkpoint_id}"
        )


def parse_slot(key: str) -> Slot:
    """Return what the key of a item, waiting or set aside, says. Raises DatabaseDamaged.

    >>> item = QueueItem("c-1", "build-42", 7, Trigger.MANUAL, Priority.MEDIUM, 512, 1.5, is_automatic=True)
    >>> parse_slot(TICKET + Slot(3, item).name) == Slot(3, item)
    True
    """
    try:
        _, rank, arrival, arrived_at, sequence, trigger, size, run_id, checkpoint_id = key.split("|", 8)
        item = QueueItem(
            checkpoint_id,
            run_id,
            int(sequence.removesuffix(_AUTOMATIC)),
            Trigger(trigger),
            _PRIORITIES[int(rank)],
            int(size),
            float(arrived_at),
            sequence.endswith(_AUTOMATIC),
        )
        return Slot(int(arrival), item)
    except (ValueError, IndexError) as error:
        raise DatabaseDamaged(f"the spool holds a key that it did not write: {key!r}") from error


def check_ids(run_id: str, checkpoint_id: str) -> None:
    """Refuse ids that a key could not carry. Raises InvalidCheckpoint."""
    if not run_id or "|" in run_id:
        raise InvalidCheckpoint("run_id", "it is empty or contains a bar")
    if not checkpoint_id:
        raise InvalidCheckpoint("checkpoint_id", "it is empty")
