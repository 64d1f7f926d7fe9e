"""Where stored runs are read from: GitHub as it stands now, or the local copy when GitHub is away."""

from collections.abc import Container, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from itertools import islice
from typing import TYPE_CHECKING, Protocol

from holdfast.cache.local_copy import Folder, Head, RepositoryCache
from holdfast.cache.own_commits import Ends
from holdfast.errors import IntegrityFailure, Missing, NotInCopy
from holdfast.format.file_list import FileList, find_highest
from holdfast.format.index import Index, parse_index
from holdfast.format.index_segments import open_segment
from holdfast.format.part_files import Reference
from holdfast.format.paths import INDEX, LATEST, PARTS, Layout, is_single
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import NO_GRAPHQL, Gateway, ReadFile, ReadHeadIfChanged
from holdfast.github.listing import MOST_LISTED_FILES, list_folder, read_snapshot
from holdfast.github.presence import GraphqlPresence
from holdfast.jsontext.members import sha256_hex
from holdfast.repository.blobs import MAX_QUERIED_BLOB_BYTES, BlobReader, cut
from holdfast.repository.once import once
from holdfast.repository.understanding import check_weight

if TYPE_CHECKING:
    from holdfast.styles.resume import Source

Files = Mapping[str, RemoteFile]

MAX_FILE_BYTES = 100 * 1024 * 1024
"""What GitHub takes at most."""

_NO_ENDS = Ends("", {})


class RunSource(Protocol):
    """Where stored checkpoints are read from."""

    @property
    def source(self) -> "Source":
        """Return what a plan calls this."""
        ...

    @property
    def is_whole(self) -> bool:
        """Whether a run has no other files than those that are listed."""
        ...

    def files(self, run_id: str) -> Files:
        """Return the files of a run, by name; none if there is no such run."""
        ...

    def ends(self, run_id: str, *, is_proved: bool = False) -> Ends:
        """Return `index.json` and `latest.json` where that costs less than to list all files; else none.

        Only if it is to be proved, the highest number of a file is told for sure.
        """
        ...

    def read(self, path: str, file: RemoteFile) -> bytes:
        """Return a file's content. Raises IntegrityFailure when it cannot be had or is too large."""
        ...

    def read_part(self, path: str) -> bytes:
        """Return the part of a large checkpoint. Raises IntegrityFailure when it cannot be had."""
        ...

    def part_names(self, run_id: str) -> Container[str] | None:
        """Return the names of a run's parts; None if that is not known."""
        ...

    def part_sizes(self, run_id: str) -> Mapping[str, int] | None:
        """Return how large each of a run's parts is, by name; None if that is not known."""
        ...

    def fetch_parts(self, files: Sequence[Reference]) -> None:
        """Get many parts at once, so that reading them costs little."""
        ...

    def fetch(self, files: Sequence[RemoteFile]) -> None:
        """Get many files at once, so that reading them costs little."""
        ...


