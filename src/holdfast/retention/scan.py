"""Scans the repository: every run's folder, and of each as little content as a plan needs.

What is known by its SHA from before is not asked for again, so that a scan costs a few requests and those for
the runs that have changed.
"""

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import IntegrityFailure, Missing, NewerFormat
from holdfast.format.checkpoint import Envelope
from holdfast.format.claim import parse_claim
from holdfast.format.ids import parse_run_id
from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.parts import join_envelope, part_paths
from holdfast.format.paths import (
    CLAIM,
    INDEX,
    LATEST,
    PRESERVED_RUNS,
    RETENTION_LOG,
    SUMMARY,
    Layout,
    is_single,
    parse_sequences,
)
from holdfast.format.preserved_list import parse_preserved
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot
from holdfast.format.stored_file import open_checkpoint, split_file
from holdfast.github.calls import Gateway, ReadHead, ReadTree
from holdfast.github.inspection import ReadHistory
from holdfast.github.listing import find_tree, read_whole_tree
from holdfast.github.presence import GraphqlPresence
from holdfast.github.results import ListingEntry
from holdfast.jsontext.members import parse_document
from holdfast.logs import log
from holdfast.repository.blobs import BlobReader, cut
from holdfast.repository.understanding import RunFiles, check_owner, take_snapshot
from holdfast.retention.mending import SETTLED_AFTER_DAYS
from holdfast.retention.records import RetentionLog, describe_last, parse_log, parse_summary
from holdfast.retention.rules import DAY_S
from holdfast.retention.scanned_run import NO_FILE, ScannedRun

# From so many unknown folders on, one listing of everything is worth trying.
WORTH_LISTING_ALL = 4


@dataclass
class Scan:
    """The base folder as of one commit. `strangers` are paths in it that we did not write."""

    head_sha: str = ""
    runs: dict[str, ScannedRun] = field(default_factory=dict)
    preserved: frozenset[str] = frozenset()
    log: RetentionLog = field(default_factory=RetentionLog)
    files: dict[str, RemoteFile] = field(default_factory=dict)
    strangers: list[str] = field(default_factory=list)


