"""What a durable queue of checkpoints promises, whatever keeps it, and the values that it speaks in."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from typing import NamedTuple, Protocol

from holdfast.errors import HoldfastError
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority, Trigger

DAMAGED = "damaged: its bytes on disk are not the bytes that were stored"
LOST = "lost: the spool's database was damaged, and this checkpoint could not be read from it"

PutOutcome = Receipt | HoldfastError
Wake = Callable[[bool], None]
"""Is told that something was put, and whether a critical checkpoint may be among it."""


class Settled(NamedTuple):
    """The newest checkpoint of a run that was verified or refused."""

    progress: Progress
    run_id: str
    checkpoint_id: str
    sequence: int


Hear = Callable[[Sequence[Settled]], None]
"""Is told what another process has brought to GitHub, or set aside."""


class QueueLimits(NamedTuple):
    """How much the queue takes, and what must stay free on its disk so that draining stays possible."""

    max_bytes: int = 1024**3
    max_items: int = 100_000
    min_free_bytes: int = 64 * 1024**2


@dataclass(frozen=True, slots=True)
class QueueStatus:
    """The queue in numbers. `salvaged` and `lost` count items, over all repairs of a damaged database."""

    depth: int
    bytes: int
    oldest_age_s: float
    set_aside: int
    set_aside_bytes: int
    salvaged: int
    lost: int


LONGEST_BACKOFF_S = 900.0
"""No item is released for longer. One that would wait longer was released before the clock was set back."""


class Backoff(NamedTuple):
    """Why an item waits: how often it was tried, when to try again, and what stood in the way."""

    attempts: int
    not_before: float
    reason: str


class Quarantined(NamedTuple):
    """A checkpoint that is kept but no longer sent, and why."""

    item: QueueItem
    reason: str


class Journey(NamedTuple):
    """How far a checkpoint has come since it was put, and when that changed last."""

    checkpoint_id: str
    run_id: str
    sequence: int
    trigger: str
    size_bytes: int
    arrived_at: float
    progress: Progress
    changed_at: float


class NewItem(Protocol):
    """A checkpoint that asks to be accepted."""

    @property
    def checkpoint_id(self) -> str:
        """Return the id, the caller's or the one made for it."""
        ...

    @property
    def run_id(self) -> str:
        """Return the run that it belongs to."""
        ...

    @property
    def trigger(self) -> Trigger:
        """Return why it was made."""
        ...

    @property
    def priority(self) -> Priority:
        """Return how urgent it is."""
        ...

    @property
    def sequence(self) -> int | None:
        """Return the number that it asks for; None for the run's next."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Return a digest of the content that identifies it; None when its id was made here.

        It may be costly: ask for it only when it is needed.
        """
        ...

    @property
    def tells_fingerprint(self) -> bool:
        """Whether its fingerprint can be made of its body, so that it need not be kept beside it."""
        ...

    def body(self, sequence: int) -> bytes:
        """Return the bytes to store, under this number."""
        ...

    def without_number(self) -> "NewItem":
        """Return the same checkpoint, asking for the run's next number."""
        ...