@dataclass
class GitHubSource:
    """The branch as it stands at one commit; what is known of it from before is not asked for again.

    Every method raises GatewayError when GitHub does not answer, and Missing when there is no such branch.
    """

    gateway: Gateway
    cache: RepositoryCache
    layout: Layout
    branch: str
    max_file_bytes: int = MAX_FILE_BYTES
    source: "Source" = "github"
    is_whole: bool = True
    graphql: GraphqlPresence | None = None
    known_head: str = ""
    """The newest commit, if that is known; else GitHub is asked for it."""
    known_files: Files | None = None
    """The files of the one run that is read, if they are known; their sizes are not, and so not kept."""

    def __post_init__(self) -> None:
        self._blobs = BlobReader(self.gateway, self.cache, self.graphql)

    @once
    def head(self) -> str:
        """The newest commit."""
        if self.known_head:
            return self.known_head
        known = self.cache.head() or Head("", "")
        reading = self.gateway.perform(ReadHeadIfChanged(self.branch, known.etag))
        if reading.sha is None:
            return known.commit_sha
        self.cache.keep_head(Head(reading.sha, reading.etag))
        return reading.sha

    def ends(self, run_id: str, *, is_proved: bool = False) -> Ends:
        """Return `index.json` and `latest.json`: as they are known, or by one query if there is GraphQL."""
        known = self.cache.ends(run_id)
        if known and known.commit_sha == self.head and not (is_proved and known.highest_number is None):
            return known
        if self.known_files is not None:
            files = {name: self.known_files[name] for name in (INDEX, LATEST) if name in self.known_files}
            return Ends(self.head, files, find_highest(self.known_files), len(self.known_files))
        if self.graphql is None or not self.graphql.is_likely:
            return _NO_ENDS
        folder = self.layout.run_folder(run_id)
        paths = {self.layout.path(run_id, name): name for name in (INDEX, LATEST)}
        try:
            found = read_snapshot(
                self.gateway,
                self.branch,
                (*paths, folder) if is_proved else paths,
                self.head,
                is_brief=True,
            )
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            self.graphql.miss()
            return _NO_ENDS
        self.graphql.find()
        there = {paths[path]: file for path, file in found.files.items() if file and path in paths}
        self.cache.keep_blobs({file.blob_sha: file.content for file in there.values()})
        files = {name: RemoteFile(file.blob_sha, len(file.content)) for name, file in there.items()}
        listed = found.folders.get(folder, {})
        highest = find_highest(listed) if is_proved and files.keys() <= listed.keys() else None
        ends = Ends(self.head, files, highest, len(listed))
        if files:
            self.cache.keep_ends(run_id, ends)
        return ends

    def _known_folder(self, run_id: str) -> Folder | None:
        known = self.cache.folder(run_id)
        return known if known and known.commit_sha == self.head else None

    def files(self, run_id: str) -> Files:
        """Return the files of a run, by name; none if there is no such run."""
        known = self._known_folder(run_id)
        if known:
            return known.files
        if self.known_files is not None:
            return self.known_files
        try:
            known_ends = self.cache.ends(run_id)
            is_long = known_ends is not None and known_ends.file_count > MOST_LISTED_FILES
            entries = list_folder(self.gateway, self.layout.run_folder(run_id), self.head, is_long=is_long)
        except Missing:
            return {}
        found = ((each.path, each.sha, each.size_bytes) for each in entries if each.kind == "file")
        files = FileList.of({name: RemoteFile(sha, size_bytes) for name, sha, size_bytes in found})
        self.cache.keep_folder(run_id, Folder(self.head, files))
        return files

    def read(self, path: str, file: RemoteFile) -> bytes:
        """Return a file's content, from the local copy if it is there."""
        check_size(path, file, self.max_file_bytes)
        try:
            content = self._blobs.read(file.sha)
        except Missing as error:
            raise IntegrityFailure(path, f"GitHub lists it, but does not have its blob {file.sha}") from error
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

    def fetch_parts(self, files: Sequence[Reference]) -> None:
        """Get the parts that are not here yet, many with each request; what is packed is read one by one."""
        missing = {
            file["$part"]: RemoteFile("", file["bytes"])
            for file in files
            if "encoding" not in file
            and file["bytes"] <= MAX_QUERIED_BLOB_BYTES
            and self.cache.part(file["$part"]) is None
        }
        paths = iter(missing)
        for chunk in cut(list(missing.values())):
            wanted = list(islice(paths, len(chunk)))
            if len(wanted) > 1 and not self._query_parts(wanted):
                return

    def _query_parts(self, paths: Sequence[str]) -> bool:
        """Get parts with one request; return whether there is GraphQL."""
        try:
            found = read_snapshot(self.gateway, self.branch, paths, self.head).files
        except Missing as error:
            return error.path != NO_GRAPHQL
        for path, file in found.items():
            if file is not None and sha256_hex(file.content) in path:
                self.cache.keep_part(path, file.content)
        return True

    def part_names(self, run_id: str) -> Container[str]:
        """Return the names of a run's parts."""
        return self.part_sizes(run_id).keys()

    def part_sizes(self, run_id: str) -> Mapping[str, int]:
        """Return how large each of a run's parts is, by name."""
        try:
            entries = list_folder(self.gateway, f"{self.layout.run_folder(run_id)}/{PARTS}", self.head)
        except Missing:
            return {}
        return {f"{PARTS}/{entry.path}": entry.size_bytes for entry in entries}

    def fetch(self, files: Sequence[RemoteFile]) -> None:
        """Get the files that are not here yet, many with each request."""
        self._blobs.fetch(files)


