"""The repository as a reader sees it: as it stands now, or as it was last seen when GitHub is away."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol, TypeVar

from holdfast.cache.local_copy import Catalogue, Folder, Head, RemoteFile, RepositoryCache, Shelf
from holdfast.errors import IntegrityFailure, Missing, NotInCopy
from holdfast.format.index import parse_index
from holdfast.format.paths import INDEX, LATEST, SUMMARY, Layout, is_single
from holdfast.github.calls import (
    NO_GRAPHQL,
    Gateway,
    ListingEntry,
    ReadBlob,
    ReadFile,
    ReadHeadIfChanged,
    ReadSnapshot,
    Snapshot,
)
from holdfast.github.listing import list_folder, walk_to
from holdfast.jsontext.members import sha256_hex
from holdfast.jsontext.weight import is_heavier
from holdfast.styles.resume import Source

ItemT = TypeVar("ItemT")
Files = Mapping[str, RemoteFile]

MAX_FILE_BYTES = 100 * 1024 * 1024
"""What GitHub takes at most."""

_PATHS_AT_ONCE = 100
_WORTH_ONE_QUERY = 3


class Archive(Protocol):
    """Where stored checkpoints are read from."""

    @property
    def source(self) -> Source:
        """Return what a plan calls this."""
        ...

    def files(self, run_id: str) -> Files:
        """Return the files of a run, by name; none if there is no such run."""
        ...

    def read(self, path: str, file: RemoteFile) -> bytes:
        """Return a file's content. Raises IntegrityFailure when it cannot be had or is too large."""
        ...

    def read_part(self, path: str) -> bytes:
        """Return the part of a large checkpoint. Raises IntegrityFailure when it cannot be had."""
        ...

    def fetch(self, files: Mapping[str, RemoteFile]) -> None:
        """Get many files, by path, at once, so that reading them costs little."""
        ...

    def shelves(self) -> Mapping[str, Shelf]:
        """Return every run with its index and its latest."""
        ...


