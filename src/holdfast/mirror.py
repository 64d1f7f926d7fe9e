"""What we last saw of the repository: blobs by their SHA, and how each run's folder stood.

Everything here can be had again from GitHub; losing it costs requests, nothing else. So nothing that goes
wrong here is anybody else's trouble: what cannot be kept is not kept.
"""

from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

import orjson

from holdfast.core.encoding import blob_sha
from holdfast.core.index import Index, parse_index
from holdfast.core.layout import INDEX, LATEST
from holdfast.core.publication import RunView
from holdfast.errors import HoldfastError, SpoolError
from holdfast.store import Store, open_store

MAX_BYTES = 256 * 1024 * 1024
# One file must not push everything else out.
MAX_BLOB_BYTES = MAX_BYTES // 8
# The index names older files as well, with their blobs.
MAX_FILES_OF_OUR_WRITES = 200

ResultT = TypeVar("ResultT")


@dataclass(frozen=True, slots=True)
class RemoteFile:
    """A file of the repository: its blob, and how large that is."""

    sha: str
    size_bytes: int


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
class Shelf:
    """Where one run stands among all of them: the tree of its folder, its index and its latest, if any."""

    tree_sha: str
    index_sha: str | None
    latest_sha: str | None


@dataclass(frozen=True, slots=True)
class Catalogue:
    """Every run of the repository as of a commit."""

    commit_sha: str
    shelves: Mapping[str, Shelf]


class Mirror:
    """A bounded local copy. A blob's name is its content's digest, so it is never out of date."""

    def __init__(self, store: Store) -> None:
        self._store = store

    @classmethod
    def open(cls, folder: Path) -> "Mirror":
        """Open the copy that `folder` holds, or begin one."""
        return cls(open_store(folder, is_durable=False, max_bytes=MAX_BYTES))

    def close(self) -> None:
        """Let go of the files."""
        self._store.close()

    def blob(self, sha: str) -> bytes | None:
        """Return a blob's content if it is here."""
        return self._get(f"blob/{sha}")

    def blobs(self, shas: Iterable[str]) -> dict[str, bytes]:
        """Return the contents of those blobs that are here."""
        keys = [f"blob/{sha}" for sha in shas]
        try:
            found = self._store.get_many(keys)
        except SpoolError:
            return {}
        return {key.removeprefix("blob/"): content for key, content in found.items()}

    def keep_blob(self, sha: str, content: bytes) -> None:
        """Remember a blob's content for a while."""
        self._keep(f"blob/{sha}", content)

    def part(self, path: str) -> bytes | None:
        """Return the part of a large checkpoint; its name is its content's digest, so it does not change."""
        return self._get(f"part/{path}")

    def keep_part(self, path: str, content: bytes) -> None:
        """Remember a part for a while."""
        self._keep(f"part/{path}", content)

    def head(self) -> Head | None:
        """Return where the branch was when we last asked."""
        return self._recall("head", lambda known: Head(*known))

    def keep_head(self, head: Head) -> None:
        """Remember where the branch is."""
        self._keep("head", orjson.dumps((head.commit_sha, head.etag)))

    def folder(self, run_id: str) -> Folder | None:
        """Return the files of a run as we last saw or wrote them."""

        def read(known: Any) -> Folder:
            return Folder(known[0], {name: RemoteFile(*file) for name, file in known[1].items()})

        return self._recall(f"folder/{run_id}", read)

    def keep_folder(self, run_id: str, folder: Folder) -> None:
        """Remember the files of a run."""
        files = {name: (file.sha, file.size_bytes) for name, file in folder.files.items()}
        self._keep(f"folder/{run_id}", orjson.dumps((folder.commit_sha, files)))

    def note_writes(self, run_id: str, written: Mapping[str, RemoteFile | None]) -> None:
        """Remember what we wrote to, or (None) deleted from, the folder of a run."""
        known = self.folder(run_id)
        files = dict(known.files) if known else {}
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
        return self._recall(
            f"tree/{sha}", lambda known: {name: RemoteFile(*file) for name, file in known.items()}
        )

    def keep_tree(self, sha: str, files: Mapping[str, RemoteFile]) -> None:
        """Remember every file below a tree for a while."""
        known = {name: (file.sha, file.size_bytes) for name, file in files.items()}
        self._keep(f"tree/{sha}", orjson.dumps(known))

    def catalogue(self) -> Catalogue | None:
        """Return the runs as we last listed them."""

        def read(known: Any) -> Catalogue:
            return Catalogue(known[0], {run_id: Shelf(*shelf) for run_id, shelf in known[1].items()})

        return self._recall("catalogue", read)

    def keep_catalogue(self, catalogue: Catalogue) -> None:
        """Remember the runs."""
        shelves = {
            run_id: (shelf.tree_sha, shelf.index_sha, shelf.latest_sha)
            for run_id, shelf in catalogue.shelves.items()
        }
        self._keep("catalogue", orjson.dumps((catalogue.commit_sha, shelves)))

    def known_runs(self) -> list[str]:
        """Return the runs that we have seen or written ourselves."""
        catalogue = self.catalogue()
        try:
            folders = self._store.keys("folder/")
        except SpoolError:
            folders = []
        seen = {key.removeprefix("folder/") for key in folders}
        return sorted(seen.union(catalogue.shelves if catalogue else ()))

    def view(self, run_id: str) -> RunView | None:
        """Return how the run's folder stood when we last wrote or read it; it may have changed since."""

        def read(known: Any) -> RunView | None:
            index_sha, latest_sha, latest_sequence = known
            content = self.blob(index_sha)
            if content is None:
                return None
            index: Index = parse_index(content, f"{run_id}/index.json")
            return RunView(index, index_sha, latest_sha, latest_sequence)

        return self._recall(f"view/{run_id}", read)

    def keep_view(self, view: RunView) -> None:
        """Remember how the run's folder stands."""
        if view.index_sha is None:
            return
        content = view.index.to_bytes()
        if blob_sha(content) == view.index_sha:  # an index that others wrote is kept as it was read
            self.keep_blob(view.index_sha, content)
        known = (view.index_sha, view.latest_sha, view.latest_sequence)
        self._keep(f"view/{view.run_id}", orjson.dumps(known))

    def forget_view(self, run_id: str) -> None:
        """Forget how the run's folder stood. Raises SpoolError: what is not forgotten would be believed."""
        self._store.delete(f"view/{run_id}")

    def _get(self, key: str) -> bytes | None:
        try:
            return self._store.get(key)
        except SpoolError:
            return None

    def _keep(self, key: str, content: bytes) -> None:
        if len(content) <= MAX_BLOB_BYTES:
            with suppress(SpoolError):
                self._store.set(key, content)

    def _recall(self, key: str, read: Callable[[Any], ResultT]) -> ResultT | None:
        stored = self._get(key)
        try:
            return None if stored is None else read(orjson.loads(stored))
        except (ValueError, KeyError, TypeError, AttributeError, IndexError, HoldfastError):
            return None  # a copy that cannot be read is no copy
