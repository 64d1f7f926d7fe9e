"""The folder of one run as a listing shows it, and whether it is at rest."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import datetime

from holdfast.format.checkpoint import RunStatus
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import INDEX, LATEST, SUMMARY, Layout, parse_sequences
from holdfast.repository.summary import LastState, Summary

_PART = re.compile(r"parts/[0-9a-f]{64}\.json")
_SINGLE = "cp_"


@dataclass(frozen=True, slots=True)
class Blob:
    """A file's content: its SHA, and how large it is."""

    sha: str
    size_bytes: int


@dataclass(frozen=True)
class RunFolder:
    """One run: every file by its name, and what those say that were read.

    `index`, `latest` and `summary` are None when they are not there or were not read. `parts_of` has, for
    each checkpoint file that was opened, the parts that it refers to. `damage` tells of a file that was read
    and is not what it should be.
    """

    run_id: str
    files: Mapping[str, Blob]
    index: Index | None = None
    latest: LastState | None = None
    summary: Summary | None = None
    parts_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    damage: str = ""

    @property
    def status(self) -> str:
        """Return how the run stands according to its newest checkpoint; empty if that is not known."""
        if self.index and self.index.entries:
            return self.index.status.value
        return self.latest.status if self.latest else ""

    @property
    def is_resumable(self) -> bool:
        """Whether someone may still go on with it."""
        return self.status != RunStatus.COMPLETED

    @property
    def is_archived(self) -> bool:
        """Whether no checkpoint is left of it."""
        return SUMMARY in self.files and not any(
            name in (INDEX, LATEST) or parse_sequences(name) or is_part(name) for name in self.files
        )

    @property
    def last_checkpoint_at(self) -> str:
        """Return when its newest checkpoint was made; empty if that is not known."""
        if self.index and self.index.newest:
            return self.index.newest.timestamp
        return self.latest.timestamp if self.latest else ""

    @property
    def parts(self) -> list[str]:
        """Return the names of all parts."""
        return [name for name in self.files if is_part(name)]

    @property
    def foreign(self) -> list[str]:
        """Return the names of all files that we did not write."""
        return [name for name in self.files if not is_ours(name)]


def is_part(name: str) -> bool:
    """Return whether a file of a run is a part of a large checkpoint."""
    return bool(_PART.fullmatch(name))


def is_ours(name: str) -> bool:
    """Return whether a file of a run has a name that only we give."""
    return name in (INDEX, LATEST, SUMMARY) or bool(parse_sequences(name)) or is_part(name)


def epoch(moment: str) -> float:
    """Return a moment in seconds since the epoch; 0 if it is none.

    >>> epoch("1970-01-01T00:01:00Z"), epoch("")
    (60.0, 0.0)
    """
    try:
        return datetime.fromisoformat(moment).timestamp()
    except ValueError:
        return 0.0


def find_unrest(folder: RunFolder, layout: Layout) -> str:
    """Return why a run must be left alone; empty if it is at rest.

    A writer puts the file, then the index, then the latest. Wherever it is between these, or was when it was
    interrupted, shows here; so does what someone else has changed.
    """
    return next(_unrest(folder, layout), "")


def find_leftovers(folder: RunFolder, index: Index, layout: Layout) -> dict[str, Blob]:
    """Return the checkpoint files that nobody can come to need, as their numbers were used and pruned.

    A sweep file by file that was interrupted leaves such; and a writer who does not know yet that a number
    was used, but finds out before it gets to the index.
    """
    named = {layout.name_of(folder.run_id, entry.file_path) for entry in index.entries}
    return {
        name: blob
        for name, blob in folder.files.items()
        if (numbers := parse_sequences(name)) and numbers[-1] <= index.pruned_through and name not in named
    }


def _unrest(folder: RunFolder, layout: Layout) -> Iterator[str]:
    if folder.damage:
        yield folder.damage
    elif not any(is_ours(name) for name in folder.files):
        yield "nothing in it was written by Holdfast"
    elif folder.is_archived:
        return
    elif LATEST not in folder.files:
        yield "it has no latest.json: a writer is at work, or was interrupted"
    elif folder.index is None:
        yield from _unrest_without_index(folder)
    else:
        yield from _unrest_of_index(folder, folder.index, layout)


def _unrest_without_index(folder: RunFolder) -> Iterator[str]:
    newest = folder.latest.sequence if folder.latest else 0
    for name in folder.files:
        numbers = parse_sequences(name)
        if numbers and numbers[-1] > newest:
            yield f"{name} is newer than latest.json: a writer is at work, or was interrupted"
        if is_part(name) and name not in folder.parts_of.get(LATEST, ()):
            yield f"{name} is no part of latest.json: a writer is at work, or was interrupted"


def _unrest_of_index(folder: RunFolder, index: Index, layout: Layout) -> Iterator[str]:
    if index.run_id != folder.run_id or not index.entries:
        yield "index.json is not the index of this run"
        return
    names = {layout.name_of(folder.run_id, entry.file_path) for entry in index.entries}
    leftovers = find_leftovers(folder, index, layout)
    for name in folder.files:
        if parse_sequences(name) and name not in names and name not in leftovers:
            yield f"{name} is not in the index: a writer is at work, or was interrupted"
    for entry in index.entries:
        yield from _unrest_of_entry(folder, entry, layout)
    yield from _unrest_of_latest(folder, index)


def _unrest_of_entry(folder: RunFolder, entry: IndexEntry, layout: Layout) -> Iterator[str]:
    name = layout.name_of(folder.run_id, entry.file_path)
    blob = folder.files.get(name)
    if blob is None or not parse_sequences(name):
        yield f"the index names {name}, which is not there"
    elif entry.blob_sha and name.startswith(_SINGLE) and blob.sha != entry.blob_sha:
        yield f"{name} is not what was written"


def _unrest_of_latest(folder: RunFolder, index: Index) -> Iterator[str]:
    newest = index.entries[-1]
    if folder.latest:
        is_newest = folder.latest.checkpoint_id == newest.checkpoint_id
    else:
        is_newest = newest.blob_sha in ("", folder.files[LATEST].sha)
    if not is_newest:
        yield "latest.json is not the newest checkpoint: a writer is at work, or was interrupted"
