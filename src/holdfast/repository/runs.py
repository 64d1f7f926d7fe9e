"""What the folder of a run holds, asked of GitHub as seldom as possible."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import IntegrityFailure, Missing
from holdfast.format.checkpoint import Envelope, open_stored
from holdfast.format.index import Index, IndexEntry, parse_index
from holdfast.format.parts import part_paths
from holdfast.format.paths import INDEX, LATEST, PARTS, Layout, parse_sequences
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import open_file
from holdfast.github.calls import Gateway, ReadBlob, Revision
from holdfast.github.listing import list_folder
from holdfast.jsontext.members import parse_document
from holdfast.logs import log
from holdfast.repository.rebuild import LatestCheckpoint, mark_pruned, rebuild_index, revive, unite

MAX_REMEMBERED_RUNS = 256


class Runs:
    """The folders of all runs on one branch, as far as we know them."""

    def __init__(self, gateway: Gateway, cache: RepositoryCache, layout: Layout, branch: str) -> None:
        self._gateway = gateway
        self._cache = cache
        self._layout = layout
        self._branch = branch
        self._views: OrderedDict[str, RunSnapshot] = OrderedDict()
        self._lock = threading.Lock()
        self._own_commit = ""
        self._certain: set[str] = set()

    def view(self, run_id: str) -> RunSnapshot:
        """Return how the folder stands, as remembered if it can be; a writer finds out if that is old."""
        view = self._views.get(run_id) or self._cache.view(run_id)
        if view is None:
            return self.refresh(run_id)
        self._remember(view)
        return view

    def refresh(self, run_id: str) -> RunSnapshot:
        """Return how the branch shows the folder; it may lag behind."""
        self._certain.discard(run_id)
        view = self.read_at(run_id, self._branch)
        self._remember(view)
        return view

    def keep(self, view: RunSnapshot) -> None:
        """Remember how the folder stands after our own write."""
        self._remember(view)
        self._cache.keep_view(view)

    def trust(self, run_id: str, commit_sha: str) -> None:
        """Learn that the folder was as we believe at this commit: certain until someone else writes."""
        if commit_sha == self._own_commit:
            self._certain.add(run_id)

    def forget(self, run_id: str) -> None:
        """Drop what we believed: it was wrong, or may be."""
        self._certain.discard(run_id)
        with self._lock:
            self._views.pop(run_id, None)
        self._cache.forget_view(run_id)

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
        content = self._cache.blob(sha)
        if content is None:
            content = self._gateway.perform(ReadBlob(sha))
            self._cache.keep_blob(sha, content)
        return content

    def list_files(self, run_id: str, ref: str, *, is_fresh: bool = False) -> dict[str, str]:
        """Return every file of the run's folder as of `ref`, name to blob SHA. Raises Missing."""
        folder = self._layout.run_folder(run_id)
        entries = list_folder(self._gateway, folder, ref, is_fresh=is_fresh)
        return {entry.path: entry.sha for entry in entries if entry.kind == "file"}

    def _remember(self, view: RunSnapshot) -> None:
        with self._lock:
            self._views[view.run_id] = view
            self._views.move_to_end(view.run_id)
            if len(self._views) > MAX_REMEMBERED_RUNS:
                forgotten, _ = self._views.popitem(last=False)
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

        def read(sha: str) -> bytes:
            return contents[sha] if contents and sha in contents else self.read_blob(sha)

        stored = self._stored_index(run_id, files, read)
        latest_sha = files.get(LATEST)
        latest = LatestCheckpoint()
        if latest_sha:
            path = self._layout.path(run_id, LATEST)
            there = [e for e in stored.entries if self._name(run_id, e) in files] if stored else []
            latest = _find_latest(Index(run_id, tuple(there)), latest_sha, path, read)
        if stored is None:
            index, is_stored = self._rebuild_index(run_id, ref, files, latest)
        else:
            index, is_stored = self._without_dangling(stored, files, latest)
            if latest.sequence and latest.checkpoint_id not in stored.by_id:
                # A writer puts the index first: this one is older, and someone has put it back.
                log.warning("index_outdated", run_id=run_id)
                index, is_stored = unite(index, self._rebuild_index(run_id, ref, files, latest)[0]), False
        whole = revive(index, latest, self._layout)
        if whole is index:
            return RunSnapshot(index, files.get(INDEX), latest_sha, latest.sequence, files, is_stored)
        return RunSnapshot(
            whole, files.get(INDEX), latest_sha, latest.sequence, files, False, latest.envelope
        )

    def _stored_index(
        self, run_id: str, files: Mapping[str, str], read: Callable[[str], bytes]
    ) -> Index | None:
        """Return the index that the folder holds; None if there is none, or a damaged one."""
        if INDEX not in files:
            return None
        path = self._layout.path(run_id, INDEX)
        try:
            index = parse_index(read(files[INDEX]), path)
        except IntegrityFailure as error:
            log.warning("index_damaged", run_id=run_id, cause=str(error))
            return None
        if index.run_id != run_id:
            log.warning("index_damaged", run_id=run_id, cause=f"{path}: it is of run {index.run_id!r}")
            return None
        return index

    def _without_dangling(
        self, index: Index, files: Mapping[str, str], latest: LatestCheckpoint
    ) -> tuple[Index, bool]:
        """Return the index without what is not there, and whether it is still the one that is stored.

        A write that GitHub carries out long after it was given up can bring back an index that retention
        has removed.
        """
        dangling = {
            entry.checkpoint_id for entry in index.entries if self._name(index.run_id, entry) not in files
        }
        if not dangling:
            return index, True
        log.warning("index_dangling", run_id=index.run_id, checkpoints=len(dangling))
        return mark_pruned(index.without(dangling), latest), False

    def _name(self, run_id: str, entry: IndexEntry) -> str:
        return self._layout.name_of(run_id, entry.file_path)

    def _rebuild_index(
        self, run_id: str, ref: str, files: Mapping[str, str], latest: LatestCheckpoint
    ) -> tuple[Index, bool]:
        """Return the index of what the files hold that are whole, and whether there was nothing to index."""
        opened: dict[str, list[IndexEntry]] = {}
        unreadable: list[str] = []
        for name, sha in files.items():
            if not parse_sequences(name):
                continue
            path = self._layout.path(run_id, name)
            try:
                found = open_file(self.read_blob(sha), path)
                self._check_parts(run_id, ref, [envelope for envelope, _ in found])
                opened[name] = [entry for _, entry in found]
            except IntegrityFailure as error:
                log.warning("checkpoint_damaged", path=path, cause=error.reason)
                unreadable.append(name)
        index = rebuild_index(run_id, opened, unreadable, latest, is_trimmed=INDEX not in files)
        return index, INDEX not in files and not opened and not unreadable

    def _check_parts(self, run_id: str, ref: str, envelopes: Iterable[Envelope]) -> None:
        """Raise IntegrityFailure if a part is not there: retention may have been quicker than the writer."""
        run_folder = self._layout.run_folder(run_id)
        documents = (parse_document(each.content).value for each in envelopes)
        wanted = {path for document in documents for path in part_paths(document, run_folder)}
        if not wanted:
            return
        try:
            there = self.list_files(f"{run_id}/{PARTS}", ref)
        except Missing:
            there = {}
        folder = f"{run_folder}/{PARTS}/"
        for path in wanted:
            if path.removeprefix(folder) not in there:
                raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")


def _find_latest(index: Index, latest_sha: str, path: str, read: Callable[[str], bytes]) -> LatestCheckpoint:
    """Return what `latest.json` is a copy of.

    The index knows its blob, as a rule; only otherwise is the file itself read.
    """
    for entry in reversed(index.entries):
        if entry.blob_sha == latest_sha:
            return LatestCheckpoint(entry.checkpoint_id, entry.sequence)
    try:
        envelope, _ = open_stored(read(latest_sha), path)
        if envelope.header.run_id != index.run_id:
            raise IntegrityFailure(path, f"it is of run {envelope.header.run_id!r}")  # noqa: TRY301
    except IntegrityFailure as error:
        log.warning("latest_damaged", path=path, cause=error.reason)
        return LatestCheckpoint()  # it is worth nothing as it is: the next checkpoint replaces it
    return LatestCheckpoint(envelope.checkpoint_id, envelope.sequence, envelope)
