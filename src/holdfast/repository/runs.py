"""The snapshots that a writer works on, asked of GitHub as seldom as possible."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Container, Mapping, Sequence
from dataclasses import replace

from holdfast.cache.local_copy import RepositoryCache
from holdfast.cache.own_commits import Ends
from holdfast.errors import IntegrityFailure, Missing
from holdfast.format.file_list import find_highest
from holdfast.format.index import Index
from holdfast.format.index_segments import Outline, Segment, open_segment
from holdfast.format.paths import INDEX, LATEST, PARTS, Layout
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot
from holdfast.github.calls import Gateway
from holdfast.github.listing import is_commit, list_folder
from holdfast.github.write_calls import Revision
from holdfast.logs import log
from holdfast.repository.blobs import BlobReader
from holdfast.repository.understanding import RunFiles, check_weight, take_snapshot

MAX_REMEMBERED_RUNS = 256

ChooseSegments = Callable[[Index], Sequence[Segment]]
"""Tells which segments of an index must be read."""


class Runs:
    """The folders of all runs on one branch, as far as we know them."""

    def __init__(self, gateway: Gateway, cache: RepositoryCache, layout: Layout, branch: str) -> None:
        self._gateway = gateway
        self._cache = cache
        self._layout = layout
        self._branch = branch
        self._snapshots: OrderedDict[str, RunSnapshot] = OrderedDict()
        self._outlined: dict[str, tuple[Segment, ...]] = {}
        self._lock = threading.Lock()
        self._own_commit = ""
        self._certain: set[str] = set()

    def snapshot(self, run_id: str) -> RunSnapshot:
        """Return how the folder stands, as remembered if it can be; a writer finds out if that is old."""
        snapshot = self._snapshots.get(run_id) or self._cache.snapshot(run_id)
        if snapshot is None or not snapshot.index.is_outlined:
            return self.refresh(run_id)
        self._remember(snapshot)
        return snapshot

    def recall(self, run_id: str, lowest: int) -> tuple[RunSnapshot, str] | None:
        """Return how our own last commit left the folder, and up to which commit nobody else has written.

        None if that is not known, or if a file may be there with a number from `lowest` on.
        """
        ends = self._cache.ends(run_id)
        if not ends or not ends.lineage or ends.highest_number is None or lowest <= ends.highest_number:
            return None
        snapshot = self._cache.snapshot(run_id)
        is_same = snapshot and [file.sha for file in _in_order(ends.files)] == [
            snapshot.index_sha,
            snapshot.latest_sha,
        ]
        if not snapshot or not is_same or not snapshot.index.is_outlined:
            return None
        return replace(snapshot, is_settled=True), ends.commit_sha

    def refresh(self, run_id: str) -> RunSnapshot:
        """Return how the branch shows the folder; it may lag behind."""
        self._certain.discard(run_id)
        snapshot = self.read_at(run_id, self._branch)
        self._remember(snapshot)
        return snapshot

    def keep(self, snapshot: RunSnapshot) -> None:
        """Remember how the folder stands after our own write."""
        if snapshot.index.read_segments:  # one of them was read or closed just now
            self._keep_outlines(snapshot)
        settled = snapshot.settled()
        self._remember(settled)
        self._cache.keep_snapshot(settled)

    def keep_committed(self, snapshot: RunSnapshot) -> RunSnapshot:
        """Remember how the folder stands after our own commit, whose files are kept; return it settled."""
        if snapshot.index.read_segments:  # one of them was read or closed just now
            self._keep_outlines(snapshot)
        self._cache.keep_snapshot(snapshot, is_index_kept=True)
        return snapshot.settled()

    def _keep_outlines(self, snapshot: RunSnapshot) -> None:
        segments = snapshot.index.segments
        if self._outlined.get(snapshot.run_id) != segments:
            self._cache.keep_outlines(snapshot)
            self._outlined[snapshot.run_id] = segments
            if len(self._outlined) > MAX_REMEMBERED_RUNS:
                del self._outlined[next(iter(self._outlined))]

    def unfold(self, snapshot: RunSnapshot, choose: ChooseSegments, ref: str = "") -> RunSnapshot:
        """Return the snapshot with those segments of its index read that are chosen.

        If one cannot be read, the folder is looked at once more, as of `ref` or as the branch shows it.
        Raises IntegrityFailure if it still cannot: who wrote without it might store what is in there again.
        """
        try:
            return self._with_segments(snapshot, choose)
        except IntegrityFailure:
            self._cache.forget_outlines(snapshot.run_id)
            self._outlined.pop(snapshot.run_id, None)
        again = self.read_at(snapshot.run_id, ref) if ref else self.refresh(snapshot.run_id)
        return self._with_segments(again, choose)

    def _with_segments(self, snapshot: RunSnapshot, choose: ChooseSegments) -> RunSnapshot:
        chosen = choose(snapshot.index)
        if not chosen:
            return snapshot
        shas = {segment: snapshot.blobs[segment.name] for segment in chosen}
        reader = BlobReader(self._gateway, self._cache)
        reader.fetch([RemoteFile(sha, 0) for sha in shas.values()])

        def read(segment: Segment) -> Segment:
            try:
                return open_segment(segment, reader.read(shas[segment]), snapshot.run_id)
            except Missing as error:
                raise IntegrityFailure(segment.file_path, "GitHub lists it, but does not have it") from error

        segments = tuple(read(segment) if segment in shas else segment for segment in snapshot.index.segments)
        return replace(snapshot, index=replace(snapshot.index, segments=segments))

    def trust(self, run_id: str, commit_sha: str) -> None:
        """Learn that the folder was as we believe at this commit: certain until someone else writes."""
        if commit_sha == self._own_commit:
            self._certain.add(run_id)

    def forget(self, run_id: str) -> None:
        """Drop what we believed: it was wrong, or may be."""
        self._certain.discard(run_id)
        with self._lock:
            self._snapshots.pop(run_id, None)
        self._cache.forget_snapshot(run_id)

    def note_commit(self, revision: Revision) -> None:
        """Learn of our own write. If it was not made on top of our last one, any run may have changed."""
        if revision.parent_sha != self._own_commit:
            self._certain.clear()
        self._own_commit = revision.commit_sha

    def is_certain(self, run_id: str) -> bool:
        """Whether nobody else has written to the branch since the run was last seen to be as we believe."""
        return run_id in self._certain

    def read_blob(self, sha: str) -> bytes:
        """Return a blob, from the local copy if it is there."""
        return BlobReader(self._gateway, self._cache).read(sha)

    def list_files(self, run_id: str, ref: str, *, is_fresh: bool = False) -> dict[str, str]:
        """Return every file of the run's folder as of `ref`, name to blob SHA. Raises Missing."""
        folder = self._layout.run_folder(run_id)
        entries = list_folder(self._gateway, folder, ref, is_fresh=is_fresh)
        return {entry.path: entry.sha for entry in entries if entry.kind == "file"}

    def list_parts(self, run_id: str, ref: str = "", *, is_fresh: bool = False) -> set[str]:
        """Return the names of the parts of a run as of `ref`, or as the branch shows them. Raises Missing."""
        names = self.list_files(f"{run_id}/{PARTS}", ref or self._branch, is_fresh=is_fresh)
        return {f"{PARTS}/{name}" for name in names}

    def _remember(self, snapshot: RunSnapshot) -> None:
        with self._lock:
            self._snapshots[snapshot.run_id] = snapshot
            self._snapshots.move_to_end(snapshot.run_id)
            if len(self._snapshots) > MAX_REMEMBERED_RUNS:
                forgotten, _ = self._snapshots.popitem(last=False)
                self._certain.discard(forgotten)

    def read_at(self, run_id: str, ref: str) -> RunSnapshot:
        """Return how the folder stands at a commit, or as the branch shows it."""
        try:
            files = self.list_files(run_id, ref)
        except Missing:
            files = {}
        return self.understand(run_id, ref, files)

    def understand(
        self, run_id: str, ref: str, files: Mapping[str, str], contents: Mapping[str, bytes] | None = None
    ) -> RunSnapshot:
        """Return how the folder stands that holds these files, name to blob SHA, as of `ref`.

        `contents` has blobs that need not be read.
        """
        self._cache.keep_blobs(contents or {})
        reader = BlobReader(self._gateway, self._cache)
        if is_commit(ref):
            ends = {name: RemoteFile(files[name], 0) for name in (INDEX, LATEST) if name in files}
            self._cache.keep_ends(run_id, Ends(ref, ends, find_highest(files), len(files)))

        def read(name: str) -> bytes:
            sha = files[name]
            content = contents[sha] if contents and sha in contents else reader.read(sha)
            check_weight(self._layout.path(run_id, name), content)
            return content

        def part_names() -> Container[str]:
            # Asked if a checkpoint refers to a part. A server that lags behind says that there are none, and
            # who believes it stores the checkpoint again: so it is asked once more before that.
            try:
                return self.list_parts(run_id, ref, is_fresh=True)
            except Missing:
                return ()

        def fetch(names: Sequence[str]) -> None:
            reader.fetch([RemoteFile(files[name], 0) for name in names])

        known: dict[str, Outline] = {}

        def outlines() -> Mapping[str, Outline]:
            known.update(self._cache.outlines(run_id))
            return known

        # Whoever writes must know every checkpoint_id, so that none is stored twice.
        snapshot = take_snapshot(
            RunFiles(run_id, files, read, part_names, fetch, outlines=outlines), self._layout
        )
        segments = snapshot.index.segments
        if snapshot.is_index_stored and any(files.get(segment.name) not in known for segment in segments):
            self._keep_outlines(snapshot)
        for flaw in snapshot.flaws:
            if INDEX in files or not flaw.path.endswith(INDEX):  # a new run has none, nor has a trimmed one
                log.warning("run_damaged", run_id=run_id, path=flaw.path, cause=flaw.reason)
        return snapshot


def _in_order(ends: Mapping[str, RemoteFile]) -> list[RemoteFile]:
    return [ends[name] for name in (INDEX, LATEST) if name in ends]
