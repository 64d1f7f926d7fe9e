"""What waits in the spool of one run."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, SpoolDamaged, UnknownRun
from holdfast.format.checkpoint import Envelope, stamp
from holdfast.format.claim import NOTE, TOO_LATE, fence_of_note
from holdfast.format.ids import At
from holdfast.format.receipt import QueueItem
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.security.trust import Trust


def open_item(spool: Queue, item: QueueItem) -> Envelope | None:
    """Return a checkpoint of the spool as the repository will hold it; None if it has left the spool.

    Raises SpoolDamaged.
    """
    try:
        return stamp(spool.read(item))
    except UnknownRun:
        return None
    except InvalidCheckpoint as error:  # a caller's orjson.Fragment is taken at its word until here
        raise SpoolDamaged(f"the body of checkpoint {item.checkpoint_id} is not JSON: {error}") from error


@dataclass
class SpooledRun:
    """The items of one run, the newest first: those to be stored, and those that were set aside.

    `reasons` say of the latter why, by checkpoint. `warnings` grow with what is found to be damaged.
    """

    spool: Queue
    run_id: str
    pending: list[QueueItem]
    aside: list[QueueItem]
    reasons: dict[str, str]
    warnings: list[str] = field(default_factory=list)
    trust: Trust | None = None

    @classmethod
    def look(cls, spool: Queue, run_id: str, trust: Trust | None = None) -> "SpooledRun":
        """Return what waits now; what is sealed is opened by `trust`, and left as it is without."""
        pending = [item for item in spool.pending() if item.run_id == run_id]
        aside = [entry for entry in spool.set_aside_entries() if entry.item.run_id == run_id]
        return cls(
            spool,
            run_id,
            _newest_first(pending),
            _newest_first(entry.item for entry in aside),
            {entry.item.checkpoint_id: entry.reason for entry in aside},
            trust=trust,
        )

    def open(self, item: QueueItem) -> Envelope | None:
        """Return a checkpoint; None, with a warning, if it is damaged. Raises KeyMissing."""
        try:
            envelope = open_item(self.spool, item)
            return (
                self.trust.open(envelope, f"spool#{item.sequence}") if envelope and self.trust else envelope
            )
        except (SpoolDamaged, IntegrityFailure) as error:
            log.warning("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
            self.warnings.append(str(error))
            return None

    def open_all(self, items: Iterable[QueueItem]) -> list[Envelope]:
        """Return those of the checkpoints that are not damaged."""
        return [envelope for item in items if (envelope := self.open(item))]

    def newest(self, least_fence: int = 0) -> Envelope | None:
        """Return the newest checkpoint that is to be stored, and that is not damaged.

        One with a lower fence than `least_fence`, or than one before it, came too late: its run was taken
        over.
        """
        for place, item in enumerate(self.pending):
            envelope = self.open(item)
            if envelope and not is_below(envelope, max(least_fence, self._fence_before(envelope, place))):
                return envelope
        return None

    def _fence_before(self, envelope: Envelope, place: int) -> int:
        """Return the highest fence of what was saved before; 0 if that cannot be higher."""
        fence = envelope.header.fence or 0
        if not fence or fence >= fence_of_note(self.spool.notes().get(NOTE + self.run_id)):
            return 0
        return max((each.header.fence or 0 for each in self.open_all(self.pending[place + 1 :])), default=0)

    def at(self, at: At) -> Envelope | None:
        """Return the checkpoint with this number or id, set aside or not."""
        matching = [
            item for item in (*self.pending, *self.aside) if at in (item.sequence, item.checkpoint_id)
        ]
        return next(iter(self.open_all(matching)), None)

    def newest_aside(self, after: int, least_fence: int = 0) -> Envelope | None:
        """Return the newest checkpoint that was set aside, if its number is greater than `after`.

        One that was set aside because it came too late is none.
        """
        for item in self.aside:
            is_late = self.reasons[item.checkpoint_id].startswith(TOO_LATE)
            envelope = self.open(item) if item.sequence > after and not is_late else None
            if envelope and not is_below(envelope, least_fence):
                return envelope
        return None

    def tell_aside(self, envelope: Envelope) -> str:
        """Return why a checkpoint was set aside."""
        reason = self.reasons[envelope.checkpoint_id]
        return f"checkpoint {envelope.sequence} is only in the spool, set aside: {reason}"


def is_below(envelope: Envelope, least_fence: int) -> bool:
    """Whether a checkpoint has a fence, and a lower one than that."""
    return 0 < (envelope.header.fence or 0) < least_fence


def _newest_first(items: Iterable[QueueItem]) -> list[QueueItem]:
    return sorted(items, key=lambda item: item.sequence, reverse=True)
