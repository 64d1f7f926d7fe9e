"""One run as retention sees it: its files, its snapshot, what was opened, and whether it is at rest."""

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field

from holdfast.format.claim import Claim
from holdfast.format.header import RunStatus
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import (
    CLAIM,
    INDEX,
    LATEST,
    SUMMARY,
    Layout,
    is_single,
    parse_segment_name,
    parse_sequences,
)
from holdfast.format.run_snapshot import Flaw, RemoteFile, RunSnapshot
from holdfast.retention.records import LastState, Summary

NO_FILE = " (no file)"
"""Added to the name of a link or a submodule, so that nobody takes it for one of ours."""

_PART = re.compile(r"parts/[0-9a-f]{64}\.json(?:\.gz)?")
_UNFINISHED = "a writer is at work, or was interrupted"


@dataclass(frozen=True)
class ScannedRun:
    """One run: every file by its name, the snapshot of the folder, and what those files say that were opened.

    `latest`, `summary`, `claim` are None when they are not there or were not opened. `parts_of` has, for each
    checkpoint file that was opened, the parts that it refers to. `damage` says what is wrong with a file that
    was opened. `files_before` has, for each age in days that was asked for, the files that lay here so long
    ago by GitHub's time: the clock of whoever wrote them may be wrong.
    """

    files: Mapping[str, RemoteFile]
    snapshot: RunSnapshot
    latest: LastState | None = None
    summary: Summary | None = None
    claim: Claim | None = None
    parts_of: Mapping[str, frozenset[str]] = field(default_factory=dict)
    damage: str = ""
    texts_of: Mapping[str, Mapping[str, bytes]] = field(default_factory=dict)
    """The checkpoints of each batch that was opened, by id; of every file, where a writer has left some."""
    files_before: Mapping[float, Mapping[str, RemoteFile]] = field(default_factory=dict)

    @property
    def run_id(self) -> str:
        """Return the run."""
        return self.snapshot.run_id

    @property
    def index(self) -> Index | None:
        """Return the index if `index.json` holds it; None if it is missing, damaged, outdated or dangling.

        If all that is wrong with it is a lost segment, it is the one with that made anew.
        """
        is_sound = INDEX in self.files and (self.snapshot.is_index_stored or self.is_torn)
        return self.snapshot.index if is_sound else None

    @property
    def is_torn(self) -> bool:
        """Whether segments of the index are lost or changed, while all the rest is as it ought to be.

        A writer puts them before the index, so that none is at it.
        """
        flaws = self.snapshot.flaws
        is_revived = self.snapshot.revived is not None
        return bool(flaws) and not is_revived and all(_is_about_segment(flaw) for flaw in flaws)

    @property
    def is_resumable(self) -> bool:
        """Whether someone may still go on with it."""
        return self.snapshot.index.status is not RunStatus.COMPLETED

    @property
    def is_archived(self) -> bool:
        """Whether no checkpoint is left of it."""
        return SUMMARY in self.files and not any(
            name in (INDEX, LATEST) or parse_sequences(name) or parse_segment_name(name) or is_part(name)
            for name in self.files
        )

    @property
    def last_checkpoint_at(self) -> str:
        """Return when its newest checkpoint was made; empty if there is none."""
        newest = self.snapshot.index.newest
        return newest.timestamp if newest else ""

    def is_older(self, name: str, days: float) -> bool:
        """Whether a file lay here as it is so many days ago."""
        return name in self.files and self.files_before.get(days, {}).get(name) == self.files[name]

    def is_at_rest_since(self, days: float) -> bool:
        """Whether nothing was written to the run for so many days; that retention deletes does not count."""
        written = [name for name in self.files if name == LATEST or parse_sequences(name)]
        return bool(written) and all(self.is_older(name, days) for name in written)

    @property
    def parts(self) -> list[str]:
        """Return the names of all parts."""
        return [name for name in self.files if is_part(name)]

    @property
    def foreign(self) -> list[str]:
        """Return the names of all files that Holdfast did not write."""
        return [name for name in self.files if not is_ours(name)]


def _is_about_segment(flaw: Flaw) -> bool:
    return bool(parse_segment_name(flaw.path.rpartition("/")[2]))


def is_part(name: str) -> bool:
    """Whether a file of a run is a part of a large checkpoint."""
    return bool(_PART.fullmatch(name))


