"""Makes a run's snapshot: one function for all, whether they read GitHub, the local copy or a scan."""

from collections.abc import Callable, Collection, Container, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cache

from holdfast.errors import IntegrityFailure, InvalidCheckpoint, NewerFormat, NotInCopy
from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index, IndexEntry, parse_index
from holdfast.format.index_segments import Outline, Segment, open_segment, outline_segment
from holdfast.format.parts import part_paths
from holdfast.format.paths import INDEX, LATEST, Layout, parse_segment_name, parse_sequences
from holdfast.format.run_snapshot import Flaw, RunSnapshot
from holdfast.format.stored_file import open_checkpoint, open_contents
from holdfast.format.versions import refuse_newer
from holdfast.jsontext.members import parse_document
from holdfast.jsontext.weight import is_heavier
from holdfast.repository.rebuild import (
    LatestCheckpoint,
    OpenedFiles,
    find_dangling,
    is_outdated,
    mend_index,
    rebuild_index,
    revive,
)

_PARTS = b'"parts"'


@dataclass(frozen=True, slots=True)
class RunFiles:
    """The files of one run: their blobs by name, and how they are read; in nothing else do sources differ.

    `read` raises IntegrityFailure for what cannot be had or is too large. `part_names` tells which parts of
    large checkpoints are there; None if that is not known. `fetch` gets ready to read many files with as few
    requests as can be. If the listing is not whole, an index is taken at its word. Where there are
    `outlines`, by the blobs of segments, no segment is read further than to its outline.
    """

    run_id: str
    blobs: Mapping[str, str]
    read: Callable[[str], bytes]
    part_names: Callable[[], Container[str] | None]
    fetch: Callable[[Sequence[str]], None] = lambda _: None
    is_whole: bool = True
    outlines: Callable[[], Mapping[str, Outline]] | None = None


def take_snapshot(files: RunFiles, layout: Layout, *, is_whole: bool = True) -> RunSnapshot:
    """Return what a run's folder holds.

    The checkpoint files are opened only if `index.json` or a segment of it is lost or outdated, and
    `latest.json` only if the index does not know its blob. Unless the index is to be whole, its segments are
    read only if one of them is lost, or the checkpoint of `latest.json` may be in one. Raises NewerFormat if
    one of them is of a later format: whoever went on from what is left without it would undo what a newer
    Holdfast has done.
    """
    return _Understanding(files, layout, is_whole=is_whole).conclude()


def read_index(content: bytes, path: str, run_id: str) -> Index:
    """Return the index of a run. Raises IntegrityFailure, also if it is that of another run."""
    index = parse_index(content, path)
    if index.run_id != run_id:
        raise IntegrityFailure(path, f"it is the index of run {index.run_id!r}")
    return index


def check_weight(path: str, content: bytes) -> None:
    """Refuse a file whose values take more memory than any of ours would. Raises IntegrityFailure."""
    if is_heavier(content):
        raise IntegrityFailure(path, "it is made of so many values that they take too much memory")


def check_owner(envelope: Envelope, run_id: str, path: str) -> None:
    """Raise IntegrityFailure unless the checkpoint belongs to the run, and has a number in it."""
    if envelope.header.run_id != run_id:
        raise IntegrityFailure(path, f"it belongs to run {envelope.header.run_id!r}")
    if not envelope.sequence:
        raise IntegrityFailure(path, "it has no sequence_number")


def _refuse_newer_text(content: bytes, path: str) -> None:
    """Raise NewerFormat if a file says that it is of a later format; its integrity is not looked at."""
    try:
        document = parse_document(content).value
    except InvalidCheckpoint:
        return  # it is damaged, as `open_checkpoint` tells
    refuse_newer(document, path)


def _without_segments(index: Index, lost: Collection[Segment]) -> Index:
    return replace(index, segments=tuple(each for each in index.segments if each not in lost))