class Queue(Protocol):
    """A durable queue. Threads and processes may put at once; one of them drains.

    What `put` returned for is safe. It leaves the queue when it is acknowledged, or when a person deletes its
    run: an item that cannot be sent is released to be tried again, or set aside with its body for a person.
    Every method raises SpoolUnwritable when nothing can be stored: then nothing has happened.
    """

    def put(self, new_item: NewItem, *, persistence: Persistence = Persistence.NORMAL) -> Receipt:
        """Accept a checkpoint. When this returns, it is safe.

        The same checkpoint again is answered with its first receipt, as that stands now. Raises
        CheckpointChanged if this id is known with other content, SpoolFull, SpoolUnwritable.
        """
        ...

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        """Accept many checkpoints in one transaction. A wrong one has its error in place of a receipt.

        If they `are_new`, an id that was made here is not looked for. Raises SpoolUnwritable if none of them
        could be stored.
        """
        ...

    def check_room(self) -> None:
        """Raise what the next checkpoint would be refused with: SpoolFull, SpoolUnwritable."""
        ...

    def pending(self, now: float | None = None) -> list[QueueItem]:
        """Return the waiting items: critical first, then as they came in. No body is read.

        With `now`, those that were released until a later time are left out. So are always those of
        `newer_runs`.
        """
        ...

    def newer_runs(self) -> frozenset[str]:
        """Return the runs of which a checkpoint waits that only a newer Holdfast understands.

        They are those that the last `pending` came upon; the queue is listed only if it never was.
        """
        ...

    def read(self, item: QueueItem) -> bytes:
        """Return the body of an item, exactly as it was put.

        Raises SpoolDamaged if it was altered since; the item is then set aside, the others go on.
        UnknownRun if it has left the queue.
        """
        ...

    def renumber(self, item: QueueItem, sequence: int, body: bytes) -> QueueItem:
        """Give a waiting item another number and the body that goes with it; its receipt follows.

        When this returns, the change is safe, so that it may be sent under the new number.
        """
        ...

    def mark_committed(self, outcomes: Mapping[str, Delivery]) -> None:
        """Note that these checkpoints, by id, are in a commit that is still to be verified. They stay."""
        ...

    def acknowledge(self, outcomes: Mapping[str, Delivery]) -> None:
        """Let these checkpoints, by id, leave the queue: they are verified in the repository."""
        ...

    def release(self, items: Sequence[QueueItem], reason: str, *, not_before: float) -> None:
        """Count a failed attempt; the items wait in their places until `not_before`.

        A time further off than LONGEST_BACKOFF_S is ignored.
        """
        ...

    def backoff(self, checkpoint_id: str) -> Backoff | None:
        """Return why an item waits, and how often it was tried; None if it was never released."""
        ...

    def set_aside(self, item: QueueItem, reason: str) -> None:
        """Take an item out of the line and keep its body; its receipt says that, and why, it is refused."""
        ...

    def set_aside_entries(self) -> list[Quarantined]:
        """Return all that is set aside, with the reasons."""
        ...

    def is_kept_aside(self, checkpoint_id: str) -> bool:
        """Whether a checkpoint is set aside with its body whole."""
        ...

    def restore(self, checkpoint_id: str) -> Receipt:
        """Put a checkpoint that was set aside back into its place in the line.

        Raises UnknownRun if there is no such checkpoint, SpoolDamaged if its body is damaged.
        """
        ...

    def discard(self, checkpoint_ids: Iterable[str]) -> int:
        """Drop checkpoints that are not verified, with their receipts: a person has deleted their run.

        Returns how many went. Their numbers stay taken.
        """
        ...

    def fingerprint(self, checkpoint_id: str, body: bytes, /) -> str | None:
        """Return the fingerprint that a checkpoint with this body was put with."""
        ...

    def hand_over(self, checkpoint_ids: Iterable[str]) -> None:
        """Let waiting checkpoints, which another queue has taken in, leave without a receipt.

        Their numbers stay taken.
        """
        ...

    def forget_receipts(self, run_id: str) -> int:
        """Drop the receipts of a run's verified checkpoints: a person deletes it, and its ids may come again.

        Returns how many went. Their numbers stay taken.
        """
        ...

    def receipt(self, checkpoint_id: str) -> Receipt | None:
        """Return how far a checkpoint has come, or None if it is not known here.

        While it waits after a failed attempt, `reason` says what stood in the way.
        """
        ...

    def purge_receipts(self, *, older_than: float, keep: int) -> int:
        """Drop the receipts of what was verified before `older_than`, but for the newest `keep`.

        Returns how many went. A checkpoint whose receipt is gone would be stored anew if it came again.
        """
        ...

    def arrivals(self, checkpoint_ids: Iterable[str]) -> dict[str, int]:
        """Return the arrival number of each checkpoint; unknown ones are left out."""
        ...

    def journeys(self, run_id: str | None = None, *, most: int) -> list[Journey]:
        """Return how far checkpoints have come, of one run or of all: the newest `most`, the newest first.

        Those whose receipts are gone are not among them.
        """
        ...

    def verified_between(self, begin: float, end: float) -> int:
        """Return how many checkpoints were verified from one moment to another, as far as receipts tell.

        That costs what lies in between, and not what is known.
        """
        ...

    def known_sequence(self, run_id: str) -> int:
        """Return the highest sequence number of a run that is known here; 0 for an unknown run."""
        ...

    def learn_sequence(self, run_id: str, sequence: int) -> None:
        """Let the next numbers of a run begin after `sequence`, which the repository has already."""
        ...

    def note(self, name: str, value: bytes) -> None:
        """Keep a note beside the items. When this returns, it is safe."""
        ...

    def notes(self) -> dict[str, bytes]:
        """Return all notes by name."""
        ...

    def forget(self, *names: str) -> None:
        """Drop notes; unknown ones are passed over."""
        ...

    def status(self, now: float) -> QueueStatus:
        """Return the queue in numbers, at no cost that grows with it."""
        ...

    def drainer(self) -> AbstractContextManager[None]:
        """Be the one that drains, until the context ends or this process does. Raises SpoolBusy."""
        ...

    def drained_by(self) -> str | None:
        """Return who drains now, and where; None if nobody does, or nobody knows."""
        ...

    def listen(self, wake: Wake, hear: Hear) -> None:
        """Have `wake` called when another process has put something, as far as that can be heard.

        And `hear`, when another one has settled something.
        """
        ...

    def write_back(self) -> None:
        """Do now what a later put would have to wait for, while others may put. Raises SpoolError."""
        ...

    def trouble(self) -> str | None:
        """Return what is wrong while checkpoints are accepted all the same, as one sentence."""
        ...

    def close(self) -> None:
        """Let go of everything; no thread may be at work."""
        ...
