"""Numbers: which sequence number each checkpoint gets, beside those that the repository already has."""

from collections.abc import Collection, Container, Iterable, Iterator, Mapping, Sequence, Set
from dataclasses import replace
from itertools import takewhile
from math import inf
from typing import NamedTuple

from holdfast.format.header import Header
from holdfast.format.index import Index, IndexEntry
from holdfast.format.index_segments import Segment
from holdfast.format.paths import is_single, parse_sequences
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot

# The name of a batch may span gaps. Of one that spans more, only the index can tell what it really holds.
_MOST_IN_A_BATCH = 100_000

StoredFile = tuple[str, str]
"""A file of a run's folder: its name and its blob."""


class Arrival(NamedTuple):
    """The arrival number of a checkpoint that asked for no sequence number, and what it must come after."""

    rank: int
    floor: int = 0


def assign_sequences(
    snapshot: RunSnapshot,
    wanted: Sequence[Header],
    *,
    tried: Iterable[StoredFile] = (),
    own: Mapping[str, StoredFile] | None = None,
    arrivals: Mapping[str, Arrival] | None = None,
) -> dict[str, int]:
    """Return new numbers, by checkpoint, for those whose number is taken: the next free ones.

    The first in the index keeps a number. A checkpoint that the index has already, from another machine,
    takes the number that it has there. Checkpoints whose number nobody asked for (`arrivals`) stay in the
    order in which they came in, the others in that of their numbers.

    `tried` are files of our own earlier attempts: their numbers are taken, as they may be there even if
    nobody sees them yet. `own` is the file that each checkpoint is about to become; where that is there
    already, the checkpoint does not push itself away.
    """
    own = own or {}
    tried = set(tried)
    changed = _assign(snapshot, _in_order(wanted, arrivals or {}), tried, own, arrivals or {})
    given_up = {own[identity] for identity in changed if identity in own}
    if any(file in given_up and identity not in changed for identity, file in own.items()):
        # Renumbering one checkpoint renames the batch file, so the old name blocks the numbers of the rest.
        kept = {identity: file for identity, file in own.items() if file not in given_up}
        return assign_sequences(snapshot, wanted, tried=tried, own=kept, arrivals=arrivals)
    return changed


def _in_order(wanted: Sequence[Header], arrivals: Mapping[str, Arrival]) -> list[Header]:
    """Return all by number, except that those whose number nobody asked for keep their order of arrival.

    An attempt that failed may have moved one of them behind a later one.
    """
    automatic = [header for header in wanted if header.checkpoint_id in arrivals]
    in_turn = iter(sorted(automatic, key=lambda header: arrivals[header.checkpoint_id]))
    by_number = sorted(wanted, key=lambda header: header.sequence_number or 0)
    return [next(in_turn) if header.checkpoint_id in arrivals else header for header in by_number]


def _assign(
    snapshot: RunSnapshot,
    wanted: Sequence[Header],
    tried: Set[StoredFile],
    own: Mapping[str, StoredFile],
    arrivals: Mapping[str, Arrival],
) -> dict[str, int]:
    index = snapshot.index
    taken = {entry.sequence for entry in index.entries}
    holders: dict[int, set[StoredFile]] = {}
    # Numbers only go up from the ones that are asked for: a long run has thousands of files below them.
    floors = {each: max(snapshot.pruned_through, arrival.floor) for each, arrival in arrivals.items()}
    asked_for = [(header.sequence_number or 0, floors.get(header.checkpoint_id, 0)) for header in wanted]
    lowest = min((max(asked, floor) for asked, floor in asked_for), default=0)
    for file in (*_open_files(snapshot), *tried):
        numbers = parse_sequences(file[0])
        if not numbers or numbers[-1] < lowest:
            continue
        for number in numbers if len(numbers) <= _MOST_IN_A_BATCH else ():
            holders.setdefault(number, set()).add(file)
    changed: dict[str, int] = {}
    previous = {True: 0, False: 0}
    for header in wanted:
        identity, asked = header.checkpoint_id, header.sequence_number or 0
        is_automatic = identity in arrivals
        if stored := index.by_id.get(identity):
            if stored.sequence != asked:
                changed[identity] = stored.sequence
            continue
        sequence = max(asked, previous[is_automatic] + 1)
        itself = {own[identity]} if identity in own and sequence == asked else set()
        # Retention never gives a number back.
        floor = floors.get(identity, snapshot.pruned_through)
        if sequence <= floor:
            sequence, itself = floor + 1, set()
        while sequence in taken or index.has_number(sequence) or holders.get(sequence, itself) != itself:
            sequence, itself = sequence + 1, set()
        if sequence != asked:
            changed[identity] = sequence
        taken.add(sequence)
        previous[is_automatic] = sequence
    return changed


