"""What the folder of a run holds, asked of GitHub as seldom as possible."""

import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from typing import NamedTuple

from holdfast.core.encoding import parse_document
from holdfast.core.envelope import Envelope, open_stored
from holdfast.core.index import Index, IndexEntry, parse_index
from holdfast.core.layout import INDEX, LATEST, PARTS, Layout, parse_sequences
from holdfast.core.parts import part_paths
from holdfast.core.publication import RunView
from holdfast.core.stored import open_file
from holdfast.errors import IntegrityFailure, Missing
from holdfast.github.gateway import Entry, Gateway, ListFolder, ReadBlob, ReadTree, Revision
from holdfast.logs import log
from holdfast.mirror import Mirror

MAX_REMEMBERED_RUNS = 256


class Runs:
    """The folders of all runs on one branch, as far as we know them."""

    def __init__(self, gateway: Gateway, mirror: Mirror, layout: Layout, branch: str) -> None:
        self._gateway = gateway
        self._mirror = mirror
        self._layout = layout
        self._branch = branch
        self._views: OrderedDict[str, RunView] = OrderedDict()
        self._lock = threading.Lock()
        self._own_commit = ""
        self._certain: set[str] = set()

    def view(self, run_id: str) -> RunView:
        """Return how the folder stands, as remembered if it can be; a writer finds out if that is old."""
        view = self._views.get(run_id) or self._mirror.view(run_id)
        if view is None:
            return self.refresh(run_id)
        self._remember(view)
        return view

    def refresh(self, run_id: str) -> RunView:
        """Return how the folder stands now."""
        self._certain.add(run_id)
        view = self._read(run_id)
        self._remember(view)
        return view

    def keep(self, view: RunView) -> None:
        """Remember how the folder stands after our own write."""
        self._certain.add(view.run_id)
        self._remember(view)
        self._mirror.keep_view(view)

    def forget(self, run_id: str) -> None:
        """Drop what we believed: it was wrong, or may be."""
        self._certain.discard(run_id)
        with self._lock:
            self._views.pop(run_id, None)
        self._mirror.forget_view(run_id)

    def note_commit(self, revision: Revision) -> None:
        """Learn of our own write. If it was not made on top of our last one, any run may have changed."""
        if revision.parent_sha != self._own_commit:
            self._certain.clear()
        self._own_commit = revision.commit_sha

    def is_certain(self, run_id: str) -> bool:
        """Whether nobody else has written to the branch since we last read or wrote this run."""
        return run_id in self._certain

    def read_blob(self, sha: str) -> bytes:
        """Return a blob, from the local copy if it is there."""
        content = self._mirror.blob(sha)
        if content is None:
            content = self._gateway.perform(ReadBlob(sha))
            self._mirror.keep_blob(sha, content)
        return content

    def list_files(self, run_id: str, ref: str, *, is_fresh: bool = False) -> dict[str, str]:
        """Return every file of the run's folder as of `ref`, name to blob SHA. Raises Missing."""
        folder = self._layout.run_folder(run_id)
        listing = self._gateway.perform(ListFolder(folder, ref, is_fresh=is_fresh))
        entries = listing.entries if listing.is_complete else self._walk(folder, ref)
        return {entry.path: entry.sha for entry in entries if entry.kind == "file"}

    def _remember(self, view: RunView) -> None:
        with self._lock:
            self._views[view.run_id] = view
            self._views.move_to_end(view.run_id)
            if len(self._views) > MAX_REMEMBERED_RUNS:
                forgotten, _ = self._views.popitem(last=False)
                self._certain.discard(forgotten)

    def _read(self, run_id: str) -> RunView:
        try:
            files = self.list_files(run_id, self._branch)
        except Missing:
            return RunView(Index(run_id))
        index, is_stored = self._index(run_id, files)
        latest_sha = files.get(LATEST)
        latest = Latest()
        if latest_sha:
            path = self._layout.path(run_id, LATEST)
            latest = find_latest(index, latest_sha, path, lambda: self.read_blob(latest_sha))
        if index.entries and not is_stored:
            index = _without_leftovers(index, latest, files)
        return RunView(index, files.get(INDEX), latest_sha, latest.sequence, files, is_stored)

    def _walk(self, folder: str, ref: str) -> tuple[Entry, ...]:
        """List a folder that is too large for the contents API, from the top of the tree down."""
        sha = ref
        for name in folder.split("/"):
            listing = self._gateway.perform(ReadTree(sha))
            sha = next((entry.sha for entry in listing.entries if entry.path == name), "")
            if not sha:
                raise Missing(folder, "there is no such folder")
        return self._gateway.perform(ReadTree(sha)).entries

    def _index(self, run_id: str, files: dict[str, str]) -> tuple[Index, bool]:
        """Return the index, and whether it is the one that the folder holds."""
        path = self._layout.path(run_id, INDEX)
        if INDEX in files:
            try:
                return self._without_dangling(parse_index(self.read_blob(files[INDEX]), path), files)
            except IntegrityFailure as error:
                log.warning("index_damaged", run_id=run_id, cause=str(error))
        elif not any(parse_sequences(name) for name in files):
            return Index(run_id), True
        return self._rebuild_index(run_id, files), False

    def _without_dangling(self, index: Index, files: dict[str, str]) -> tuple[Index, bool]:
        """Return the index without what is not there, and whether it is still the one that is stored.

        A write that GitHub carries out long after it was given up can bring back an index that retention
        has removed.
        """
        dangling = {
            entry.checkpoint_id
            for entry in index.entries
            if self._layout.name_of(index.run_id, entry.file_path) not in files
        }
        if not dangling:
            return index, True
        log.warning("index_dangling", run_id=index.run_id, checkpoints=len(dangling))
        return index.without(dangling), False

    def _rebuild_index(self, run_id: str, files: dict[str, str]) -> Index:
        """Make the index anew from the checkpoint files themselves, leaving out what is not whole.

        Where two files claim one number, their writers did not get to the index. The second is left out as
        a whole; whoever wrote it stores it again under numbers that are free.
        """
        entries: list[IndexEntry] = []
        taken: set[int | str] = set()
        for name, sha in sorted(files.items()):
            if not parse_sequences(name):
                continue
            path = self._layout.path(run_id, name)
            try:
                opened = open_file(self.read_blob(sha), path)
                self._check_parts(run_id, [envelope for envelope, _ in opened])
                found = [entry for _, entry in opened]
            except IntegrityFailure as error:
                log.warning("checkpoint_damaged", path=path, cause=error.reason)
                continue
            claimed = {claim for entry in found for claim in (entry.sequence, entry.checkpoint_id)}
            if not taken & claimed:
                taken |= claimed
                entries += found
        return Index(run_id).with_entries(entries, workflow=None, now="")

    def _check_parts(self, run_id: str, envelopes: Iterable[Envelope]) -> None:
        """Raise IntegrityFailure if a part is not there: retention may have been quicker than the writer."""
        wanted = {path for each in envelopes for path in part_paths(parse_document(each.content).value)}
        if not wanted:
            return
        try:
            there = self.list_files(f"{run_id}/{PARTS}", self._branch)
        except Missing:
            there = {}
        folder = f"{self._layout.run_folder(run_id)}/{PARTS}/"
        for path in wanted:
            if path.removeprefix(folder) not in there:
                raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")


