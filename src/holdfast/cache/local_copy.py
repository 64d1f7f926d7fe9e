"""What we last saw of the repository: blobs by their SHA, and how each run's folder stood.

Everything here can be had again from GitHub; losing it costs requests, nothing else. What cannot be kept is
not kept, and no method fails.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any, TypeVar

import orjson

from holdfast.cache.best_effort import BestEffortCache
from holdfast.errors import HoldfastError
from holdfast.format.file_list import FileList
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, Outline, parse_index
from holdfast.format.paths import INDEX, LATEST
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot

MAX_BYTES = 256 * 1024 * 1024
# One file must not push everything else out; and SQLite takes twice the size of a value to store it.
MAX_BLOB_BYTES = MAX_BYTES // 32
# The index names older files as well, with their blobs.
MAX_FILES_OF_OUR_WRITES = 200
MAX_DISBELIEVED = 10_000
MAX_WRITTEN_RUNS = 10_000

# A member of a checkpoint that is neither sealed nor elsewhere.
_CLEAR_STATE = re.compile(rb'"(?:state_snapshot|context_fields)"\s*+:\s*+(?!\{\s*"\$(?:sealed|parts?)"\s*:)')
_SEALED_PART = b'{"$sealed":'

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class Head:
    """The commit that the branch pointed to, and the tag by which to ask whether it still does."""

    commit_sha: str
    etag: str


@dataclass(frozen=True, slots=True)
class Folder:
    """The files of one run by name, as of a commit; with our own writes since, no commit is named."""

    commit_sha: str
    files: Mapping[str, RemoteFile]


@dataclass(frozen=True, slots=True)
class ListedRun:
    """One run in the list of all: the tree of its folder, and its `index.json` and `latest.json`, if any.

    A run is headless if it has neither, and is not archived either: only its files can tell what it is. An
    archived one has a summary instead.
    """

    tree_sha: str
    index_sha: str | None
    latest_sha: str | None
    is_headless: bool = False
    summary_sha: str | None = None


@dataclass(frozen=True, slots=True)
class RunList:
    """Every run of the repository as of a commit."""

    commit_sha: str
    runs: Mapping[str, ListedRun]


class RepositoryCache:
    """A bounded local copy in `folder`. A blob's name is its content's digest, so it is never out of date.

    Where the copy cannot be opened, nothing is kept; nor is anything that would leave only about
    `min_free_bytes` free on the disk, or less. With `is_sealed_only`, no state in the clear is kept.
    """

    def __init__(self, folder: Path, *, min_free_bytes: int = 0, is_sealed_only: bool = False) -> None:
        self._is_sealed_only = is_sealed_only
        # A value lies in SQLite's log as well for a while.
        reserve_bytes = min_free_bytes + MAX_BLOB_BYTES
        self._disk = BestEffortCache(folder, max_bytes=MAX_BYTES, min_free_bytes=reserve_bytes)
        self._disbelieved: set[str] = set()
        self._written: dict[str, ListedRun] = {}

    def close(self) -> None:
        """Let go of the files."""
        self._disk.close()

    def empty(self) -> None:
        """Delete everything, and leave no trace of it on the disk."""
        self._disk.empty()

    def blob(self, sha: str) -> bytes | None:
        """Return a blob's content if it is here."""
        return self._disk.get(f"blob/{sha}")

    def blobs(self, shas: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those blobs that are here."""
        found = self._disk.get_many([f"blob/{sha}" for sha in shas])
        return {key.removeprefix("blob/"): content for key, content in found.items()}

    def keep_blob(self, sha: str, content: bytes) -> None:
        """Remember a blob's content for a while."""
        self.keep_blobs({sha: content})

    def keep_blobs(self, contents: Mapping[str, bytes]) -> None:
        """Remember the contents of many blobs, by their SHA, for a while."""
        small = {
            f"blob/{sha}": content
            for sha, content in contents.items()
            if len(content) <= MAX_BLOB_BYTES
            and not (self._is_sealed_only and _CLEAR_STATE.search(content) is not None)
        }
        self._disk.set_many(small)

    def part(self, path: str) -> bytes | None:
        """Return the part of a large checkpoint; its name is its content's digest, so it does not change."""
        return self._disk.get(f"part/{path}")

    def keep_part(self, path: str, content: bytes) -> None:
        """Remember a part for a while."""
        if not self._is_sealed_only or _is_sealed_part(content):
            self._keep(f"part/{path}", content)

    def head(self) -> Head | None:
        """Return where the branch was when we last asked."""
        return self._recall("head", lambda known: Head(*known))

    def keep_head(self, head: Head) -> None:
        """Remember where the branch is."""
        self._keep_record("head", (head.commit_sha, head.etag))

    def folder(self, run_id: str) -> Folder | None:
        """Return the files of a run as we last saw or wrote them."""

        def read(stored: bytes) -> Folder:
            head, begin, files = stored.partition(b"\0")
            commit_sha, highest_number = orjson.loads(head)
            if not begin:
                raise ValueError("it is of an earlier version")
            return Folder(commit_sha, FileList(begin + files, highest_number))

        return self._recall_bytes(f"folder/{run_id}", read)

    def keep_folder(self, run_id: str, folder: Folder) -> None:
        """Remember the files of a run."""
        files = FileList.of(folder.files)
        head = orjson.dumps((folder.commit_sha, files.highest_number))
        self._keep_bytes(f"folder/{run_id}", head + files.to_bytes())
        latest = folder.files.get(LATEST)
        self._keep_record(f"newest/{run_id}", (len(files), latest.sha if latest else ""))

    def ends(self, run_id: str) -> Folder | None:
        """Return `index.json` and `latest.json` of a run, as they were at a commit."""
        return self._recall(f"ends/{run_id}", lambda known: Folder(known[0], _read_files(known[1])))

    def keep_ends(self, run_id: str, ends: Folder) -> None:
        """Remember `index.json` and `latest.json` of a run."""
        self._keep_record(f"ends/{run_id}", (ends.commit_sha, _record_files(ends.files)))

    def has_latest(self, run_id: str) -> bool:
        """Whether the newest checkpoint of a run, as far as it is known, is here."""
        sha = self._recall(f"newest/{run_id}", lambda known: str(known[1]))
        return bool(sha) and self.blob(str(sha)) is not None

    def file_count(self, run_id: str) -> int:
        """Return how many files a run had when we last looked; 0 if it is not known."""
        return self._recall(f"newest/{run_id}", lambda known: int(known[0])) or 0

    def note_writes(self, run_id: str, written: Mapping[str, RemoteFile | None]) -> None:
        """Remember what we wrote to, or (None) deleted from, the folder of a run."""
        if index := written.get(INDEX):
            self._written.pop(run_id, None)
            self._written[run_id] = ListedRun("", index.sha, None)
            if len(self._written) > MAX_WRITTEN_RUNS:
                del self._written[next(iter(self._written))]
        known = self.folder(run_id)
        files = _recent(known.files) if known else {}
        for name, file in written.items():
            files.pop(name, None)
            if file is not None:
                files[name] = file
        excess = len(files) - MAX_FILES_OF_OUR_WRITES
        droppable = [name for name in files if name not in (INDEX, LATEST)]
        for name in droppable[: max(0, excess)]:
            del files[name]
        self.keep_folder(run_id, Folder("", files))

    def tree(self, sha: str) -> dict[str, RemoteFile] | None:
        """Return every file below a tree if it is here; named by its content, it never changes."""
        return self._recall(f"tree/{sha}", _read_files)

    def keep_tree(self, sha: str, files: Mapping[str, RemoteFile]) -> None:
        """Remember every file below a tree for a while."""
        self._keep(f"tree/{sha}", orjson.dumps(_record_files(files)))

    def run_list(self) -> RunList | None:
        """Return the runs as we last listed them."""

        def read(known: Any) -> RunList:
            return RunList(known[0], {run_id: _read_run(run) for run_id, run in known[1].items()})

        return self._recall("runs", read)

    def written_runs(self) -> dict[str, ListedRun]:
        """Return the runs that this process itself has written to since they were last listed."""
        return dict(self._written)

    def keep_run_list(self, listed: RunList) -> None:
        """Remember the runs."""
        self._written = {}
        runs = {
            run_id: (run.tree_sha, run.index_sha, run.latest_sha, run.is_headless, run.summary_sha)
            for run_id, run in listed.runs.items()
        }
        self._keep_record("runs", (listed.commit_sha, runs))

    def knows_runs(self) -> bool:
        """Whether we have seen or written any run ourselves."""
        return self._disk.get("runs") is not None or any(True for _ in self._disk.keys("folder/"))

    def preserved(self, commit_sha: str) -> frozenset[str] | None:
        """Return the runs that are never cleaned up, as of this commit, if that is known."""
        known = self._recall("preserved", lambda stored: (stored[0], frozenset(stored[1])))
        return known[1] if known and known[0] == commit_sha else None

    def keep_preserved(self, commit_sha: str, runs: Iterable[str]) -> None:
        """Remember the runs that are never cleaned up."""
        self._keep_record("preserved", (commit_sha, sorted(runs)))

    def known_runs(self) -> list[str]:
        """Return the runs that we have seen or written ourselves."""
        run_list = self.run_list()
        seen = {key.removeprefix("folder/") for key in self._disk.keys("folder/")}
        return sorted(seen.union(run_list.runs if run_list else ()))

    def view(self, run_id: str) -> RunSnapshot | None:
        """Return how the run's folder stood when we last wrote or read it; it may have changed since."""

        def read(known: Any) -> RunSnapshot | None:
            index_sha, latest_sha, latest_sequence, segment_shas = known
            content = self.blob(index_sha)
            if content is None:
                return None
            index = self._outlined(parse_index(content, f"{run_id}/index.json"), segment_shas)
            return RunSnapshot(index, index_sha, latest_sha, latest_sequence, segment_shas)

        return self._recall(f"view/{run_id}", read)

    def keep_view(self, view: RunSnapshot) -> None:
        """Remember how the run's folder stands."""
        if view.index_sha is None:
            return
        content = view.index.to_bytes()
        if blob_sha(content) == view.index_sha:  # an index that others wrote is kept as it was read
            self.keep_blob(view.index_sha, content)
        names = [segment.name for segment in view.index.segments]
        segment_shas = {name: view.blobs[name] for name in names if name in view.blobs}
        known = (view.index_sha, view.latest_sha, view.latest_sequence, segment_shas)
        self._keep_record(f"view/{view.run_id}", known)

    def _outlined(self, index: Index, shas: Mapping[str, str]) -> Index:
        """Return the index with what is known of its segments; `shas` has their blobs by name."""
        outlines = self.outlines(index.run_id) if index.segments else {}
        segments = (
            replace(segment, known=outlines.get(shas.get(segment.name, ""))) for segment in index.segments
        )
        return replace(index, segments=tuple(segments))

    def outlines(self, run_id: str) -> dict[str, Outline]:
        """Return what is known of the segments of a run's index, by their blobs."""

        def read(known: Any) -> dict[str, Outline]:
            return {sha: Outline(frozenset(ids), frozenset(names)) for sha, (ids, names) in known.items()}

        return self._recall(f"outlines/{run_id}", read) or {}

    def keep_outlines(self, view: RunSnapshot) -> None:
        """Remember what is in the segments of a run's index, so that they need not be read again.

        They are looked at whenever a process begins to write: one record for all of them costs least.
        """
        known = {
            view.blobs[segment.name]: (list(segment.outline.ids), list(segment.outline.names))
            for segment in view.index.segments
            if segment.outline and segment.name in view.blobs
        }
        self._keep_record(f"outlines/{view.run_id}", known)

    def forget_outlines(self, run_id: str) -> None:
        """Forget what is in the segments of a run's index."""
        self._forget(f"outlines/{run_id}")

    def forget_view(self, run_id: str) -> None:
        """Forget how the run's folder stood."""
        self._forget(f"view/{run_id}")

    def _keep(self, key: str, content: bytes) -> bool:
        """Keep `content` if that can be done, and return whether it was."""
        return len(content) <= MAX_BLOB_BYTES and self._disk.set(key, content)

    def _keep_record(self, key: str, record: object) -> None:
        """Keep a record in place of an earlier one, which is forgotten in any case."""
        self._keep_bytes(key, orjson.dumps(record))

    def _keep_bytes(self, key: str, content: bytes) -> None:
        if self._keep(key, content):
            self._disbelieved.discard(key)
        else:
            self._forget(key)

    def _forget(self, key: str) -> None:
        """Delete a record; one that cannot be deleted is not believed again here."""
        self._disbelieved.add(key)
        if self._disk.delete(key):
            self._disbelieved.discard(key)
        elif len(self._disbelieved) > MAX_DISBELIEVED:
            self._disk.close()  # a cache that takes nothing for so long is of no use
            self._disbelieved.clear()

    def _recall(self, key: str, read: Callable[[Any], ResultT]) -> ResultT | None:
        return self._recall_bytes(key, lambda stored: read(orjson.loads(stored)))

    def _recall_bytes(self, key: str, read: Callable[[bytes], ResultT]) -> ResultT | None:
        stored = None if key in self._disbelieved else self._disk.get(key)
        try:
            return None if stored is None else read(stored)
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, HoldfastError):
            return None  # damaged, or of another version


def _is_sealed_part(content: bytes) -> bool:
    """Whether a part is sealed, packed or not; a further piece of one does not tell, and counts as clear."""
    with suppress(zlib.error):
        content = zlib.decompressobj(wbits=31).decompress(content, len(_SEALED_PART))
    return content.startswith(_SEALED_PART)


def _recent(files: Mapping[str, RemoteFile]) -> dict[str, RemoteFile]:
    """Return the files of a run; of one that has many, those that the index does not name."""
    if isinstance(files, FileList) and len(files) > MAX_FILES_OF_OUR_WRITES:
        return files.beside_checkpoints()
    return dict(files)


def _read_run(record: Any) -> ListedRun:
    tree_sha, index_sha, latest_sha, is_headless, summary_sha = record
    return ListedRun(tree_sha, index_sha, latest_sha, is_headless, summary_sha)


def _record_files(files: Mapping[str, RemoteFile]) -> dict[str, tuple[str, int]]:
    return {name: (file.sha, file.size_bytes) for name, file in files.items()}


def _read_files(record: Any) -> dict[str, RemoteFile]:
    return {name: RemoteFile(*file) for name, file in record.items()}