def segments_about(index: Index, items: Collection[QueueItem], highest_known: int) -> list[Segment]:
    """Return the segments that must be read, and were not yet, before these items get their numbers.

    Numbers only go up from those that the items have: what lies below all of them does not matter, unless
    an item is stored there already. `highest_known` is the highest number of the run that the queue knows:
    what has a higher one came from elsewhere, and an item whose number nobody asked for comes after it.
    """
    lowest = min((item.sequence for item in items), default=highest_known)
    if all(item.is_automatic for item in items):
        # The queue gives a number once, so what has the lowest came from elsewhere: the item goes beyond it,
        # and that it is taken a segment tells unread.
        first, last = lowest + 1, float(highest_known)
    else:
        first, last = lowest, inf
    return [
        segment
        for segment in index.segments
        if segment.entries is None
        and (
            max(first, segment.first) <= min(last, segment.last)
            or any(segment.has_id(item.checkpoint_id) for item in items)
        )
    ]


def _open_files(snapshot: RunSnapshot) -> Iterator[StoredFile]:
    """Return the files but for those in segments that were not read: these take all numbers they span."""
    if snapshot.is_settled:  # it has no others
        return iter(snapshot.blobs.items())
    names = set(snapshot.blobs)
    names.difference_update(*snapshot.index.outlined_names)
    return ((name, snapshot.blobs[name]) for name in names)


def ids_to_rank(snapshot: RunSnapshot, items: Iterable[QueueItem]) -> list[str]:
    """Return the checkpoints whose arrival numbers `find_arrivals` asks for."""
    automatic = [item for item in items if item.is_automatic]
    later = _later_entries(snapshot, automatic) if automatic else []
    return [*(item.checkpoint_id for item in automatic), *(entry.checkpoint_id for entry in later)]


def find_arrivals(
    snapshot: RunSnapshot, items: Iterable[QueueItem], ranks: Mapping[str, int]
) -> dict[str, Arrival]:
    """Return when those came in whose number nobody asked for, and what they must come after.

    `ranks` are arrival numbers on this machine. A machine that is new to a run counts from one. Where the
    numbers have gaps it would fill them, and the run would go on from an older checkpoint. What came in here
    later, but was more urgent, keeps its place, and what came in before it stays before it.
    """
    automatic = [item for item in items if item.is_automatic]
    later = _later_entries(snapshot, automatic)

    def arrival_of(item: QueueItem) -> Arrival:
        own = ranks.get(item.checkpoint_id, 0)
        before = elsewhere = 0
        for entry in takewhile(lambda entry: entry.sequence >= item.sequence, later):
            rank = ranks.get(entry.checkpoint_id, 0)
            if rank > own:
                elsewhere = 0
            elif rank == 0:  # not known here: it has come from another machine
                elsewhere = elsewhere or entry.sequence
            elif rank < own:
                before = before or entry.sequence
        return Arrival(own, max(before, elsewhere))

    return {item.checkpoint_id: arrival_of(item) for item in automatic}


def _later_entries(snapshot: RunSnapshot, automatic: Sequence[QueueItem]) -> list[IndexEntry]:
    """Return what the index has from the lowest number of `automatic` on, the newest first."""
    lowest = min((item.sequence for item in automatic), default=0)
    return list(takewhile(lambda entry: entry.sequence >= lowest, snapshot.index.newest_first()))


def release_places(snapshot: RunSnapshot, ranks: Mapping[str, int], tried: Container[str]) -> RunSnapshot:
    """Return the snapshot without files of earlier attempts that would come before an older checkpoint.

    `ranks` are the arrival numbers of the checkpoints under way whose number nobody asked for. Where there is
    no index yet, the files of an earlier attempt, by path in `tried`, would fix the numbers of some of them,
    and one that came in earlier, but has lost its own number, would come after them.
    """
    if snapshot.is_index_stored:
        return snapshot
    first = min(
        (rank for identity, rank in ranks.items() if identity not in snapshot.index.by_id), default=None
    )
    if first is None:
        return snapshot
    kept = tuple(
        entry
        for entry in snapshot.index.entries
        if ranks.get(entry.checkpoint_id, 0) < first
        or entry.file_path not in tried
        or not is_single(entry.file_path.rpartition("/")[2])
    )
    return replace(snapshot, index=replace(snapshot.index, entries=kept))


def disown_revived(snapshot: RunSnapshot, items: Sequence[QueueItem]) -> RunSnapshot:
    """Return the snapshot without a checkpoint that only `latest.json` has, if that is stored anew now."""
    latest = snapshot.revived
    if latest is None or all(item.checkpoint_id != latest.checkpoint_id for item in items):
        return snapshot
    return replace(snapshot, index=snapshot.index.without({latest.checkpoint_id}), revived=None)