class _Understanding:
    """One folder on its way to a snapshot; `flaws` grow with all that is found to be wrong."""

    def __init__(self, files: RunFiles, layout: Layout, *, is_whole: bool) -> None:
        self._is_index_whole = is_whole
        self._run_id = files.run_id
        self._blobs = files.blobs
        self._files = files
        self._layout = layout
        self._flaws: list[Flaw] = []
        self._lost: list[Segment] = []
        # Not a cached_property: in Python 3.11 all threads would wait for the request of one.
        self._part_names = cache(files.part_names)

    def conclude(self) -> RunSnapshot:
        """Return the snapshot."""
        stored = self._stored_index()
        if stored and (self._is_index_whole or self._lost_segments(stored)):
            stored = self._unfold(stored)
        dangling = self._find_dangling(stored) if stored else ()
        latest = self._find_latest(stored, set(dangling))
        if stored and not stored.is_whole and self._is_to_be_mended(stored, latest, dangling):
            stored = self._read_segments(stored, [each for each in stored.segments if each.entries is None])
            dangling = self._find_dangling(stored)
        if stored is None:
            opened = self._open_files()
            index = rebuild_index(self._run_id, opened, latest, is_trimmed=INDEX not in self._blobs)
            is_stored = INDEX not in self._blobs and not opened.entries and not opened.damaged
        else:
            lost = [segment for segment in stored.segments if segment in self._lost]
            is_stored = not (dangling or lost or is_outdated(stored, latest))
            self._tell(stored, dangling, latest)
            opened = self._open_lost(stored, lost, is_all=is_outdated(stored, latest))
            index = mend_index(_without_segments(stored, lost), latest, dangling, opened)
        whole = revive(index, latest, self._layout)
        return RunSnapshot(
            index=whole,
            index_sha=self._blobs.get(INDEX),
            latest_sha=self._blobs.get(LATEST),
            latest_sequence=latest.sequence,
            blobs=self._blobs,
            is_index_stored=is_stored and whole is index,
            revived=None if whole is index else latest.envelope,
            flaws=tuple(self._flaws),
        )

    def _find_dangling(self, stored: Index) -> tuple[IndexEntry, ...]:
        return find_dangling(stored, self._blobs, self._layout) if self._files.is_whole else ()

    def _segment_name(self, segment: Segment) -> str:
        return self._layout.name_of(self._run_id, segment.file_path)

    def _lost_segments(self, stored: Index) -> bool:
        """Whether a segment is not there, as far as the listing tells."""
        return self._files.is_whole and any(
            self._segment_name(segment) not in self._blobs for segment in stored.segments
        )

    def _is_to_be_mended(self, stored: Index, latest: LatestCheckpoint, dangling: Sequence[object]) -> bool:
        """Whether the index must be mended, and so be read as a whole."""
        return is_outdated(stored, latest) or (self._is_index_whole and bool(dangling or self._lost))

    def _unfold(self, stored: Index) -> Index:
        """Return the index with its segments read: only their outlines where these suffice."""
        if self._files.outlines is None:
            return self._read_segments(stored, stored.segments)
        known = self._files.outlines()
        shas = [self._blobs.get(self._segment_name(segment), "") for segment in stored.segments]
        pairs = list(zip(stored.segments, shas, strict=True))
        self._files.fetch([self._segment_name(each) for each, sha in pairs if sha and sha not in known])
        segments = tuple(self._outline(segment, known.get(sha)) for segment, sha in pairs)
        unknown = [segment for segment in segments if segment.outline is None]
        return self._read_segments(replace(stored, segments=segments), unknown)

    def _outline(self, segment: Segment, known: Outline | None) -> Segment:
        """Return a segment with its outline, if that can be had and every file that it names is there."""
        try:
            found = segment.outlined(known) if known else self._read_outline(segment)
        except NewerFormat:
            raise
        except IntegrityFailure:
            return segment  # whoever reads it all tells why
        is_there = found.known is not None and found.known.names <= self._blobs.keys()
        return found if is_there else segment

    def _read_outline(self, segment: Segment) -> Segment:
        return outline_segment(segment, self._read_named(self._segment_name(segment)), self._run_id)

    def _read_segments(self, stored: Index, unread: Sequence[Segment]) -> Index:
        """Return the index with the entries of these of its segments; those that are lost are noted."""
        names = [self._segment_name(segment) for segment in unread]
        self._files.fetch([name for name in names if name in self._blobs])
        read = {segment: self._read_segment(segment) for segment in unread}
        return replace(stored, segments=tuple(read.get(segment, segment) for segment in stored.segments))

    def _read_segment(self, segment: Segment) -> Segment:
        name = self._segment_name(segment)
        if name not in self._blobs and not self._files.is_whole:
            return segment
        try:
            return open_segment(segment, self._read_named(name), self._run_id)
        except NotInCopy:
            return segment
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            self._note(failure)
            self._lost.append(segment)
            return replace(segment, entries=())

    def _read_named(self, name: str) -> bytes:
        if name not in self._blobs or not parse_segment_name(name):
            raise IntegrityFailure(self._path(name), "the index names it as a segment, but it is not there")
        return self._files.read(name)

    def _open_lost(self, stored: Index, lost: Collection[Segment], *, is_all: bool) -> OpenedFiles:
        """Return what is good in the files that no index names any more; in all files if it is outdated."""
        if is_all:
            return self._open_files()
        if not lost:
            return OpenedFiles()
        named = {self._layout.name_of(self._run_id, entry.file_path) for entry in stored.all_entries}

        def is_lost(name: str) -> bool:
            numbers = parse_sequences(name)
            # Of a batch some may still be named elsewhere.
            return (name not in named or len(numbers) > 1) and any(
                numbers[0] <= segment.last and segment.first <= numbers[-1] for segment in lost if numbers
            )

        return self._open_files([name for name in self._blobs if is_lost(name)])

    def _note(self, failure: IntegrityFailure) -> None:
        self._flaws.append(Flaw(failure.path, failure.reason))

    def _path(self, name: str) -> str:
        return self._layout.path(self._run_id, name)

    def _stored_index(self) -> Index | None:
        """Return the index that the folder holds; None if it is lost."""
        path = self._path(INDEX)
        if INDEX not in self._blobs:
            self._flaws.append(Flaw(path, "it is missing"))
            return None
        try:
            return read_index(self._files.read(INDEX), path, self._run_id)
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            self._note(failure)
            return None

    def _tell(self, stored: Index, dangling: Sequence[IndexEntry], latest: LatestCheckpoint) -> None:
        path = self._path(INDEX)
        if dangling:
            name = self._layout.name_of(self._run_id, dangling[0].file_path)
            others = f", nor are {len(dangling) - 1} others" if dangling[1:] else ""
            self._flaws.append(Flaw(path, f"it names {name}, which is not there{others}"))
        if is_outdated(stored, latest):
            self._flaws.append(Flaw(path, f"it is older than {LATEST}, and does not name its checkpoint"))

    def _find_latest(self, stored: Index | None, gone: Container[IndexEntry]) -> LatestCheckpoint:
        """Return what `latest.json` is a copy of; as a rule, the index knows by its blob."""
        latest_sha = self._blobs.get(LATEST)
        if latest_sha is None:
            return LatestCheckpoint()
        for entry in stored.newest_first() if stored else ():
            if entry.blob_sha == latest_sha and entry not in gone:
                return LatestCheckpoint(entry.checkpoint_id, entry.sequence)
        path = self._path(LATEST)
        try:
            content = self._files.read(LATEST)
            _refuse_newer_text(content, path)
            envelope = open_checkpoint(content, path)
            check_owner(envelope, self._run_id, path)
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            self._note(failure)
            return LatestCheckpoint()  # it is worth nothing as it is: the next checkpoint replaces it
        return LatestCheckpoint(envelope.checkpoint_id, envelope.sequence, envelope)

    def _open_files(self, names: Sequence[str] | None = None) -> OpenedFiles:
        """Return what is good in the checkpoint files, or in those that are named."""
        if names is None:
            names = [name for name in self._blobs if parse_sequences(name)]
        self._files.fetch(names)
        entries: dict[str, list[IndexEntry]] = {}
        damaged: list[str] = []
        workflows: dict[int, str | None] = {}
        for name in names:
            before = len(self._flaws)
            envelopes, found = self._open(name)
            if found:
                entries[name] = found
                workflows |= {envelope.sequence: envelope.header.workflow for envelope in envelopes}
            if len(self._flaws) > before:
                damaged.append(name)
        workflow = next((workflows[number] for number in sorted(workflows, reverse=True)), None)
        return OpenedFiles(entries, damaged, workflow)

    def _open(self, name: str) -> tuple[list[Envelope], list[IndexEntry]]:
        """Return the good checkpoints of a file, and what an index would say of them."""
        path = self._path(name)
        try:
            content = self._files.read(name)
            check_weight(path, content)
            contents = open_contents(content, path)
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            self._note(failure)
            return [], []
        for damage in contents.failures:
            self._note(damage)
        good = [envelope for envelope in contents.envelopes.values() if self._is_good(envelope, name)]
        numbers = {envelope.sequence for envelope in good}
        return good, [entry for entry in contents.entries(path) if entry.sequence in numbers]

    def _is_good(self, envelope: Envelope, name: str) -> bool:
        path = self._path(name)
        try:
            check_owner(envelope, self._run_id, path)
            self._check_parts(envelope)
        except IntegrityFailure as failure:
            self._note(failure)
            return False
        if envelope.sequence in parse_sequences(name):
            return True
        self._flaws.append(Flaw(path, f"it holds checkpoint {envelope.sequence} under another number"))
        return False

    def _check_parts(self, envelope: Envelope) -> None:
        """Raise IntegrityFailure if a part is not there: retention may have been quicker than the writer."""
        if _PARTS not in envelope.content:
            return
        document = parse_document(envelope.content).value
        for path in part_paths(document, self._layout.run_folder(self._run_id)):
            there = self._part_names()
            if there is not None and self._layout.name_of(self._run_id, path) not in there:
                raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")
