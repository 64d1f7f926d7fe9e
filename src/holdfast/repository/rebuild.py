"""An index that is made anew from the checkpoints themselves, because it is gone or damaged."""

from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple

from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import Layout, format_checkpoint_name, parse_sequences
from holdfast.format.stored_file import entry_of


class LatestCheckpoint(NamedTuple):
    """The checkpoint that `latest.json` is a copy of; without a number if it is damaged, or not there.

    Its `envelope` is there if it had to be read, as the index does not know it.
    """

    checkpoint_id: str = ""
    sequence: int = 0
    envelope: Envelope | None = None


def rebuild_index(
    run_id: str,
    opened: Mapping[str, Sequence[IndexEntry]],
    unreadable: Collection[str],
    latest: LatestCheckpoint,
    *,
    is_trimmed: bool,
) -> Index:
    """Return the index of what was found in each file, by its name, and of nothing that retention takes.

    Where two files claim one number, their writers did not get to the index: the one that was the latest has
    it, else the first by name. The other is left out as a whole; whoever wrote it stores it again under
    numbers that are free. A run `is_trimmed` if it may have been: retention leaves the latest alone then,
    without an index.
    """
    entries: list[IndexEntry] = []
    taken: set[int | str] = set()
    for name in sorted(opened, key=lambda name: (not _has(opened[name], latest), name)):
        claimed = {claim for entry in opened[name] for claim in (entry.sequence, entry.checkpoint_id)}
        if not taken & claimed:
            taken |= claimed
            entries += opened[name]
    index = Index(run_id).with_entries(entries, workflow=None, now="")
    is_there = _has(entries, latest) or any(latest.sequence in parse_sequences(name) for name in unreadable)
    if is_trimmed and not is_there:
        return _without_leftovers(index, latest)
    return mark_pruned(index, latest, unreadable)


def mark_pruned(index: Index, latest: LatestCheckpoint, unreadable: Collection[str] = ()) -> Index:
    """Return an index that is not as it was stored with the numbers that may have been used before.

    Retention may have left the latest alone before the files that are there now were written. What is
    `unreadable` was not pruned: a person may still mend it.
    """
    if not index.entries:
        return index
    numbers = [index.entries[0].sequence, *(parse_sequences(name)[0] for name in unreadable)]
    gone = min(latest.sequence, min(numbers) - 1)
    return replace(index, pruned_through=max(index.pruned_through, gone))


def unite(stored: Index, found: Index) -> Index:
    """Return a stored index with what was found besides, but for files that claim a number of another."""
    owners = {entry.sequence: entry.checkpoint_id for entry in stored.entries}
    rivals = {
        entry.file_path
        for entry in found.entries
        if owners.get(entry.sequence, entry.checkpoint_id) != entry.checkpoint_id
    }
    added = [entry for entry in found.entries if entry.file_path not in rivals]
    united = stored.with_entries(added, workflow=None, now=stored.last_updated)
    return replace(united, pruned_through=max(stored.pruned_through, found.pruned_through))


def revive(index: Index, latest: LatestCheckpoint, layout: Layout) -> Index:
    """Return the index with an entry for the latest, which lacks a file of its own.

    Where retention has left it alone, the next checkpoint replaces it as the latest, and it would be gone.
    """
    envelope = latest.envelope
    is_taken = any(entry.sequence == latest.sequence for entry in index.entries)
    if envelope is None or is_taken or latest.checkpoint_id in index.by_id:
        return index
    name = format_checkpoint_name(envelope.sequence, envelope.header.trigger)
    entry = entry_of(envelope, layout.path(index.run_id, name))
    return index.with_entries([entry], workflow=envelope.header.workflow, now=index.last_updated)


def _has(entries: Sequence[IndexEntry], latest: LatestCheckpoint) -> bool:
    return any(entry.checkpoint_id == latest.checkpoint_id for entry in entries)


def _without_leftovers(index: Index, latest: LatestCheckpoint) -> Index:
    """Return the index of a trimmed run without files that have a number up to that of its latest.

    They are left over, or were written by someone who did not know that these numbers had been used. A sweep
    takes both for the former, so no index must name them.
    """
    leftovers = {entry.file_path for entry in index.entries if entry.sequence <= latest.sequence}
    kept = tuple(entry for entry in index.entries if entry.file_path not in leftovers)
    return replace(index, entries=kept, pruned_through=max(index.pruned_through, latest.sequence))
