"""What we last saw of the repository: blobs by their SHA, and how each run's folder stood.

Everything here can be had again from GitHub; losing it costs requests, nothing else. What cannot be kept is
not kept, and no method fails.
"""

import re
import zlib
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, NamedTuple, TypeVar

import orjson

from holdfast.cache.best_effort import BestEffortCache
from holdfast.cache.own_commits import (
    Ends,
    OwnCommit,
    RunWrite,
    files_after,
    follow,
    read_ends,
    read_files,
    read_lineage,
    record_files,
)
from holdfast.errors import HoldfastError
from holdfast.format.file_list import FileList
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, parse_index
from holdfast.format.index_segments import Outline
from holdfast.format.paths import INDEX, LATEST
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot

MAX_BYTES = 256 * 1024 * 1024
# One file must not push everything else out; and SQLite takes twice the size of a value to store it.
MAX_BLOB_BYTES = MAX_BYTES // 32
MAX_DISBELIEVED = 10_000
MAX_WRITTEN_RUNS = 10_000

# A member of a checkpoint that is neither sealed nor elsewhere.
_CLEAR_STATE = re.compile(rb'"(?:state_snapshot|context_fields)"\s*+:\s*+(?!\{\s*"\$(?:sealed|parts?)"\s*:)')
_SEALED_PART = b'{"$sealed":'

_LINEAGE = "lineage"

ResultT = TypeVar("ResultT")


class Head(NamedTuple):
    """The commit that the branch pointed to, and the tag by which to ask whether it still does."""

    commit_sha: str
    etag: str


class Folder(NamedTuple):
    """The files of one run by name, as of a commit; with our own writes since, no commit is named."""

    commit_sha: str
    files: Mapping[str, RemoteFile]


class ListedRun(NamedTuple):
    """One run in the list of all: the tree of its folder, and its `index.json` and `latest.json`, if any.

    A run is headless if it has neither, and is not archived either: only its files can tell what it is. An
    archived one has a summary instead.
    """

    tree_sha: str
    index_sha: str | None
    latest_sha: str | None
    is_headless: bool = False
    summary_sha: str | None = None


