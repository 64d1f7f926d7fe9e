"""From what a run's folder holds and what is to be added to it, to the files that must be written.

How to merge with other writers is decided here, once the numbers are settled: which files are there already,
the union of two indexes, and which checkpoint becomes `latest.json`.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from holdfast.drain.numbering import StoredFile
from holdfast.errors import Unverified
from holdfast.format.checkpoint import Envelope
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import (
    INDEX,
    LATEST,
    Layout,
    format_batch_name,
    format_checkpoint_name,
)
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import entry_of, join_batch
from holdfast.jsontext.weight import is_heavier
from holdfast.styles.lateness import mark_late
from holdfast.styles.review import carry_review


@dataclass(frozen=True, slots=True)
class FileWrite:
    """One file to be put: `expected_sha` is the blob that it replaces, None if it must be new."""

    path: str
    content: bytes
    blob_sha: str
    message: str
    expected_sha: str | None = None
    is_part: bool = False


@dataclass(frozen=True, slots=True)
class WritePlan:
    """What to write so that `entries` are stored, in `index.json` and, if newest, in `latest.json`.

    `files` are those still missing; `index` and `latest` are None when they are right as they are. Segments
    that this index closes are written before it.
    """

    entries: Mapping[str, IndexEntry]
    files: tuple[FileWrite, ...]
    index: FileWrite | None
    latest: FileWrite | None
    merged: Index
    segments: tuple[FileWrite, ...] = ()

    @property
    def own_files(self) -> tuple[FileWrite, ...]:
        """Return the files but for parts, which may belong to other checkpoints as well."""
        return tuple(file for file in self.files if not file.is_part)

    def snapshot_after(self, snapshot: RunSnapshot, layout: Layout) -> RunSnapshot:
        """Return what the folder holds once everything is written."""
        written = (*self.own_files, *self.segments)
        own = {layout.name_of(snapshot.run_id, file.path): file.blob_sha for file in written}
        newest = self.merged.current
        return RunSnapshot(
            index=self.merged,
            index_sha=self.index.blob_sha if self.index else snapshot.index_sha,
            latest_sha=self.latest.blob_sha if self.latest else snapshot.latest_sha,
            latest_sequence=newest.sequence if self.latest and newest else snapshot.latest_sequence,
            blobs={**snapshot.blobs, **own},
            is_settled=snapshot.is_settled,
        )


def own_files(
    snapshot: RunSnapshot, envelopes: Sequence[Envelope], *, is_batch: bool, layout: Layout
) -> dict[str, StoredFile]:
    """Return the file that each checkpoint is about to become, unless the index has it already."""
    return {
        identity: (layout.name_of(snapshot.run_id, write.path), write.blob_sha)
        for write, identities in _plan_files(snapshot, envelopes, is_batch=is_batch, layout=layout)
        for identity in identities
    }


def plan_write(
    snapshot: RunSnapshot,
    envelopes: Sequence[Envelope],
    *,
    is_batch: bool,
    layout: Layout,
    now: str,
    machine: str = "",
) -> WritePlan:
    """Return what must be written to add `envelopes`, whose numbers are settled, to the run.

    The index names `machine`, whose checkpoints they are, where they come late.
    """
    run_id = snapshot.run_id
    missing = _missing(snapshot, envelopes)
    planned = _plan_files(snapshot, envelopes, is_batch=is_batch, layout=layout)
    paths = {identity: write.path for write, identities in planned for identity in identities}
    if snapshot.revived:
        planned += _revived(snapshot, snapshot.revived, layout)
    added = [entry_of(envelope, paths[envelope.checkpoint_id]) for envelope in missing]
    added = mark_late(added, snapshot.index.entries, machine)
    workflow = next((e.header.workflow for e in reversed(envelopes) if e.header.workflow), None)
    is_index_due = bool(added) or not snapshot.is_index_stored
    merged = snapshot.index
    if is_index_due:
        united = snapshot.index.with_entries(added, workflow=workflow, now=now)
        review = carry_review(snapshot.index.review, missing)
        whole = replace(united, pruned_through=snapshot.pruned_through, review=review)
        merged = whole.folded(layout.run_folder(run_id))
    parts = [part for envelope in missing for part in _parts(run_id, envelope, layout)]
    files = [
        write
        for write, _ in planned
        if snapshot.blobs.get(layout.name_of(run_id, write.path)) != write.blob_sha
    ]
    return WritePlan(
        entries={envelope.checkpoint_id: merged.by_id[envelope.checkpoint_id] for envelope in envelopes},
        files=(*parts, *files),
        index=_index_write(snapshot, merged, added, layout) if is_index_due else None,
        latest=_latest_write(snapshot, merged, envelopes, layout),
        merged=merged,
        segments=_segment_writes(snapshot, merged, layout) if is_index_due else (),
    )


def _segment_writes(snapshot: RunSnapshot, merged: Index, layout: Layout) -> tuple[FileWrite, ...]:
    """Return the segments that are not stored yet.

    Where an earlier attempt has left another file that no index names, it is replaced.
    """
    stored = {segment.sha256 for segment in snapshot.index.segments} if snapshot.is_index_stored else set()
    writes = []
    for segment in merged.segments:
        if segment.sha256 in stored:
            continue
        in_place = snapshot.blobs.get(layout.name_of(snapshot.run_id, segment.file_path))
        content = segment.to_bytes(snapshot.run_id)
        message = f"Index {snapshot.run_id}: checkpoints {segment.first} to {segment.last}"
        write = FileWrite(segment.file_path, content, blob_sha(content), message, in_place)
        if write.blob_sha != in_place:
            writes.append(write)
    return tuple(writes)


def _missing(snapshot: RunSnapshot, envelopes: Sequence[Envelope]) -> list[Envelope]:
    """Return those that are not stored. Raises Unverified if one lies in a segment that was not read."""
    index = snapshot.index
    missing = [envelope for envelope in envelopes if envelope.checkpoint_id not in index.by_id]
    for identity in (envelope.checkpoint_id for envelope in missing):
        if segment := next((segment for segment in index.segments if segment.has_id(identity)), None):
            raise Unverified(segment.file_path, f"checkpoint {identity} lies in it, but it was not read")
    return missing


def _plan_files(
    snapshot: RunSnapshot, envelopes: Sequence[Envelope], *, is_batch: bool, layout: Layout
) -> list[tuple[FileWrite, list[str]]]:
    """Return the files for what is missing, and which checkpoints each of them holds."""
    missing = _missing(snapshot, envelopes)
    if not is_batch:
        return _singles(snapshot.run_id, missing, layout)
    groups = _light_groups(sorted(missing, key=lambda envelope: envelope.sequence))
    return [
        planned
        for group in groups
        for planned in (_batch if len(group) > 1 else _singles)(snapshot.run_id, group, layout)
    ]


def _light_groups(envelopes: Sequence[Envelope]) -> list[Sequence[Envelope]]:
    """Split the envelopes until each group, as one file, is light enough for readers."""
    if len(envelopes) < 2 or not is_heavier(b"".join(envelope.content for envelope in envelopes)):
        return [envelopes] if envelopes else []
    middle = len(envelopes) // 2
    return _light_groups(envelopes[:middle]) + _light_groups(envelopes[middle:])


def _singles(run_id: str, envelopes: Sequence[Envelope], layout: Layout) -> list[tuple[FileWrite, list[str]]]:
    return [
        (
            FileWrite(
                path=layout.path(run_id, format_checkpoint_name(envelope.sequence, envelope.header.trigger)),
                content=envelope.content,
                blob_sha=envelope.blob_sha,
                message=f"Checkpoint {envelope.checkpoint_id}",
            ),
            [envelope.checkpoint_id],
        )
        for envelope in envelopes
    ]


def _revived(snapshot: RunSnapshot, latest: Envelope, layout: Layout) -> list[tuple[FileWrite, list[str]]]:
    """Return the file of a checkpoint that only `latest.json` still has.

    What lies in its place is damaged, or has to move.
    """
    ((write, identities),) = _singles(snapshot.run_id, [latest], layout)
    in_place = snapshot.blobs.get(layout.name_of(snapshot.run_id, write.path))
    return [(replace(write, expected_sha=in_place), identities)]


def _parts(run_id: str, envelope: Envelope, layout: Layout) -> list[FileWrite]:
    """Return the parts of a checkpoint; whether they are there already is found out when they are put."""
    message = f"Part of checkpoint {envelope.checkpoint_id}"
    return [
        FileWrite(layout.path(run_id, name), content, blob_sha(content), message, is_part=True)
        for name, content in envelope.parts.items()
    ]


def _batch(run_id: str, envelopes: Sequence[Envelope], layout: Layout) -> list[tuple[FileWrite, list[str]]]:
    first, last = envelopes[0].sequence, envelopes[-1].sequence
    identities = [envelope.checkpoint_id for envelope in envelopes]
    content = join_batch([envelope.content for envelope in envelopes], [each.sequence for each in envelopes])
    message = f"Checkpoints {first} to {last} of {run_id}\n\n" + "\n".join(
        f"Checkpoint {id_}" for id_ in identities
    )
    path = layout.path(run_id, format_batch_name(first, last))
    return [(FileWrite(path, content, blob_sha(content), message), identities)]


def _index_write(
    snapshot: RunSnapshot, merged: Index, added: Sequence[IndexEntry], layout: Layout
) -> FileWrite:
    content = merged.to_bytes()
    count = "1 checkpoint" if len(added) == 1 else f"{len(added)} checkpoints"
    message = f"Index {snapshot.run_id}: {count} added"
    return FileWrite(
        layout.path(snapshot.run_id, INDEX), content, blob_sha(content), message, snapshot.index_sha
    )


def _latest_write(
    snapshot: RunSnapshot, merged: Index, envelopes: Sequence[Envelope], layout: Layout
) -> FileWrite | None:
    newest = merged.current
    if newest is None or newest.sequence <= snapshot.latest_sequence:
        return None
    envelope = next((e for e in envelopes if e.checkpoint_id == newest.checkpoint_id), None)
    if envelope is None:
        return None  # another writer's checkpoint is the newest: it is that writer's to copy
    return FileWrite(
        path=layout.path(snapshot.run_id, LATEST),
        content=envelope.content,
        blob_sha=envelope.blob_sha,
        message=f"Latest {snapshot.run_id}: checkpoint {newest.checkpoint_id}",
        expected_sha=snapshot.latest_sha,
    )