@dataclass(frozen=True)
class GitHubArchive:
    """The branch as it stands at one commit; what is known of it from before is not asked for again.

    Every method raises GatewayError when GitHub does not answer, and Missing when there is no such branch.
    """

    gateway: Gateway
    cache: RepositoryCache
    layout: Layout
    branch: str
    max_file_bytes: int = MAX_FILE_BYTES
    source: Source = "github"

    @cached_property
    def head(self) -> str:
        """Return the newest commit."""
        known = self.cache.head() or Head("", "")
        reading = self.gateway.perform(ReadHeadIfChanged(self.branch, known.etag))
        if reading.sha is None:
            return known.commit_sha
        self.cache.keep_head(Head(reading.sha, reading.etag))
        return reading.sha

    def files(self, run_id: str) -> Files:
        """Return the files of a run, by name; none if there is no such run."""
        known = self.cache.folder(run_id)
        if known and known.commit_sha == self.head:
            return known.files
        try:
            entries = self._list(self.layout.run_folder(run_id), self.head)
        except Missing:
            return {}
        files = {
            entry.path: RemoteFile(entry.sha, entry.size_bytes) for entry in entries if entry.kind == "file"
        }
        self.cache.keep_folder(run_id, Folder(self.head, files))
        return files

    def read(self, path: str, file: RemoteFile) -> bytes:
        """Return a file's content, from the local copy if it is there."""
        check_size(path, file, self.max_file_bytes)
        content = self.cache.blob(file.sha)
        if content is None:
            try:
                content = self.gateway.perform(ReadBlob(file.sha))
            except Missing as error:
                raise IntegrityFailure(
                    path, f"GitHub lists it, but does not have its blob {file.sha}"
                ) from error
            self.cache.keep_blob(file.sha, content)
        check_weight(path, content)
        return content

    def read_part(self, path: str) -> bytes:
        """Return the part of a large checkpoint, from the local copy if it is there."""
        content = self.cache.part(path)
        if content is None:
            try:
                content = self.gateway.perform(ReadFile(path, self.head)).content
            except Missing as error:
                raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there") from error
            if sha256_hex(content) in path:  # a part that is not what its name says must not stay
                self.cache.keep_part(path, content)
        return content

    def fetch(self, files: Mapping[str, RemoteFile]) -> None:
        """Get the files that are not here yet, many with each request."""
        wanted = {path: file for path, file in files.items() if file.size_bytes <= self.max_file_bytes}
        here = self.cache.blobs(file.sha for file in wanted.values())
        missing = [path for path, file in wanted.items() if file.sha not in here]
        if len(missing) >= _WORTH_ONE_QUERY:
            for chunk in _chunks(missing):
                if self._snapshot(chunk) is None:
                    return

    def shelves(self) -> Mapping[str, Shelf]:
        """Return every run with its index and its latest; only runs that changed are asked for."""
        known = self.cache.catalogue() or Catalogue("", {})
        if known.commit_sha == self.head:
            return known.shelves
        trees = {entry.path: entry.sha for entry in self._list_base(self.head) if entry.kind == "folder"}
        kept = {
            run_id: shelf for run_id, shelf in known.shelves.items() if trees.get(run_id) == shelf.tree_sha
        }
        found = self._look_into({run_id: sha for run_id, sha in trees.items() if run_id not in kept})
        shelves = {run_id: kept.get(run_id) or found[run_id] for run_id in trees}
        # A run that changed while we looked is looked at again the next time.
        is_steady = all(shelf.tree_sha for shelf in shelves.values())
        self.cache.keep_catalogue(Catalogue(self.head if is_steady else "", shelves))
        return shelves

    def _look_into(self, trees: Mapping[str, str]) -> dict[str, Shelf]:
        """Return where each run stands; its latest only if it has no index, its summary only without both."""
        found: dict[str, dict[str, tuple[str | None, str]]] = {run_id: {} for run_id in trees}
        wanted = list(trees)
        for name in (INDEX, LATEST, SUMMARY):
            blobs = self._find({run_id: self.layout.path(run_id, name) for run_id in wanted})
            for run_id, blob in blobs.items():
                found[run_id][name] = blob
            wanted = [run_id for run_id, (sha, _) in blobs.items() if sha is None]
        return {run_id: self._shelve(tree_sha, found[run_id]) for run_id, tree_sha in trees.items()}

    def _shelve(self, tree_sha: str, found: Mapping[str, tuple[str | None, str]]) -> Shelf:
        is_steady = all(commit_sha == self.head for _, commit_sha in found.values())
        shas = {name: sha for name, (sha, _) in found.items()}
        is_headless = not any(shas.values())
        return Shelf(tree_sha if is_steady else "", shas[INDEX], shas.get(LATEST), is_headless)

    def _find(self, paths: Mapping[str, str]) -> dict[str, tuple[str | None, str]]:
        """Return the blob at each path, and the commit that it was read at; its content is kept."""
        found: dict[str, tuple[str | None, str]] = {}
        for chunk in _chunks(list(paths.items())):
            asked = dict(chunk)
            snapshot = self._snapshot(list(asked.values())) if len(asked) >= _WORTH_ONE_QUERY else None
            for run_id, path in asked.items():
                if snapshot is None:
                    found[run_id] = self._find_one(path), self.head
                else:
                    file = snapshot.files[path]
                    found[run_id] = file.blob_sha if file else None, snapshot.head_sha
        return found

    def _find_one(self, path: str) -> str | None:
        try:
            file = self.gateway.perform(ReadFile(path, self.head))
        except Missing:
            return None
        self.cache.keep_blob(file.blob_sha, file.content)
        return file.blob_sha

    def _snapshot(self, paths: Sequence[str]) -> Snapshot | None:
        """Read many files with one request, and keep them; None where there is no GraphQL."""
        try:
            snapshot = self.gateway.perform(ReadSnapshot(self.branch, tuple(paths)))
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            return None
        for file in snapshot.files.values():
            if file is not None:
                self.cache.keep_blob(file.blob_sha, file.content)
        return snapshot

    def _list(self, folder: str, commit_sha: str) -> Sequence[ListingEntry]:
        return list_folder(self.gateway, folder, commit_sha)

    def _list_base(self, commit_sha: str) -> Sequence[ListingEntry]:
        try:
            return walk_to(self.gateway, self.layout.base_path, commit_sha)
        except Missing:
            return ()