@dataclass
class Scanner:
    """Reads what retention needs to know of one branch."""

    gateway: Gateway
    cache: RepositoryCache
    layout: Layout
    branch: str
    graphql: GraphqlPresence

    @cached_property
    def _blobs(self) -> BlobReader:
        return BlobReader(self.gateway, self.cache, self.graphql)

    def survey(self, only: Collection[str] | None = None) -> Scan:
        """Return how the branch stands now: all runs, or those in `only`. Nothing if there is no branch.

        Raises IntegrityFailure when the list of preserved runs cannot be read or a newer Holdfast has written
        it or the log, and Refused when there are so
        many runs that GitHub does not show whether there is one.
        """
        survey = Scan()
        try:
            survey.head_sha = self.gateway.perform(ReadHead(self.branch))
            base_sha = find_tree(self.gateway, self.layout.base_path, survey.head_sha)
        except Missing:
            return survey
        trees: dict[str, str] = {}
        for entry in read_whole_tree(self.gateway, self.layout.base_path, base_sha):
            if entry.kind == "file" and entry.path in (PRESERVED_RUNS, RETENTION_LOG):
                survey.files[entry.path] = RemoteFile(entry.sha, entry.size_bytes)
            elif entry.kind == "folder" and _is_run_id(entry.path):
                trees[entry.path] = entry.sha
            else:
                survey.strangers.append(f"{self.layout.base_path}/{entry.path}")
        if only is not None:
            trees = {run_id: sha for run_id, sha in trees.items() if run_id in only}
        survey.runs = self._list_folders(base_sha, trees)
        self._read_own_files(survey)
        self.open(survey.runs, {run_id: _first_reads(each) for run_id, each in survey.runs.items()})
        for run_id, run in survey.runs.items():
            if not {INDEX, LATEST} & run.files.keys() and any(map(parse_sequences, run.files)):
                survey.runs[run_id] = self._with_snapshot(run, {})
        return survey

    def look_back(self, survey: Scan, days: float, now: float, only: Collection[str] | None = None) -> None:
        """Learn which files of all runs, or those in `only`, were there `days` ago; `now` is GitHub's time.

        Only the dates that GitHub gives to commits count. Where its history does not go back so far, as after
        a squash, nothing is known to be so old.
        """
        until = format_moment(now - days * DAY_S)
        wanted = survey.runs if only is None else only
        commits = self.gateway.perform(ReadHistory(survey.head_sha, until=until)) if wanted else ()
        then = self._list_at(commits[0].sha, wanted) if commits else {}
        for run_id in wanted:
            run = survey.runs[run_id]
            files = then[run_id].files if run_id in then else {}
            survey.runs[run_id] = replace(run, files_before={**run.files_before, days: files})

    def _list_at(self, commit_sha: str, run_ids: Collection[str]) -> dict[str, ScannedRun]:
        try:
            base_sha = find_tree(self.gateway, self.layout.base_path, commit_sha)
        except Missing:
            return {}
        entries = read_whole_tree(self.gateway, self.layout.base_path, base_sha)
        trees = {e.path: e.sha for e in entries if e.kind == "folder" and e.path in run_ids}
        return self._list_folders(base_sha, trees)

    def read(self, file: RemoteFile) -> bytes:
        """Return the content of a file."""
        return self._blobs.read(file.sha)

    def open(self, runs: dict[str, ScannedRun], wanted: Mapping[str, Iterable[str]]) -> None:
        """Open files of runs; what they say, or that they are damaged, is in `runs` afterwards."""
        places = [(run_id, name) for run_id, names in wanted.items() for name in names]
        rest = iter(places)
        for chunk in cut([runs[run_id].files[name] for run_id, name in places]):
            contents = self._blobs.read_many(chunk)
            for file, (run_id, name) in zip(chunk, rest, strict=False):  # the chunk ends first
                runs[run_id] = self._opened(runs[run_id], name, contents[file.sha])

    def _list_folders(self, base_sha: str, trees: Mapping[str, str]) -> dict[str, ScannedRun]:
        """Return every run's files: from the local copy, from one listing of all, or folder by folder."""
        known = {run_id: self.cache.tree(sha) for run_id, sha in trees.items()}
        unknown = [run_id for run_id, files in known.items() if files is None]
        listed = self._list_all(base_sha) if len(unknown) >= WORTH_LISTING_ALL else None
        runs = {}
        for run_id, sha in trees.items():
            files = known[run_id]
            if files is None:
                files = listed[run_id] if listed is not None else self._list_one(sha)
            nothing = RunSnapshot(Index(run_id))
            if files is None:
                runs[run_id] = ScannedRun({}, nothing, damage="it has too many files to list")
                continue
            if known[run_id] is None:
                self.cache.keep_tree(sha, files)
            runs[run_id] = ScannedRun(files, nothing)
        return runs

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
        contents = self._blobs.read_many(list(survey.files.values()))
        if PRESERVED_RUNS in survey.files:
            path = f"{self.layout.base_path}/{PRESERVED_RUNS}"
            survey.preserved = parse_preserved(contents[survey.files[PRESERVED_RUNS].sha], path)
        if RETENTION_LOG in survey.files:
            path = f"{self.layout.base_path}/{RETENTION_LOG}"
            found = parse_log(contents[survey.files[RETENTION_LOG].sha], path)
            if found is None:
                log.warning("retention_log_damaged", advice="It is begun anew.")
            survey.log = found or RetentionLog()

    def _opened(self, run: ScannedRun, name: str, content: bytes) -> ScannedRun:
        path = self.layout.path(run.run_id, name)
        if name == INDEX:
            return self._with_snapshot(run, {INDEX: content})
        if name == LATEST and INDEX not in run.files:
            run = self._with_snapshot(run, {LATEST: content})
        try:
            if name == SUMMARY:
                return replace(run, summary=parse_summary(content, path))
            if name == CLAIM:
                return replace(run, claim=parse_claim(content, path, run.run_id))
            if name == LATEST:
                return self._with_latest(run, content, path)
            texts = split_file(content, path)
            opened = [open_checkpoint(text, path) for text in texts]
            parts = frozenset(self._part_names(run, map(_value_of, opened)))
        except IntegrityFailure as error:
            log.warning("run_damaged", run_id=run.run_id, path=error.path, cause=error.reason)
            return replace(run, damage=f"{run.damage}{name} is damaged: {error.reason}")
        if not is_single(name) or SETTLED_AFTER_DAYS in run.files_before:
            found = {each.checkpoint_id: text for each, text in zip(opened, texts, strict=True)}
            run = replace(run, texts_of={**run.texts_of, name: found})
        return replace(run, parts_of={**run.parts_of, name: parts})

    def _with_snapshot(self, run: ScannedRun, contents: Mapping[str, bytes]) -> ScannedRun:
        """Return the run with the snapshot of its folder; `contents` has files that need not be read."""

        def read(name: str) -> bytes:
            return contents[name] if name in contents else self._blobs.read(run.files[name].sha)

        def fetch(names: Sequence[str]) -> None:
            self._blobs.fetch([run.files[name] for name in names])

        blobs = {name: file.sha for name, file in run.files.items()}
        files = RunFiles(run.run_id, blobs, read, lambda: run.files, fetch)
        try:
            snapshot = take_snapshot(files, self.layout)
        except NewerFormat as error:
            log.warning("run_left_alone", run_id=run.run_id, path=error.path, cause=error.reason)
            return replace(run, damage=str(error))
        for flaw in snapshot.flaws if INDEX in run.files else ():
            log.warning("run_damaged", run_id=run.run_id, path=flaw.path, cause=flaw.reason)
        return replace(run, snapshot=snapshot)

    def _with_latest(self, run: ScannedRun, content: bytes, path: str) -> ScannedRun:
        envelope = open_checkpoint(content, path)
        check_owner(envelope, run.run_id, path)
        parts = frozenset(self._part_names(run, [_value_of(envelope)]))
        if parts:
            self._blobs.fetch([run.files[name] for name in parts if name in run.files])
            envelope = join_envelope(envelope, lambda part: self._read_part(run, part), path)
        return replace(
            run,
            latest=describe_last(envelope, _value_of(envelope)),
            parts_of={**run.parts_of, LATEST: parts},
        )

    def _part_names(self, run: ScannedRun, documents: Iterable[Mapping[str, Any]]) -> Iterator[str]:
        run_folder = self.layout.run_folder(run.run_id)
        for document in documents:
            paths = part_paths(document, run_folder)
            yield from (self.layout.name_of(run.run_id, path) for path in paths)

    def _read_part(self, run: ScannedRun, path: str) -> bytes:
        file = run.files.get(self.layout.name_of(run.run_id, path))
        if file is None:
            raise IntegrityFailure(path, "a checkpoint refers to it, but it is not there")
        return self._blobs.read(file.sha)


def _value_of(envelope: Envelope) -> Mapping[str, Any]:
    return parse_document(envelope.content).value


def _first_reads(run: ScannedRun) -> list[str]:
    """Return what tells when a run was last written to: `index.json`, else `latest.json`; summary, claim."""
    names = [INDEX] if INDEX in run.files else [LATEST] if LATEST in run.files else []
    return [*names, *(name for name in (SUMMARY, CLAIM) if name in run.files)]


def _name_of(entry: ListingEntry, name: str) -> str:
    """Return the name of a file; that of a link or a submodule so that nobody takes it for one of ours."""
    return name if entry.kind == "file" else f"{name}{NO_FILE}"


def _is_run_id(text: str) -> bool:
    try:
        parse_run_id(text)
    except ValueError:
        return False
    return True
