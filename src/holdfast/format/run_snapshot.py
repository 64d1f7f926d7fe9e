"""What the folder of a run holds: the one model for those who write, read, check and clean up."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import Layout, is_single


class RemoteFile(NamedTuple):
    """A file of the repository: its blob, and how large that is; 0 if the listing does not tell."""

    sha: str
    size_bytes: int


class Flaw(NamedTuple):
    """Something that is wrong with a file of the folder: where, and how that shows."""

    path: str
    reason: str

    def __str__(self) -> str:
        return f"{self.path}: {self.reason}"


@dataclass(frozen=True, slots=True)
class RunSnapshot:
    """What a run's folder holds, as far as it is known. `blobs` has the blob of each file, by name.

    `index` is the one that `index.json` holds, or the one that ought to lie there: then it is not stored yet,
    and `flaws` say why. Where retention kept only `latest.json`, its checkpoint is `revived`: the index names
    a file for it that is still to be written. In one that is settled, `blobs` lacks files that the index
    names, as those of closed segments: they are there.
    """

    index: Index
    index_sha: str | None = None
    latest_sha: str | None = None
    latest_sequence: int = 0
    blobs: Mapping[str, str] = field(default_factory=dict)
    is_index_stored: bool = True
    revived: Envelope | None = None
    flaws: tuple[Flaw, ...] = ()
    is_settled: bool = False

    @property
    def run_id(self) -> str:
        """Return the run."""
        return self.index.run_id

    @property
    def pruned_through(self) -> int:
        """Return the number up to which checkpoints may be gone; all are where only `latest.json` is kept."""
        pruned_through = self.index.pruned_through
        return pruned_through if self.index.entries else max(pruned_through, self.latest_sequence)

    def settled(self) -> "RunSnapshot":
        """Return what a writer needs to go on after its own write: of what is closed, no more than outlines.

        So what it costs to add a checkpoint does not depend on how many there are.
        """
        if not self.index.is_outlined:
            return self
        segments = self.index.segments
        new = [each for each in segments if each.entries is not None or not self.is_settled]
        closed = set[str]().union(*(each.outline.names for each in new if each.outline))
        if not closed:
            return replace(self, is_settled=True)
        return replace(
            self,
            index=replace(self.index, segments=tuple(segment.in_short() for segment in segments)),
            blobs={name: sha for name, sha in self.blobs.items() if name not in closed},
            is_settled=True,
        )


def without_unproved(snapshot: RunSnapshot, checkpoint_ids: Collection[str], layout: Layout) -> RunSnapshot:
    """Return the snapshot without those of the checkpoints whose files are not what the index says.

    The index names a checkpoint that is still to be written if the answer to our own commit was lost, or if
    the commit failed to be verified.
    """
    by_id = snapshot.index.by_id
    named = [by_id[identity] for identity in checkpoint_ids if identity in by_id]
    unproved = {entry for entry in named if not _is_proved(entry, snapshot, layout)}
    if not unproved:
        return snapshot
    names = {layout.name_of(snapshot.run_id, entry.file_path) for entry in unproved}
    # `latest.json` may be a copy of one of them: it is written again, too, under the same number.
    return replace(
        snapshot,
        index=replace(
            snapshot.index.without({entry.checkpoint_id for entry in unproved}),
            pruned_through=snapshot.index.pruned_through,
        ),
        latest_sequence=min(snapshot.latest_sequence, *(entry.sequence - 1 for entry in unproved)),
        blobs={name: sha for name, sha in snapshot.blobs.items() if name not in names},
    )


def _is_proved(entry: IndexEntry, snapshot: RunSnapshot, layout: Layout) -> bool:
    """Whether the file of an entry is there and, if it holds nothing else, is the one that was sent."""
    name = layout.name_of(snapshot.run_id, entry.file_path)
    if name not in snapshot.blobs:
        return snapshot.is_settled
    return not is_single(name) or entry.blob_sha in ("", snapshot.blobs[name])