def is_plain_file(name: str) -> bool:
    """Whether a name is that of a file, and not of a link or a submodule."""
    return not name.endswith(NO_FILE)


def is_ours(name: str) -> bool:
    """Whether a file of a run has a name that only Holdfast gives."""
    if name in (INDEX, LATEST, SUMMARY, CLAIM) or is_part(name):
        return True
    return bool(parse_sequences(name) or parse_segment_name(name))


def find_unrest(run: ScannedRun, layout: Layout) -> str:
    """Return why a run must be left alone; empty if it is at rest.

    A writer puts the file, then `index.json`, then `latest.json`. Wherever it is between these, or was when
    it was interrupted, shows here; so does what someone else has changed.
    """
    return next(_unrest(run, layout), "")


def find_leftovers(run: ScannedRun, index: Index, layout: Layout) -> dict[str, RemoteFile]:
    """Return the checkpoint files that nobody can come to need, as their numbers were used and pruned.

    A sweep file by file that was interrupted leaves such; and a writer who does not know yet that a number
    was used, but finds out before it gets to the index. A segment is left over by an interrupted writer:
    nobody needs it once its numbers lie in other segments, or were pruned.
    """
    named = {layout.name_of(run.run_id, entry.file_path) for entry in index.all_entries}
    named |= {layout.name_of(run.run_id, segment.file_path) for segment in index.segments}
    closed_through = max((segment.last for segment in index.segments), default=0)

    def is_leftover(name: str) -> bool:
        if numbers := parse_sequences(name):
            return numbers[-1] <= index.pruned_through
        segment = parse_segment_name(name)
        return bool(segment) and segment[-1] <= max(index.pruned_through, closed_through)

    return {name: file for name, file in run.files.items() if name not in named and is_leftover(name)}


def find_unindexed(run: ScannedRun, index: Index, layout: Layout) -> list[str]:
    """Return the checkpoint files that the index does not name, but for those that are left over."""
    named = {layout.name_of(run.run_id, entry.file_path) for entry in index.all_entries}
    done_with = named | find_leftovers(run, index, layout).keys()
    return [name for name in run.files if parse_sequences(name) and name not in done_with]


def _unrest(run: ScannedRun, layout: Layout) -> Iterator[str]:
    if run.damage:
        yield run.damage
    elif not any(is_ours(name) for name in run.files):
        yield "nothing in it was written by Holdfast"
    elif run.is_archived:
        return
    elif set(run.files) == {CLAIM}:
        yield "it is claimed, and has no checkpoint yet"
    elif LATEST not in run.files:
        yield f"it has no latest.json: {_UNFINISHED}"
    elif INDEX not in run.files:
        yield from _unrest_without_index(run)
    elif run.index is None or not run.index.entries:
        reason = next((flaw.reason for flaw in run.snapshot.flaws), "it names no checkpoint")
        yield f"{INDEX} is damaged: {reason}"
    else:
        yield from _unrest_of_index(run, run.index, layout)


def _unrest_without_index(run: ScannedRun) -> Iterator[str]:
    newest = run.latest.sequence if run.latest else 0
    for name in run.files:
        numbers = parse_sequences(name)
        if numbers and numbers[-1] > newest:
            yield f"{name} is newer than latest.json: {_UNFINISHED}"
        if is_part(name) and name not in run.parts_of.get(LATEST, ()):
            yield f"{name} is no part of latest.json: {_UNFINISHED}"


def _unrest_of_index(run: ScannedRun, index: Index, layout: Layout) -> Iterator[str]:
    for name in find_unindexed(run, index, layout):
        yield f"{name} is not in the index: {_UNFINISHED}"
    for entry in index.all_entries:
        yield from _unrest_of_entry(run, entry, layout)
    if run.snapshot.latest_sequence != (index.current or index.entries[-1]).sequence:
        yield f"latest.json is not the newest checkpoint: {_UNFINISHED}"


def _unrest_of_entry(run: ScannedRun, entry: IndexEntry, layout: Layout) -> Iterator[str]:
    name = layout.name_of(run.run_id, entry.file_path)
    if not parse_sequences(name):
        yield f"the index names {name}, which is no checkpoint file"
    elif entry.blob_sha and is_single(name) and run.files[name].sha != entry.blob_sha:
        yield f"{name} is not what was written"
