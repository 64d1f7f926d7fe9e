"""Loads the checkpoints of one run, whatever has become of its files: the newest good one, or any by number.

Nothing that is not proved whole is ever returned. What had to be passed over on the way is told.
"""

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace

from holdfast.cache.own_commits import Ends
from holdfast.errors import (
    IntegrityFailure,
    NewerFormat,
    Remedy,
    RunArchived,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope
from holdfast.format.file_list import Blobs, highest_number
from holdfast.format.ids import At
from holdfast.format.index import Index, IndexEntry, highest_fence
from holdfast.format.index_segments import Segment, open_segment
from holdfast.format.paths import INDEX, LATEST, SUMMARY, Layout, is_single, parse_sequences
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot
from holdfast.format.stored_file import open_checkpoint
from holdfast.repository.candidates import Candidate, find_candidates, has_rivals
from holdfast.repository.checkpoint_files import FileOpener, Lacking, warn
from holdfast.repository.once import once
from holdfast.repository.sources import Files, RunSource
from holdfast.repository.understanding import RunFiles, check_owner, read_index, take_snapshot
from holdfast.security.trust import Trust

_SHOWN_REASONS = 5


@dataclass
class StoredRun:
    """What a source holds of one run. `warnings` grow with all that is found to be wrong.

    `damages` grow with what is wrong inside of batches, whether or not anyone asks for that checkpoint. Its
    methods raise GatewayError when the source is GitHub and does not answer.
    """

    source: RunSource
    layout: Layout
    run_id: str
    trust: Trust = field(default_factory=Trust)
    warnings: list[str] = field(default_factory=list)
    damages: list[IntegrityFailure] = field(default_factory=list)
    _ends: Ends | None = None

    def __post_init__(self) -> None:
        told = (self.warnings, self.damages)
        self._opener = FileOpener(self.source, self.layout, self.run_id, self.trust, *told)

    @once
    def files(self) -> Files:
        """The files of the run, by name."""
        return self.source.files(self.run_id)

    @once
    def snapshot(self) -> RunSnapshot:
        """What the folder holds, with the whole index that it has or ought to have."""
        return self._take_snapshot(is_whole=True)

    @once
    def _newest_snapshot(self) -> RunSnapshot:
        """What the folder holds, with no segment of its index read that is not needed."""
        return self._take_snapshot(is_whole=False)

    @once
    def index(self) -> Index | None:
        """The index; None if it is missing or bad. Raises NewerFormat."""
        try:
            return self.read_index()
        except NewerFormat:
            raise
        except IntegrityFailure as failure:
            self._warn(str(failure))
            return None

    def _take_snapshot(self, *, is_whole: bool) -> RunSnapshot:
        files = RunFiles(
            run_id=self.run_id,
            blobs=Blobs(self.files),
            read=self.read,
            part_names=lambda: self.source.part_names(self.run_id),
            fetch=self.fetch,
            is_whole=self.source.is_whole,
        )
        snapshot = take_snapshot(files, self.layout, is_whole=is_whole)
        for flaw in snapshot.flaws:
            self._warn(str(flaw))
        return snapshot

    @property
    def exists(self) -> bool:
        """Whether there is any checkpoint, or what was one."""
        return LATEST in self.files or INDEX in self.files or any(map(parse_sequences, self.files))

    def find_ends(self, *, is_proved: bool = False) -> Ends:
        """Return what is known of `index.json` and `latest.json` without a list of all files, if anything."""
        if self._ends is None or (is_proved and self._ends.highest_number is None):
            self._ends = self.source.ends(self.run_id, is_proved=is_proved)
        return self._ends

    def _find(self, name: str) -> RemoteFile | None:
        known = self._ends.files.get(name) if self._ends else None
        return known or self.files.get(name)

    def read_index(self) -> Index:
        """Return the index. Raises IntegrityFailure with the reason why it cannot be used."""
        return read_index(self.read(INDEX), self.layout.path(self.run_id, INDEX), self.run_id)

    @once
    def whole_index(self) -> Index | None:
        """The index with its segments, as far as they can be read; None if it is missing or bad."""
        index = self.index
        if index is None or index.is_whole:
            return index
        segments = []
        for segment in index.segments:
            try:
                segments.append(self.read_segment(segment, index))
            except IntegrityFailure as failure:
                self._warn(str(failure))
                segments.append(segment)
        return replace(index, segments=tuple(segments))

    def read_segment(self, segment: Segment, index: Index) -> Segment:
        """Return a segment of the index with its entries. Raises IntegrityFailure.

        The first that is read gets all of them, with as few requests as can be.
        """
        if segment is index.segments[0]:
            names = [self.layout.name_of(self.run_id, each.file_path) for each in index.segments]
            self.fetch([name for name in names if name in self.files])
        name = self.layout.name_of(self.run_id, segment.file_path)
        return open_segment(segment, self.read(name), self.run_id)

    def read(self, name: str) -> bytes:
        """Return the content of a file. Raises IntegrityFailure."""
        path = self.layout.path(self.run_id, name)
        file = self._find(name)
        if file is None:
            raise IntegrityFailure(path, "it is missing")
        return self.source.read(path, file)

    def fetch(self, names: Sequence[str]) -> None:
        """Get these files with as few requests as can be."""
        self.source.fetch([self.files[name] for name in names])

    def fetch_ends(self) -> None:
        """Get `index.json` and `latest.json` with as few requests as can be."""
        ends: Files = self.find_ends(is_proved=True).files
        if not ends:
            ends = {name: self.files[name] for name in (LATEST, INDEX) if name in self.files}
        self.source.fetch(list(ends.values()))

    def read_latest(self) -> Envelope:
        """Return the checkpoint that `latest.json` holds. Raises IntegrityFailure."""
        path = self.layout.path(self.run_id, LATEST)
        content = self.read(LATEST)
        envelope = open_checkpoint(content, path)
        check_owner(envelope, self.run_id, path)
        return self._opener.join(envelope, path, is_stamped=envelope.content == content)

    def newest(self) -> Envelope:
        """Return the newest good checkpoint: the latest; else by the index; else by the files themselves.

        Raises UnknownRun if there is no such run, IntegrityFailure if nothing of it is good.
        """
        if proved := self._proved_latest():
            return proved
        self._check_exists()
        latest = self._try_latest()
        highest = highest_number(self.files)
        if latest and latest.sequence >= highest:
            return latest
        if latest:
            path = self.layout.path(self.run_id, LATEST)
            self.warnings.append(
                f"{path}: it holds checkpoint {latest.sequence}, but {highest} is stored as well"
            )
        for candidate in self.candidates():
            if latest and candidate.sequence <= latest.sequence:
                return latest
            envelope = self.try_open(candidate)
            if envelope and not self._is_late(envelope, latest):
                return envelope
        if latest:
            return latest
        reasons = "; ".join(self.warnings[:_SHOWN_REASONS])
        raise IntegrityFailure(self.layout.run_folder(self.run_id), f"no checkpoint in it is good: {reasons}")

    def _proved_latest(self) -> Envelope | None:
        """Return the checkpoint of `latest.json` if no file has a newer one, and nobody has to list them."""
        ends = self.find_ends(is_proved=True)
        if LATEST not in ends.files or ends.highest_number is None:
            return None
        latest = self._try_latest()
        return latest if latest and latest.sequence >= ends.highest_number else None

    def highest_fence(self) -> int:
        """Return the highest fence of a stored checkpoint; 0 if there is none."""
        try:
            return highest_fence(self.list_newest(1).entries)
        except UnknownRun:
            return 0

    def _is_late(self, envelope: Envelope, latest: Envelope | None) -> bool:
        """Whether the run had been taken over by the time this checkpoint came; if so, a warning is added."""
        fence = envelope.header.fence
        if not fence:
            return False
        entries = self.index.entries if self.index else ()
        before = highest_fence(entry for entry in entries if entry.sequence < envelope.sequence)
        newest = max(before, (latest.header.fence or 0) if latest else 0)
        if fence >= newest:
            return False
        self._warn(
            f"checkpoint {envelope.sequence} was saved with fence {fence}, and came after the run had been "
            f"taken over with fence {newest}: it is passed over"
        )
        return True

    def at(self, at: At) -> Envelope:
        """Return the checkpoint with this number or id. Raises UnknownRun, IntegrityFailure."""
        return self._numbered(at) if isinstance(at, int) else self._identified(at)

    def _identified(self, checkpoint_id: str) -> Envelope:
        entry = self._find_entry(checkpoint_id) if self.exists else None
        envelope = self._numbered(entry.sequence) if entry else None
        if envelope and envelope.checkpoint_id == checkpoint_id:
            return envelope
        raise self._no_checkpoint(checkpoint_id)

    def _no_checkpoint(self, at: At) -> UnknownRun:
        return UnknownRun(f"run {self.run_id!r} has no checkpoint {at}", Remedy("checkpoints", self.run_id))

    def _find_entry(self, checkpoint_id: str) -> IndexEntry | None:
        """Return what the index says of a checkpoint; its segments are read only if it lists no such id."""
        return self.listing(1).by_id.get(checkpoint_id) or self.listing().by_id.get(checkpoint_id)

    def _numbered(self, sequence: int) -> Envelope:
        is_closed = self.index is not None and any(
            segment.first <= sequence <= segment.last for segment in self.index.segments
        )
        named = [candidate for candidate in self._named(is_whole=is_closed) if candidate.sequence == sequence]
        known = {candidate.name for candidate in named}
        others = [
            Candidate(sequence, name)
            for name in sorted(self.files)
            if sequence in parse_sequences(name) and name not in known
        ]
        failure: IntegrityFailure | None = None
        for candidate in (*named, *others):
            try:
                return self.open(candidate)
            except IntegrityFailure as error:
                is_gap = isinstance(error, Lacking) and candidate in others and not is_single(candidate.name)
                failure = failure or (None if is_gap else error)
        latest = self._try_latest() if LATEST in self.files else None
        if latest and latest.sequence == sequence:
            return latest
        if failure:
            raise failure
        raise self._no_checkpoint(sequence)

    def before(self, sequence: int) -> Iterator[Envelope]:
        """Yield the good checkpoints with smaller numbers, the newest first."""
        for candidate in self.candidates():
            if candidate.sequence < sequence:
                envelope = self.try_open(candidate)
                if envelope:
                    yield envelope

    def candidates(self, *, is_whole: bool = False) -> Iterator[Candidate]:
        """Yield every place where a checkpoint may lie, the newest first; a batch is opened in its turn.

        What lies in segments of the index is known by its files alone, unless `is_whole`.
        """
        return find_candidates(self._named(is_whole=is_whole), self.files, self._numbers_in)

    def _named(self, *, is_whole: bool) -> list[Candidate]:
        """Return the places that the index names; the rebuilt one if it is lost and files are rivals."""
        index = self.whole_index if is_whole else self.index
        entries: Iterable[IndexEntry] = index.all_entries if index else ()
        if index is None and has_rivals(self.files):
            entries = self.snapshot.index.all_entries
            entries = [e for e in entries if self.layout.name_of(self.run_id, e.file_path) in self.files]
        return [
            Candidate(entry.sequence, self.layout.name_of(self.run_id, entry.file_path), entry)
            for entry in entries
        ]

    def _numbers_in(self, batch: str) -> Iterable[int]:
        """Return the numbers that a batch holds; the last one that it claims, if it cannot be opened."""
        try:
            return self._opener.contents(self.layout.path(self.run_id, batch), self.files[batch]).envelopes
        except IntegrityFailure:
            return parse_sequences(batch)[-1:]

    def open(self, candidate: Candidate) -> Envelope:
        """Return the checkpoint that lies there, whole again. Raises IntegrityFailure."""
        return self._opener.open(candidate, self.files)

    def try_open(self, candidate: Candidate) -> Envelope | None:
        """Return the checkpoint that lies there, or None with a warning. Raises NewerFormat."""
        return self._try(lambda: self.open(candidate))

    def _try_latest(self) -> Envelope | None:
        return self._try(self.read_latest)

    def _try(self, read: Callable[[], Envelope]) -> Envelope | None:
        try:
            return read()
        except NewerFormat:
            raise  # to go on from an older one would undo what a newer Holdfast has done
        except IntegrityFailure as failure:
            self._warn(str(failure))
            return None

    def _check_exists(self) -> None:
        if self.exists:
            return
        if SUMMARY in self.files:
            reason = f"run {self.run_id!r} is archived: of its checkpoints only a summary is left"
            raise RunArchived(reason, Remedy("summary", self.run_id))
        raise UnknownRun(f"there is no run {self.run_id!r}, neither stored nor spooled", Remedy("runs"))

    def listing(self, newest: int | None = None) -> Index:
        """Return the whole index that the run has or ought to have. Raises UnknownRun.

        If only so many of the `newest` are asked for, no segment is read that is not needed for these.
        """
        self._check_exists()
        snapshot = self._newest_snapshot if newest is not None else self.snapshot
        if newest is not None and newest > len(snapshot.index.entries) and not snapshot.index.is_whole:
            snapshot = self.snapshot
        index, revived = snapshot.index, snapshot.revived
        if revived is None:
            return index
        path = self.layout.path(self.run_id, LATEST)  # it has no file of its own
        entries = (
            replace(entry, file_path=path) if entry.checkpoint_id == revived.checkpoint_id else entry
            for entry in index.entries
        )
        moment = index.last_updated or revived.header.timestamp
        return replace(index, entries=tuple(entries), last_updated=moment)

    def list_newest(self, count: int) -> Index:
        """Return the index with so many of the newest checkpoints at least. Raises UnknownRun.

        A stored index that has them, and whose newest is that of `latest.json`, is taken at its word.
        """
        index = self._sound_index()
        return index if index and (count <= len(index.entries) or index.is_whole) else self.listing(count)

    def _sound_index(self) -> Index | None:
        """Return the index as it is stored, if it can be had and trusted without a list of all files."""
        ends = self.find_ends().files
        if not ends.keys() >= {INDEX, LATEST}:
            return None
        path = self.layout.path(self.run_id, INDEX)
        try:
            index = read_index(self.source.read(path, ends[INDEX]), path, self.run_id)
        except NewerFormat:
            raise
        except IntegrityFailure:
            return None
        newest = index.newest
        return index if newest and newest.blob_sha == ends[LATEST].sha else None

    def read_many(self, checkpoint_ids: Iterable[str]) -> dict[str, Envelope]:
        """Return these checkpoints by their ids, with as few requests as can be. Raises like `at`."""
        wanted = list(checkpoint_ids)
        entries = self.listing().by_id
        paths = {entries[each].file_path for each in wanted if each in entries}
        names = {self.layout.name_of(self.run_id, path) for path in paths}
        self.fetch([name for name in names if name in self.files])
        return {each: self.at(each) for each in wanted}

    def read_all(self) -> list[Envelope]:
        """Return every good checkpoint, the oldest first. Raises UnknownRun."""
        self._check_exists()
        self.fetch_all()
        candidates = list(self.candidates(is_whole=True))[::-1]
        if not candidates:
            latest = self._try_latest()
            return [latest] if latest else []
        return [envelope for candidate in candidates if (envelope := self.try_open(candidate))]

    def fetch_all(self) -> None:
        """Get every checkpoint file with as few requests as can be."""
        self.fetch([name for name in self.files if parse_sequences(name)])

    def _warn(self, warning: str) -> None:
        warn(self.warnings, warning)