@dataclass(frozen=True)
class CachedSource:
    """What was read or written before, without asking anyone.

    Unless it `reads_segments`, only the newest checkpoints of a long run are known by the index.
    """

    cache: RepositoryCache
    layout: Layout
    max_file_bytes: int = MAX_FILE_BYTES
    reads_segments: bool = True
    source: "Source" = "cache"
    is_whole: bool = False

    def files(self, run_id: str) -> Files:
        """Return the files of a run that are known; the index names some more."""
        folder = self.cache.folder(run_id)
        files = {**(folder.files if folder else self._listed(run_id)), **self.ends(run_id).files}
        content = self.cache.blob(files[INDEX].sha) if INDEX in files else None
        if content is None:
            return files
        try:
            index = parse_index(content, INDEX)
        except IntegrityFailure:
            return files
        index = self._with_segments(index, files) if self.reads_segments else index
        for entry in index.all_entries:
            name = self.layout.name_of(run_id, entry.file_path)
            # A batch is another blob than the checkpoints in it.
            if entry.blob_sha and is_single(name):
                files.setdefault(name, RemoteFile(entry.blob_sha, 0))
        return files

    def ends(self, run_id: str, *, is_proved: bool = False) -> Ends:
        """Return `index.json` and `latest.json` as they are known; what else there is, nobody knows."""
        del is_proved
        known = self.cache.ends(run_id)
        return known._replace(highest_number=None) if known else _NO_ENDS

    def _with_segments(self, index: Index, files: Files) -> Index:
        names = [self.layout.name_of(index.run_id, segment.file_path) for segment in index.segments]
        contents = self.cache.blobs(files[name].sha for name in names if name in files) if names else {}
        segments = []
        for segment, name in zip(index.segments, names, strict=True):
            content = contents.get(files[name].sha) if name in files else None
            with suppress(IntegrityFailure):
                if content is not None:
                    segments.append(open_segment(segment, content, index.run_id))
        return replace(index, segments=tuple(segments))

    def has_latest(self, run_id: str) -> bool:
        """Whether the newest checkpoint of a run, as far as it is known, is here."""
        return self.cache.has_latest(run_id)

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

    def fetch_parts(self, files: Sequence[Reference]) -> None:
        """Do nothing: there is nobody to ask."""

    def part_names(self, run_id: str) -> None:
        """Return None: parts are kept one by one."""

    def part_sizes(self, run_id: str) -> None:
        """Return None: parts are kept one by one."""

    def fetch(self, files: Sequence[RemoteFile]) -> None:
        """Do nothing: there is nobody to ask."""

    def _listed(self, run_id: str) -> dict[str, RemoteFile]:
        known = self.cache.run_list()
        run = known.runs.get(run_id) if known else None
        files = {INDEX: run.index_sha, LATEST: run.latest_sha} if run else {}
        return {name: RemoteFile(sha, 0) for name, sha in files.items() if sha}


def check_size(path: str, file: RemoteFile, max_bytes: int) -> None:
    """Refuse a file that no writer would have made so large. Raises IntegrityFailure."""
    if file.size_bytes > max_bytes:
        raise IntegrityFailure(
            path, f"it has {file.size_bytes:,} bytes, and checkpoints here have {max_bytes:,} at most"
        )
