"""What waits in the spool of one run."""

from collections.abc import Iterable
from dataclasses import dataclass, field

from holdfast.errors import SpoolDamaged, UnknownRun
from holdfast.format.checkpoint import Envelope, seal
from holdfast.format.receipt import Ticket
from holdfast.logs import log
from holdfast.queue import Spool


def open_ticket(spool: Spool, ticket: Ticket) -> Envelope | None:
    """Return a checkpoint of the spool as the repository will hold it; None if it has left the spool.

    Raises SpoolDamaged.
    """
    try:
        return seal(spool.read(ticket))
    except UnknownRun:
        return None


@dataclass
class SpooledRun:
    """The tickets of one run, the newest first: those to be stored, and those that were set aside.

    `reasons` say of the latter why, by checkpoint. `warnings` grow with what is found to be damaged.
    """

    spool: Spool
    run_id: str
    pending: list[Ticket]
    aside: list[Ticket]
    reasons: dict[str, str]
    warnings: list[str] = field(default_factory=list)

    @classmethod
    def look(cls, spool: Spool, run_id: str) -> "SpooledRun":
        """Return what waits now."""
        pending = [ticket for ticket in spool.pending() if ticket.run_id == run_id]
        aside = [entry for entry in spool.set_aside_entries() if entry.ticket.run_id == run_id]
        return cls(
            spool,
            run_id,
            _newest_first(pending),
            _newest_first(entry.ticket for entry in aside),
            {entry.ticket.checkpoint_id: entry.reason for entry in aside},
        )

    def open(self, ticket: Ticket) -> Envelope | None:
        """Return a checkpoint; None, with a warning, if it is damaged."""
        try:
            return open_ticket(self.spool, ticket)
        except SpoolDamaged as error:
            log.warning("checkpoint_damaged", checkpoint_id=ticket.checkpoint_id, cause=str(error))
            self.warnings.append(str(error))
            return None

    def open_all(self, tickets: Iterable[Ticket]) -> list[Envelope]:
        """Return those of the checkpoints that are not damaged."""
        return [envelope for ticket in tickets if (envelope := self.open(ticket))]

    def newest(self) -> Envelope | None:
        """Return the newest checkpoint that is to be stored, and that is not damaged."""
        for ticket in self.pending:
            envelope = self.open(ticket)
            if envelope:
                return envelope
        return None

    def at(self, sequence: int) -> Envelope | None:
        """Return the checkpoint with this number, set aside or not."""
        matching = [ticket for ticket in (*self.pending, *self.aside) if ticket.sequence == sequence]
        return next(iter(self.open_all(matching)), None)

    def newest_aside(self, after: int) -> Envelope | None:
        """Return the newest checkpoint that was set aside, if its number is greater than `after`."""
        for ticket in self.aside:
            envelope = self.open(ticket) if ticket.sequence > after else None
            if envelope:
                return envelope
        return None

    def tell_aside(self, envelope: Envelope) -> str:
        """Return why a checkpoint was set aside."""
        reason = self.reasons[envelope.checkpoint_id]
        return f"checkpoint {envelope.sequence} is only in the spool, set aside: {reason}"


def _newest_first(tickets: Iterable[Ticket]) -> list[Ticket]:
    return sorted(tickets, key=lambda ticket: ticket.sequence, reverse=True)
