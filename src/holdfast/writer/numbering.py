"""Numbers: what a checkpoint is called in the run once the repository has had its say."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from itertools import takewhile

import structlog

from holdfast.core.envelope import Envelope, renumber_body
from holdfast.core.publication import RunView, StoredFile, assign_sequences
from holdfast.core.ticket import Ticket
from holdfast.errors import InvalidCheckpoint, SpoolDamaged
from holdfast.spool import Spool

log = structlog.get_logger()


Seal = Callable[[bytes], Envelope]
"""Makes of a body what the repository will hold."""

Locate = Callable[[Sequence[Envelope]], Mapping[str, StoredFile]]
"""Tells which file each checkpoint is about to become."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A ticket and the sealed checkpoint that it stands for, both under the same number."""

    ticket: Ticket
    envelope: Envelope


def settle_numbers(
    spool: Spool,
    view: RunView,
    tickets: Sequence[Ticket],
    seal: Seal,
    *,
    locate: Locate = lambda _: {},
    tried: Iterable[StoredFile] = (),
) -> list[Numbered]:
    """Return the sealed checkpoints under numbers that no other one of the run has.

    `tried` are the files of earlier attempts. A new number is durable, in ticket and receipt, before anything
    is sent under it. A ticket whose bytes are damaged is set aside by the spool and left out here.
    """
    sealed = _read(spool, tickets, seal)
    envelopes = [numbered.envelope for numbered in sealed]
    headers = [envelope.header for envelope in envelopes]
    changed = assign_sequences(
        view, headers, tried=tried, own=locate(envelopes), floors=_floors(spool, view, tickets)
    )
    newest = view.index.newest
    highest = max(newest.sequence if newest else 0, view.pruned_through)
    if highest > spool.known_sequence(view.run_id):
        spool.learn_sequence(view.run_id, highest)
    return [
        _renumber(spool, numbered.ticket, changed[numbered.ticket.checkpoint_id], seal)
        if numbered.ticket.checkpoint_id in changed
        else numbered
        for numbered in sealed
    ]


def _floors(spool: Spool, view: RunView, tickets: Sequence[Ticket]) -> dict[str, int]:
    """Return what those checkpoints must come after whose number nobody asked for.

    A machine that is new to a run counts from one. Where the numbers have gaps it would fill them, and the
    run would go on from an older checkpoint. What came in here later, but was more urgent, keeps its place.
    """
    arrivals: dict[str, int | None] = {}

    def arrival_of(checkpoint_id: str) -> int | None:
        if checkpoint_id not in arrivals:
            arrivals[checkpoint_id] = spool.arrival(checkpoint_id)
        return arrivals[checkpoint_id]

    def floor_of(ticket: Ticket) -> int:
        own = arrival_of(ticket.checkpoint_id) or 0
        above = takewhile(lambda entry: entry.sequence >= ticket.sequence, reversed(view.index.entries))
        # What is not known here has come from another machine.
        return next((entry.sequence for entry in above if (arrival_of(entry.checkpoint_id) or 0) < own), 0)

    return {ticket.checkpoint_id: floor_of(ticket) for ticket in tickets if ticket.is_automatic}


def _renumber(spool: Spool, ticket: Ticket, sequence: int, seal: Seal) -> Numbered:
    body = renumber_body(spool.read(ticket), sequence)
    log.info(
        "checkpoint_renumbered",
        run_id=ticket.run_id,
        checkpoint_id=ticket.checkpoint_id,
        sequence_before=ticket.sequence,
        sequence=sequence,
    )
    return Numbered(spool.renumber(ticket, sequence, body), seal(body))


def _read(spool: Spool, tickets: Sequence[Ticket], seal: Seal) -> list[Numbered]:
    bodies = []
    for ticket in tickets:
        try:
            bodies.append(Numbered(ticket, seal(spool.read(ticket))))
        except SpoolDamaged as error:
            log.error("checkpoint_damaged", checkpoint_id=ticket.checkpoint_id, cause=str(error))  # noqa: TRY400
        except InvalidCheckpoint as error:
            # orjson takes a Fragment at its word; nobody could read what is no JSON.
            spool.set_aside(ticket, f"it is not JSON: {error}")
            log.error("checkpoint_refused", checkpoint_id=ticket.checkpoint_id, cause=str(error))  # noqa: TRY400
    return bodies