class Latest(NamedTuple):
    """The checkpoint that `latest.json` is a copy of; none if it is damaged, or not there."""

    checkpoint_id: str = ""
    sequence: int = 0


def find_latest(index: Index, latest_sha: str, path: str, read: Callable[[], bytes]) -> Latest:
    """Return what `latest.json` is a copy of.

    The index knows its blob, as a rule; only otherwise is the file itself read.
    """
    for entry in reversed(index.entries):
        if entry.blob_sha == latest_sha:
            return Latest(entry.checkpoint_id, entry.sequence)
    try:
        envelope, _ = open_stored(read(), path)
    except IntegrityFailure as error:
        log.warning("latest_damaged", path=path, cause=error.reason)
        return Latest()  # it is worth nothing as it is: the next checkpoint replaces it
    return Latest(envelope.checkpoint_id, envelope.sequence)


def _without_leftovers(index: Index, latest: Latest, files: Mapping[str, str]) -> Index:
    """Return an index that was made anew without what retention takes, and with how far it has come.

    Retention leaves the latest alone, without an index. What has a number up to that one's is left over, or
    was written by someone who did not know; the next sweep deletes it, so no index must name it.
    """
    gone = latest.sequence
    if INDEX in files or _holds(index, latest, files):
        gone = min(gone, index.entries[0].sequence - 1)
    leftovers = {entry.file_path for entry in index.entries if entry.sequence <= gone}
    kept = tuple(entry for entry in index.entries if entry.file_path not in leftovers)
    return replace(index, entries=kept, pruned_through=max(index.pruned_through, gone))


def _holds(index: Index, latest: Latest, files: Iterable[str]) -> bool:
    """Tell whether the latest is there as a checkpoint of its own, too, if only as a damaged file."""
    if any(entry.sequence == latest.sequence for entry in index.entries):
        return latest.checkpoint_id in index.by_id
    return any(latest.sequence in parse_sequences(name) for name in files)
