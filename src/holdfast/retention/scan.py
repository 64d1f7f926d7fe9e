"""Surveys the repository: every run's folder, and of each as little content as a plan needs.

What is known by its SHA from before is not asked for again, so that a survey costs a few requests and those
for the runs that have changed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from holdfast.cache.local_copy import RemoteFile, RepositoryCache
from holdfast.errors import IntegrityFailure, Missing, Refused
from holdfast.format.checkpoint import open_stored
from holdfast.format.ids import parse_run_id
from holdfast.format.index import parse_index
from holdfast.format.parts import join_envelope, part_paths
from holdfast.format.paths import INDEX, LATEST, PRESERVED_RUNS, RETENTION_LOG, SUMMARY, Layout
from holdfast.format.preserved_list import parse_preserved
from holdfast.format.stored_file import split_file
from holdfast.github.calls import (
    BLOBS_PER_QUERY,
    NO_GRAPHQL,
    Gateway,
    ListingEntry,
    ReadBlob,
    ReadBlobs,
    ReadHead,
    ReadTree,
)
from holdfast.github.presence import GraphqlPresence
from holdfast.jsontext.members import parse_document
from holdfast.logs import log
from holdfast.repository.folder import Blob, RunFolder
from holdfast.repository.summary import describe_last, parse_summary
from holdfast.retention.log import RetentionLog, parse_log

# From so many unknown folders on, one listing of everything is worth trying.
WORTH_LISTING_ALL = 4
# What one query may ask for: GitHub gives up on answers that take long.
MAX_QUERY_BYTES = 2 * 1024 * 1024
MAX_QUERIED_BLOB_BYTES = 256 * 1024


@dataclass
class Scan:
    """The base folder as of one commit. `strangers` are paths in it that we did not write."""

    head_sha: str = ""
    folders: dict[str, RunFolder] = field(default_factory=dict)
    preserved: frozenset[str] = frozenset()
    log: RetentionLog = field(default_factory=RetentionLog)
    files: dict[str, Blob] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)


@dataclass(frozen=True, slots=True)
class _Wanted:
    """A file of a run that is to be opened."""

    run_id: str
    name: str
    blob: Blob


@dataclass
class Scanner:
    """Reads what retention needs to know of one branch."""

    gateway: Gateway
    cache: RepositoryCache
    layout: Layout
    branch: str
    graphql: GraphqlPresence

    def survey(self, only: Collection[str] | None = None) -> Scan:
        """Return how the branch stands now: all runs, or those in `only`. Nothing if there is no branch.

        Raises IntegrityFailure when the list of preserved runs cannot be read, and Refused when there are so
        many runs that GitHub does not show whether there is one.
        """
        survey = Scan()
        try:
            survey.head_sha = self.gateway.perform(ReadHead(self.branch))
            base_sha = self._find_base(survey.head_sha)
        except Missing:
            return survey
        trees: dict[str, str] = {}
        for entry in self._list_base(base_sha):
            if entry.kind == "file" and entry.path in (PRESERVED_RUNS, RETENTION_LOG):
                survey.files[entry.path] = Blob(entry.sha, entry.size_bytes)
            elif entry.kind == "folder" and _is_run_id(entry.path):
                trees[entry.path] = entry.sha
            else:
                survey.strangers.append(f"{self.layout.base_path}/{entry.path}")
        if only is not None:
            trees = {run_id: sha for run_id, sha in trees.items() if run_id in only}
        survey.folders = self._list_folders(base_sha, trees)
        self._read_own_files(survey)
        self.open(survey.folders, {run_id: _first_reads(each) for run_id, each in survey.folders.items()})
        return survey

    def open(self, folders: dict[str, RunFolder], wanted: Mapping[str, Iterable[str]]) -> None:
        """Open files of runs; what they say, or that they are damaged, is in `folders` afterwards."""
        files = [
            _Wanted(run_id, name, folders[run_id].files[name])
            for run_id, names in wanted.items()
            for name in names
        ]
        for chunk in _chunks(files):
            contents = self._fetch({each.blob.sha: each.blob for each in chunk})
            for each in chunk:
                folder = folders[each.run_id]
                folders[each.run_id] = self._opened(folder, each.name, contents[each.blob.sha])

    def _find_base(self, head_sha: str) -> str:
        sha = head_sha
        for name in self.layout.base_path.split("/"):
            entries = self.gateway.perform(ReadTree(sha)).entries
            sha = next((entry.sha for entry in entries if entry.path == name and entry.kind == "folder"), "")
            if not sha:
                raise Missing(self.layout.base_path, "there is no such folder")
        return sha

    def _list_base(self, base_sha: str) -> Sequence[ListingEntry]:
        listing = self.gateway.perform(ReadTree(base_sha))
        if listing.is_complete:
            return listing.entries
        raise Refused(
            self.layout.base_path,
            f"{self.layout.base_path} has more than GitHub lists of one folder",
            kind="invalid",
            advice="Begin a new one with HOLDFAST_BASE_PATH or HOLDFAST_BRANCH.",
        )

    def _list_folders(self, base_sha: str, trees: Mapping[str, str]) -> dict[str, RunFolder]:
        """Return every run's files: from the local copy, from one listing of all, or folder by folder."""
        known = {run_id: self.cache.tree(sha) for run_id, sha in trees.items()}
        unknown = [run_id for run_id, files in known.items() if files is None]
        listed = self._list_all(base_sha) if len(unknown) >= WORTH_LISTING_ALL else None
        folders = {}
        for run_id, sha in trees.items():
            files = known[run_id]
            if files is None:
                files = listed[run_id] if listed is not None else self._list_one(sha)
            if files is None:
                folders[run_id] = RunFolder(run_id, {}, damage="it has too many files to list")
                continue
            if known[run_id] is None:
                self.cache.keep_tree(sha, files)
            blobs = {name: Blob(file.sha, file.size_bytes) for name, file in files.items()}
            folders[run_id] = RunFolder(run_id, blobs)
        return folders

    def _list_all(self, base_sha: str) -> dict[str, dict[str, RemoteFile]] | None:
        """Return the files of every folder from one listing; None if GitHub cut it off."""
        listing = self.gateway.perform(ReadTree(base_sha, is_recursive=True))
        if not listing.is_complete:
            return None
        folders: dict[str, dict[str, RemoteFile]] = {}
        for entry in listing.entries:
            run_id, _, name = entry.path.partition("/")
            files = folders.setdefault(run_id, {})
            if name and entry.kind != "folder":
                files[_name_of(entry, name)] = RemoteFile(entry.sha, entry.size_bytes)
        return folders

    def _list_one(self, sha: str) -> dict[str, RemoteFile] | None:
        """Return the files of one folder; None if not even these fit into an answer."""
        listing = self.gateway.perform(ReadTree(sha, is_recursive=True))
        if not listing.is_complete:
            return None
        return {
            _name_of(entry, entry.path): RemoteFile(entry.sha, entry.size_bytes)
            for entry in listing.entries
            if entry.kind != "folder"
        }

    def _read_own_files(self, survey: Scan) -> None:
        contents = self._fetch({blob.sha: blob for blob in survey.files.values()})
        if PRESERVED_RUNS in survey.files:
            path = f"{self.layout.base_path}/{PRESERVED_RUNS}"
            survey.preserved = parse_preserved(contents[survey.files[PRESERVED_RUNS].sha], path)
        if RETENTION_LOG in survey.files:
            found = parse_log(contents[survey.files[RETENTION_LOG].sha])
            if found is None:
                log.warning("retention_log_damaged", advice="It is begun anew.")
            survey.log = found or RetentionLog()

    def _opened(self, folder: RunFolder, name: str, content: bytes) -> RunFolder:
        path = self.layout.path(folder.run_id, name)
        try:
            if name == INDEX:
                return replace(folder, index=parse_index(content, path))
            if name == SUMMARY:
                return replace(folder, summary=parse_summary(content, path))
            if name == LATEST:
                return self._opened_latest(folder, content, path)
            documents = [open_stored(text, path)[1].value for text in split_file(content, path)]
            parts = frozenset(self._part_names(folder, documents))
        except IntegrityFailure as error:
            log.warning("run_damaged", run_id=folder.run_id, path=error.path, cause=error.reason)
            return replace(folder, damage=f"{folder.damage}{name} is damaged: {error.reason}")
        return replace(folder, parts_of={**folder.parts_of, name: parts})

    def _opened_latest(self, folder: RunFolder, content: bytes, path: str) -> RunFolder:
        envelope, document = open_stored(content, path)
        parts = frozenset(self._part_names(folder, [document.value]))
        if parts:
            envelope = join_envelope(envelope, lambda part: self._read_part(folder, part), path)
            document = parse_document(envelope.content)
        return replace(
            folder,
            latest=describe_last(envelope, document.value),
            parts_of={**folder.parts_of, LATEST: parts},
        )

    def _part_names(self, folder: RunFolder, documents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        run_folder = self.layout.run_folder(folder.run_id)
        for document in documents:
            paths = part_paths(document, run_folder)
            yield from (self.layout.name_of(folder.run_id, path) for path in paths)

    def _read_part(self, folder: RunFolder, path: str) -> bytes:
        blob = folder.files.get(self.layout.name_of(folder.run_id, path))
        if blob is None:
            raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")
        return self._fetch({blob.sha: blob})[blob.sha]

    def _fetch(self, blobs: Mapping[str, Blob]) -> dict[str, bytes]:
        """Return contents by SHA: those that are here, small ones with one request, the others one by one."""
        contents = self.cache.blobs(blobs)
        missing = [sha for sha in blobs if sha not in contents]
        small = [sha for sha in missing if blobs[sha].size_bytes <= MAX_QUERIED_BLOB_BYTES]
        found = self._query(small) if len(small) > 1 else {}
        for sha in missing:
            content = found[sha] if sha in found else self.gateway.perform(ReadBlob(sha))
            self.cache.keep_blob(sha, content)
            contents[sha] = content
        return contents

    def _query(self, shas: list[str]) -> dict[str, bytes]:
        if not self.graphql.is_likely:
            return {}
        try:
            found = self.gateway.perform(ReadBlobs(tuple(shas)))
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            self.graphql.miss()
            return {}
        self.graphql.find()
        return found


def _first_reads(folder: RunFolder) -> list[str]:
    """Return what tells when a run was last written to: its index, else its latest; and its summary."""
    names = [INDEX] if INDEX in folder.files else [LATEST] if LATEST in folder.files else []
    return [*names, *([SUMMARY] if SUMMARY in folder.files else [])]


def _chunks(files: list[_Wanted]) -> Iterator[list[_Wanted]]:
    """Cut a list so that each piece is one query and not too much at a time."""
    chunk: list[_Wanted] = []
    size = 0
    for file in files:
        if chunk and (len(chunk) == BLOBS_PER_QUERY or size + file.blob.size_bytes > MAX_QUERY_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(file)
        size += file.blob.size_bytes
    if chunk:
        yield chunk


def _name_of(entry: ListingEntry, name: str) -> str:
    """Return the name of a file; that of a link or a submodule so that nobody takes it for one of ours."""
    return name if entry.kind == "file" else f"{name} (no file)"


def _is_run_id(text: str) -> bool:
    try:
        parse_run_id(text)
    except ValueError:
        return False
    return True