@dataclass(frozen=True)
class CachedArchive:
    """What was read or written before, without asking anyone."""

    cache: RepositoryCache
    layout: Layout
    max_file_bytes: int = MAX_FILE_BYTES
    source: Source = "cache"

    def files(self, run_id: str) -> Files:
        """Return the files of a run that are known; the index names some more."""
        folder = self.cache.folder(run_id)
        files = dict(folder.files) if folder else self._shelved(run_id)
        content = self.cache.blob(files[INDEX].sha) if INDEX in files else None
        if content is None:
            return files
        try:
            entries = parse_index(content, INDEX).entries
        except IntegrityFailure:
            return files
        for entry in entries:
            name = self.layout.name_of(run_id, entry.file_path)
            # A batch is another blob than the checkpoints in it.
            if entry.blob_sha and is_single(name):
                files.setdefault(name, RemoteFile(entry.blob_sha, 0))
        return files

    def has_latest(self, run_id: str) -> bool:
        """Tell whether the newest checkpoint of a run, as far as it is known, is here."""
        folder = self.cache.folder(run_id)
        latest = folder.files.get(LATEST) if folder else None
        return latest is not None and self.cache.blob(latest.sha) is not None

    def read(self, path: str, file: RemoteFile) -> bytes:
        """Return a file's content if it is here."""
        check_size(path, file, self.max_file_bytes)
        content = self.cache.blob(file.sha)
        if content is None:
            raise NotInCopy(path)
        check_weight(path, content)
        return content

    def read_part(self, path: str) -> bytes:
        """Return the part of a large checkpoint if it is here."""
        content = self.cache.part(path)
        if content is None:
            raise NotInCopy(path)
        return content

    def fetch(self, files: Mapping[str, RemoteFile]) -> None:
        """Do nothing: there is nobody to ask."""

    def shelves(self) -> Mapping[str, Shelf]:
        """Return every run that is known."""
        catalogue = self.cache.catalogue()
        shelves = dict(catalogue.shelves) if catalogue else {}
        for run_id in self.cache.known_runs():
            folder = self.cache.folder(run_id)
            if folder:
                index, latest = folder.files.get(INDEX), folder.files.get(LATEST)
                shelves[run_id] = Shelf("", index.sha if index else None, latest.sha if latest else None)
        return shelves

    def _shelved(self, run_id: str) -> dict[str, RemoteFile]:
        catalogue = self.cache.catalogue()
        shelf = catalogue.shelves.get(run_id) if catalogue else None
        known = {INDEX: shelf.index_sha, LATEST: shelf.latest_sha} if shelf else {}
        return {name: RemoteFile(sha, 0) for name, sha in known.items() if sha}


def check_size(path: str, file: RemoteFile, max_bytes: int) -> None:
    """Refuse a file that no writer would have made so large. Raises IntegrityFailure."""
    if file.size_bytes > max_bytes:
        raise IntegrityFailure(
            path, f"it has {file.size_bytes:,} bytes, and checkpoints here have {max_bytes:,} at most"
        )


def check_weight(path: str, content: bytes) -> None:
    """Refuse a file whose values take more memory than any of ours would. Raises IntegrityFailure."""
    if is_heavier(content):
        raise IntegrityFailure(path, "it is made of so many values that they take too much memory")


def _chunks(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    for start in range(0, len(items), _PATHS_AT_ONCE):
        yield items[start : start + _PATHS_AT_ONCE]
