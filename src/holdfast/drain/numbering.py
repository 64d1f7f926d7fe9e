"""Numbers: what a checkpoint is called in the run once the repository has had its say."""

from collections.abc import Callable, Container, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from itertools import takewhile
from pathlib import PurePosixPath

from holdfast.drain.publish import Arrival, StoredFile, assign_sequences
from holdfast.errors import InvalidCheckpoint, SpoolDamaged
from holdfast.format.checkpoint import Envelope, renumber_body
from holdfast.format.index import IndexEntry
from holdfast.format.paths import is_single
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.logs import log
from holdfast.queue import Spool

Seal = Callable[[bytes], Envelope]
"""Makes of a body what the repository will hold."""

Locate = Callable[[Sequence[Envelope]], Mapping[str, StoredFile]]
"""Tells which file each checkpoint is about to become."""


@dataclass(frozen=True, slots=True)
class Numbered:
    """A item and the sealed checkpoint that it stands for, both under the same number."""

    item: QueueItem
    envelope: Envelope


def settle_numbers(
    spool: Spool,
    view: RunSnapshot,
    items: Sequence[QueueItem],
    seal: Seal,
    *,
    locate: Locate = lambda _: {},
    tried: Iterable[StoredFile] = (),
    breathe: Callable[[], None] = lambda: None,
) -> list[Numbered]:
    """Return the sealed checkpoints under numbers that no other one of the run has.

    `tried` are the files of earlier attempts. A new number is durable, in item and receipt, before anything
    is sent under it. A item whose bytes are damaged is set aside by the spool and left out here. `breathe`
    is called before each checkpoint, so that others may have a turn.
    """
    sealed = _read(spool, items, seal, breathe)
    envelopes = [numbered.envelope for numbered in sealed]
    headers = [envelope.header for envelope in envelopes]
    arrivals = _arrivals(spool, view, items)
    changed = assign_sequences(view, headers, tried=tried, own=locate(envelopes), arrivals=arrivals)
    newest = view.index.newest
    highest = max(newest.sequence if newest else 0, view.pruned_through)
    if highest > spool.known_sequence(view.run_id):
        spool.learn_sequence(view.run_id, highest)
    affected = [numbered.item for numbered in sealed if numbered.item.checkpoint_id in changed]
    # The highest first: wherever a crash cuts this short, the numbers still tell the order.
    affected.sort(key=lambda item: changed[item.checkpoint_id], reverse=True)
    moved = {
        each.checkpoint_id: _renumber(spool, each, changed[each.checkpoint_id], seal) for each in affected
    }
    return [moved.get(numbered.item.checkpoint_id, numbered) for numbered in sealed]


def release_places(
    spool: Spool, view: RunSnapshot, items: Sequence[QueueItem], tried: Container[str]
) -> RunSnapshot:
    """Return the view without those places that no stored index gives, and that come before their turn.

    Where there is no index yet, the files of an earlier attempt, by path in `tried`, would fix the numbers of
    some. If another one that came in before them has lost its own, it would be left behind.
    """
    if view.is_index_stored:
        return view
    ranks = spool.arrivals(item.checkpoint_id for item in items if item.is_automatic)
    first = min((rank for identity, rank in ranks.items() if identity not in view.index.by_id), default=None)
    if first is None:
        return view
    kept = tuple(
        entry
        for entry in view.index.entries
        if ranks.get(entry.checkpoint_id, 0) < first
        or entry.file_path not in tried
        or not is_single(PurePosixPath(entry.file_path).name)
    )
    return replace(view, index=replace(view.index, entries=kept))


def disown_revived(view: RunSnapshot, items: Sequence[QueueItem]) -> RunSnapshot:
    """Return the view without a revived latest that is one of the items: it is stored anew in its turn."""
    latest = view.revived
    if latest is None or all(item.checkpoint_id != latest.checkpoint_id for item in items):
        return view
    return replace(view, index=view.index.without({latest.checkpoint_id}), revived=None)


def _arrivals(spool: Spool, view: RunSnapshot, items: Sequence[QueueItem]) -> dict[str, Arrival]:
    """Return when those came in whose number nobody asked for, and what they must come after.

    A machine that is new to a run counts from one. Where the numbers have gaps it would fill them, and the
    run would go on from an older checkpoint. What came in here later, but was more urgent, keeps its
    place, and what came in before it stays before it.
    """
    automatic = [item for item in items if item.is_automatic]
    lowest = min((item.sequence for item in automatic), default=0)
    later = list(takewhile(lambda entry: entry.sequence >= lowest, reversed(view.index.entries)))
    known: Sequence[QueueItem | IndexEntry] = (*automatic, *later)
    ranks = spool.arrivals(each.checkpoint_id for each in known) if automatic else {}

    def arrival_of(item: QueueItem) -> Arrival:
        own = ranks.get(item.checkpoint_id, 0)
        floor = 0
        for entry in takewhile(lambda entry: entry.sequence >= item.sequence, later):
            # What is not known here has come from another machine.
            rank = ranks.get(entry.checkpoint_id, 0)
            if rank != own:
                floor = 0 if rank > own else floor or entry.sequence
        return Arrival(own, floor)

    return {item.checkpoint_id: arrival_of(item) for item in automatic}


def _renumber(spool: Spool, item: QueueItem, sequence: int, seal: Seal) -> Numbered:
    body = renumber_body(spool.read(item), sequence)
    log.info(
        "checkpoint_renumbered",
        run_id=item.run_id,
        checkpoint_id=item.checkpoint_id,
        sequence_before=item.sequence,
        sequence=sequence,
    )
    return Numbered(spool.renumber(item, sequence, body), seal(body))


def _read(
    spool: Spool, items: Sequence[QueueItem], seal: Seal, breathe: Callable[[], None]
) -> list[Numbered]:
    bodies = []
    for item in items:
        breathe()
        try:
            bodies.append(Numbered(item, seal(spool.read(item))))
        except SpoolDamaged as error:
            log.error("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
        except InvalidCheckpoint as error:
            # A caller's orjson.Fragment is taken at its word until here.
            spool.set_aside(item, f"its body is not JSON: {error}")
            log.error("checkpoint_set_aside", checkpoint_id=item.checkpoint_id, cause=str(error))
    return bodies