class RunList(NamedTuple):
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
        known = {name: folder.files[name] for name in (INDEX, LATEST) if name in folder.files}
        ends = Ends(folder.commit_sha, known, files.highest_number, len(files))
        self._keep_records(
            {f"folder/{run_id}": _record_folder(folder.commit_sha, files), f"ends/{run_id}": ends.to_bytes()}
        )

    def ends(self, run_id: str) -> Ends | None:
        """Return `index.json` and `latest.json` of a run, as we last saw or wrote them.

        If all that was committed since is our own, they are as of the last commit.
        """
        key = f"ends/{run_id}"
        # At once: between two readings, one of our own commits might make the first one untrue.
        found = self._disk.get_many([key, _LINEAGE])
        ends = None if key in self._disbelieved else _understand(found.get(key), read_ends)
        lineage = None if _LINEAGE in self._disbelieved else _understand(found.get(_LINEAGE), read_lineage)
        return ends.as_of(lineage) if ends else None

    def keep_ends(self, run_id: str, ends: Ends) -> None:
        """Remember `index.json` and `latest.json` of a run."""
        self._keep_records({f"ends/{run_id}": ends.to_bytes()})

    def has_latest(self, run_id: str) -> bool:
        """Whether the newest checkpoint of a run, as far as it is known, is here."""
        ends = self.ends(run_id)
        latest = ends.files.get(LATEST) if ends else None
        return latest is not None and self.blob(latest.sha) is not None

    def note_commit(self, commit: OwnCommit, written: Mapping[str, RunWrite]) -> None:
        """Remember what a commit of ours changed, by run."""
        lineage = follow(self._recall_bytes(_LINEAGE, read_lineage), commit)
        records = {_LINEAGE: lineage.to_bytes()}
        for run_id, write in written.items():
            ends = self.ends(run_id) or Ends("", {})
            records[f"ends/{run_id}"] = ends.after(write, commit, lineage.name).to_bytes()
        self._keep_records(records)
        for run_id, write in written.items():
            if index := write.files.get(INDEX):
                self._note_written(run_id, index)
            if write.files:
                known = self.folder(run_id)
                files = FileList.of(files_after(known.files if known else {}, write.files))
                self._keep_records({f"folder/{run_id}": _record_folder("", files)})

    def _note_written(self, run_id: str, index: RemoteFile) -> None:
        self._written.pop(run_id, None)
        self._written[run_id] = ListedRun("", index.sha, None)
        if len(self._written) > MAX_WRITTEN_RUNS:
            del self._written[next(iter(self._written))]

    def tree(self, sha: str) -> dict[str, RemoteFile] | None:
        """Return every file below a tree if it is here; named by its content, it never changes."""
        return self._recall(f"tree/{sha}", read_files)

    def keep_tree(self, sha: str, files: Mapping[str, RemoteFile]) -> None:
        """Remember every file below a tree for a while."""
        self._keep(f"tree/{sha}", orjson.dumps(record_files(files)))

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
        return self._disk.get("runs") is not None or any(True for _ in self._disk.keys("ends/"))

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
        seen = {key.removeprefix("ends/") for key in self._disk.keys("ends/")}
        return sorted(seen.union(run_list.runs if run_list else ()))

    def snapshot(self, run_id: str) -> RunSnapshot | None:
        """Return how the run's folder stood when we last wrote or read it; it may have changed since."""

        def read(known: Any) -> RunSnapshot | None:
            index_sha, latest_sha, latest_sequence, segment_shas = known
            content = self.blob(index_sha)
            if content is None:
                return None
            index = self._outlined(parse_index(content, f"{run_id}/index.json"), segment_shas)
            return RunSnapshot(index, index_sha, latest_sha, latest_sequence, segment_shas)

        return self._recall(f"view/{run_id}", read)

    def keep_snapshot(self, snapshot: RunSnapshot, *, is_index_kept: bool = False) -> None:
        """Remember how the run's folder stands; the blob of its index may have been kept already."""
        if snapshot.index_sha is None:
            return
        if not is_index_kept:
            content = snapshot.index.to_bytes()
            if blob_sha(content) == snapshot.index_sha:  # an index that others wrote is kept as it was read
                self.keep_blob(snapshot.index_sha, content)
        names = [segment.name for segment in snapshot.index.segments]
        segment_shas = {name: snapshot.blobs[name] for name in names if name in snapshot.blobs}
        known = (snapshot.index_sha, snapshot.latest_sha, snapshot.latest_sequence, segment_shas)
        self._keep_record(f"view/{snapshot.run_id}", known)

    def _outlined(self, index: Index, shas: Mapping[str, str]) -> Index:
        """Return the index with what is known of its segments; `shas` has their blobs by name."""
        outlines = self.outlines(index.run_id) if index.segments else {}
        segments = (segment.outlined(outlines.get(shas.get(segment.name, ""))) for segment in index.segments)
        return replace(index, segments=tuple(segments))

    def outlines(self, run_id: str) -> dict[str, Outline]:
        """Return what is known of the segments of a run's index, by their blobs."""

        def read(known: Any) -> dict[str, Outline]:
            return {sha: Outline(*texts.split("\n")) for sha, texts in known.items()}

        return self._recall(f"outlines/{run_id}", read) or {}

    def keep_outlines(self, snapshot: RunSnapshot) -> None:
        """Remember what is in the segments of a run's index, so that they need not be read again.

        They are looked at whenever a process begins to write: one record for all of them costs least.
        """
        known = {
            snapshot.blobs[segment.name]: f"{segment.outline.ids_text}\n{segment.outline.names_text}"
            for segment in snapshot.index.segments
            if segment.outline and segment.name in snapshot.blobs
        }
        self._keep_record(f"outlines/{snapshot.run_id}", known)

    def forget_outlines(self, run_id: str) -> None:
        """Forget what is in the segments of a run's index."""
        self._forget(f"outlines/{run_id}")

    def forget_snapshot(self, run_id: str) -> None:
        """Forget how the run's folder stood."""
        self._forget(f"view/{run_id}")

    def _keep(self, key: str, content: bytes) -> bool:
        """Keep `content` if that can be done, and return whether it was."""
        return len(content) <= MAX_BLOB_BYTES and self._disk.set(key, content)

    def _keep_record(self, key: str, record: object) -> None:
        """Keep a record in place of an earlier one, which is forgotten in any case."""
        self._keep_records({key: orjson.dumps(record)})

    def _keep_records(self, records: Mapping[str, bytes]) -> None:
        """Keep records in place of earlier ones, all or none of them."""
        is_kept = sum(map(len, records.values())) <= MAX_BLOB_BYTES and self._disk.set_many(records)
        if is_kept:
            self._disbelieved.difference_update(records)
            return
        for key in records:
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
        return None if key in self._disbelieved else _understand(self._disk.get(key), read)


def _understand(stored: bytes | None, read: Callable[[bytes], ResultT]) -> ResultT | None:
    try:
        return None if stored is None else read(stored)
    except (ValueError, KeyError, TypeError, AttributeError, IndexError, HoldfastError):
        return None  # damaged, or of another version


def _is_sealed_part(content: bytes) -> bool:
    """Whether a part is sealed, packed or not; a further piece of one does not tell, and counts as clear."""
    with suppress(zlib.error):
        content = zlib.decompressobj(wbits=31).decompress(content, len(_SEALED_PART))
    return content.startswith(_SEALED_PART)


def _read_run(record: Any) -> ListedRun:
    tree_sha, index_sha, latest_sha, is_headless, summary_sha = record
    return ListedRun(tree_sha, index_sha, latest_sha, is_headless, summary_sha)


def _record_folder(commit_sha: str, files: FileList) -> bytes:
    return orjson.dumps((commit_sha, files.highest_number)) + files.to_bytes()
