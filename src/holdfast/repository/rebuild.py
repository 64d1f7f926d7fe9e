"""The index that a run ought to have: the stored one if it is sound, else mended or made anew from the files.

It is lost if it is missing or damaged. It dangles if it names files that are not there: a write that GitHub
carries out long after it was given up can bring back an index that retention has removed. It is outdated if
it does not name the checkpoint of `latest.json`: a writer puts the index first, so someone has put back an
older one.
"""

from collections.abc import Collection, Container, Mapping, Sequence
from dataclasses import dataclass, field, replace
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


@dataclass(frozen=True, slots=True)
class OpenedFiles:
    """What was found in the checkpoint files: an entry for all that is good, by file name.

    `damaged` are the names of those that hold anything else.
    """

    entries: Mapping[str, Sequence[IndexEntry]] = field(default_factory=dict)
    damaged: Collection[str] = ()
    workflow: str | None = None


def find_dangling(index: Index, files: Container[str], layout: Layout) -> tuple[IndexEntry, ...]:
    """Return the entries of an index whose files are not there."""
    return tuple(e for e in index.all_entries if layout.name_of(index.run_id, e.file_path) not in files)


def is_outdated(index: Index, latest: LatestCheckpoint) -> bool:
    """Whether an index is older than `latest.json`, which it does not name."""
    return bool(latest.sequence) and not index.has_id(latest.checkpoint_id)


def mend_index(
    stored: Index, latest: LatestCheckpoint, dangling: Collection[IndexEntry], opened: OpenedFiles
) -> Index:
    """Return a stored index without what dangles and, if it is outdated or torn, with what the files hold.

    An index is torn if a segment of it is lost: `opened` has the files of that one.
    """
    kept = stored
    if dangling:
        kept = mark_pruned(stored.without({entry.checkpoint_id for entry in dangling}), latest)
    if not is_outdated(stored, latest) and not opened.entries:
        return kept
    return unite(kept, rebuild_index(stored.run_id, opened, latest, is_trimmed=False))


def rebuild_index(run_id: str, opened: OpenedFiles, latest: LatestCheckpoint, *, is_trimmed: bool) -> Index:
    """Return the index of what the files hold, without what retention is about to delete.

    Where two files claim one number, their writers did not get to the index: the file with the checkpoint of
    `latest.json` has it, else the first by name. The other is left out as a whole; whoever wrote it stores it
    again under numbers that are free. A run `is_trimmed` if it may have been: then retention kept only
    `latest.json`, and no index.
    """
    entries: list[IndexEntry] = []
    taken: set[int | str] = set()
    files = opened.entries
    for name in sorted(files, key=lambda name: (not _has(files[name], latest), name)):
        claimed = {claim for entry in files[name] for claim in (entry.sequence, entry.checkpoint_id)}
        if not taken & claimed:
            taken |= claimed
            entries += files[name]
    newest = max(entries, key=lambda entry: entry.sequence, default=None)
    moment = newest.timestamp if newest else ""
    index = Index(run_id).with_entries(entries, workflow=opened.workflow, now=moment)
    is_there = _has(entries, latest) or any(
        latest.sequence in parse_sequences(name) for name in opened.damaged
    )
    if is_trimmed and not is_there:
        return _without_leftovers(index, latest)
    return mark_pruned(index, latest, opened.damaged)


def mark_pruned(index: Index, latest: LatestCheckpoint, damaged: Collection[str] = ()) -> Index:
    """Return an index that is not as it was stored, with the numbers that may have been used before.

    Retention may have kept only `latest.json` before the files that are there now were written. A `damaged`
    file was not pruned: a person may still mend it.
    """
    if not index.all_entries:
        return index
    numbers = [index.all_entries[0].sequence, *(parse_sequences(name)[0] for name in damaged)]
    gone = min(latest.sequence, min(numbers) - 1)
    return replace(index, pruned_through=max(index.pruned_through, gone))


def unite(stored: Index, found: Index) -> Index:
    """Return a stored index with what was found besides, but for files that claim a number of another."""
    owners = {entry.sequence: entry.checkpoint_id for entry in stored.all_entries}
    rivals = {
        entry.file_path
        for entry in found.entries
        if owners.get(entry.sequence, entry.checkpoint_id) != entry.checkpoint_id
    }
    added = [entry for entry in found.entries if entry.file_path not in rivals]
    united = stored.with_entries(added, workflow=None, now=stored.last_updated)
    return replace(united, pruned_through=max(stored.pruned_through, found.pruned_through))


def revive(index: Index, latest: LatestCheckpoint, layout: Layout) -> Index:
    """Return the index with an entry for the checkpoint of `latest.json`, which lacks a file of its own.

    Where retention kept only `latest.json`, the next checkpoint replaces it, and it would be gone.
    """
    envelope = latest.envelope
    is_taken = any(entry.sequence == latest.sequence for entry in index.all_entries)
    if envelope is None or is_taken or index.has_id(latest.checkpoint_id):
        return index
    name = format_checkpoint_name(envelope.sequence, envelope.header.trigger)
    entry = entry_of(envelope, layout.path(index.run_id, name))
    return index.with_entries([entry], workflow=envelope.header.workflow, now=index.last_updated)


def _has(entries: Sequence[IndexEntry], latest: LatestCheckpoint) -> bool:
    return any(entry.checkpoint_id == latest.checkpoint_id for entry in entries)


def _without_leftovers(index: Index, latest: LatestCheckpoint) -> Index:
    """Return the index of a trimmed run without files that have a number up to that of `latest.json`.

    They are left over, or were written by someone who did not know that these numbers had been used. A sweep
    cannot tell these from those and deletes both, so no index must name them.
    """
    leftovers = {entry.file_path for entry in index.entries if entry.sequence <= latest.sequence}
    kept = tuple(entry for entry in index.entries if entry.file_path not in leftovers)
    return replace(index, entries=kept, pruned_through=max(index.pruned_through, latest.sequence))
