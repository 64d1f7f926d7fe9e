"""The catalog: every run that is stored or spooled, in a line each, without a request for each."""

from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import islice

import orjson

from holdfast.cache.local_copy import ListedRun, RepositoryCache
from holdfast.errors import IntegrityFailure, SpoolDamaged
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import RunStatus
from holdfast.format.ids import parse_run_id
from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.paths import INDEX, LATEST, SUMMARY, Layout
from holdfast.format.receipt import QueueItem
from holdfast.format.review import Review
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import entry_of, open_checkpoint
from holdfast.format.triggers import Trigger
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.repository.known_lines import KnownLines
from holdfast.repository.past import carry_spooled
from holdfast.repository.queued import SpooledRun, open_item
from holdfast.repository.run_list import find_known_run
from holdfast.repository.sources import RunSource
from holdfast.repository.stored_run import StoredRun
from holdfast.repository.understanding import check_owner, read_index
from holdfast.styles.review import Past, find_review, is_stopped, open_reviewed, waits_for

_READ_AT_ONCE = 100


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, in a line."""

    run_id: str
    status: RunStatus
    resumable: bool
    checkpoint_count: int
    last_updated: str
    workflow: str | None


@dataclass(frozen=True, slots=True)
class RunLine:
    """A run in a list, and what it waits for that needs a person."""

    summary: RunSummary
    review: Review | None


def read_indexes(
    source: RunSource, runs: Mapping[str, ListedRun], cache: RepositoryCache, layout: Layout
) -> Iterator[Index]:
    """Yield the index of every listed run; what is damaged is made anew from the files, or left out."""
    runs = {run_id: run for run_id, run in runs.items() if _can_name_run(run_id)}
    files = {
        layout.path(run_id, INDEX if run.index_sha else LATEST): RemoteFile(sha, 0)
        for run_id, run in runs.items()
        if (sha := run.index_sha or run.latest_sha)
    }
    source.fetch(list(files.values()))
    for path, file, known in _with_contents(files, cache):
        run_id, name = layout.parse_path(path)
        try:
            content = known or source.read(path, file)
            yield (read_index if name == INDEX else _index_of_latest)(content, path, run_id)
        except IntegrityFailure as error:
            log.warning("run_damaged", run_id=run_id, path=error.path, cause=error.reason)
            yield from _rebuild(StoredRun(source, layout, run_id))
    for run_id, run in runs.items():
        if run.is_headless:
            yield from _rebuild(StoredRun(source, layout, run_id))


def read_archived(source: RunSource, runs: Mapping[str, ListedRun], layout: Layout) -> list[RunSummary]:
    """Return the runs of which only a summary is left, the one that ended last first."""
    archived = []
    for run_id, run in runs.items():
        if run.summary_sha is None or not _can_name_run(run_id):
            continue
        path = layout.path(run_id, SUMMARY)
        try:
            stored = orjson.loads(source.read(path, RemoteFile(run.summary_sha, 0)))
            status, ended_at = RunStatus(stored["final_status"]), str(stored["completed_at"])
        except (IntegrityFailure, ValueError, KeyError, TypeError) as error:
            log.warning("run_damaged", run_id=run_id, path=path, cause=str(error))
            continue
        workflow = stored.get("workflow")
        known = workflow if isinstance(workflow, str) else None
        archived.append(RunSummary(run_id, status, False, 0, ended_at, known))
    return sorted(archived, key=lambda run: (run.last_updated, run.run_id), reverse=True)


class Catalog:
    """Every run, stored or spooled, in a line each, as of one look.

    The spool is looked at before the repository: what has left it since is in the indexes.
    """

    def __init__(
        self, spool: Queue, known: KnownLines, *, triggers: Container[Trigger] | None = None
    ) -> None:
        """With `triggers`, no run of the spool is looked into that has none of these there."""
        self._spool = spool
        self._known = known
        items = spool.pending()
        telling = {item.run_id for item in items if triggers is None or item.trigger in triggers}
        self._pending: dict[str, list[QueueItem]] = {}
        for item in items:
            if item.run_id in telling:
                self._pending.setdefault(item.run_id, []).append(item)

    def read(
        self, source: RunSource, runs: Mapping[str, ListedRun], cache: RepositoryCache, layout: Layout
    ) -> list[RunLine]:
        """Return the stored runs; only those indexes are read that changed, or that the spool adds to.

        One of them is in memory at a time, and only a line is kept of it, however long the run.
        """
        kept = self._known.of(runs)
        lines = {run_id: line for run_id, line in kept.items() if run_id not in self._pending}
        changed = {run_id: run for run_id, run in runs.items() if run_id not in lines}
        for index in read_indexes(source, changed, cache, layout):
            lines[index.run_id] = line = self._line(index)
            if index.run_id not in self._pending:
                kept[index.run_id] = line
        self._known.keep(runs, kept)
        return list(lines.values())

    def recall(self, source: RunSource, cache: RepositoryCache, layout: Layout) -> list[RunLine]:
        """Return the stored runs by what is in memory, and what this process has written since.

        So this costs little, however many runs there are; what others wrote since is not in it.
        """
        written = cache.written_runs()
        lines = self._known.beside(written)
        changed = {run_id: run for run_id, run in written.items() if run_id not in lines}
        changed |= {run_id: run for run_id in self._pending if (run := find_known_run(cache, run_id))}
        for index in read_indexes(source, changed, cache, layout):
            lines[index.run_id] = self._line(index)
        return list(lines.values())

    def with_spooled(self, stored: Iterable[RunLine]) -> list[RunLine]:
        """Return these runs and those that are only spooled yet, the one last written to first."""
        lines = {line.summary.run_id: line for line in stored}
        lines |= {run_id: self._line(Index(run_id)) for run_id in self._pending if run_id not in lines}
        return sorted(
            lines.values(), key=lambda line: (line.summary.last_updated, line.summary.run_id), reverse=True
        )

    def _line(self, index: Index) -> RunLine:
        run = _KnownRun(index, self._pending.get(index.run_id, ()), self._spool)
        return RunLine(run.summarise(), run.waits_for())


def is_workflow(stored: str | None, wanted: str) -> bool:
    """Whether a run's workflow is the one asked for: by its path, the end of it, or its bare name.

    >>> is_workflow("flows/ci.yml", "ci.yml"), is_workflow("flows/ci.yml", "ci"), is_workflow("ci.yml", "i")
    (True, True, False)
    """
    if stored is None:
        return False
    path, wanted = stored.removeprefix("./"), wanted.removeprefix("./")
    stem = path.rpartition("/")[2].rpartition(".")[0]
    return path == wanted or path.endswith(f"/{wanted}") or (bool(stem) and stem == wanted)


class _KnownRun:
    """A run by its index and its items in the spool; of these only the newest is opened."""

    def __init__(self, index: Index, items: Sequence[QueueItem], spool: Queue) -> None:
        self._index = index
        self._added = sorted(
            (item for item in items if item.checkpoint_id not in index.by_id), key=lambda item: item.sequence
        )
        self._spool = spool
        self._newest = _open(self._added[-1], spool) if self._added else None

    def summarise(self) -> RunSummary:
        """Return the run in a line."""
        index, newest = self._index, self._newest
        is_over = self._is_stopped()
        status = newest.header.status if newest else index.status
        return RunSummary(
            run_id=index.run_id,
            status=RunStatus.FAILED if is_over else status,
            resumable=status is not RunStatus.COMPLETED and not is_over,
            checkpoint_count=index.checkpoint_count + len(self._added),
            last_updated=format_moment(self._added[-1].arrived_at) if self._added else index.last_updated,
            workflow=(newest.header.workflow if newest else None) or index.workflow,
        )

    def waits_for(self) -> Review | None:
        """Return what a person must decide before it goes on, if anything."""
        if self._newest is None:
            return waits_for(self._index)
        if self._is_stopped():
            return None
        waiting = SpooledRun(self._spool, self._index.run_id, [], [], {})
        held = carry_spooled(self._index.review, self._added, waiting)
        found = find_review(open_reviewed(self._newest), Past(self._index.entries, held))
        return found if isinstance(found, Review) else None

    def _is_stopped(self) -> bool:
        """Whether a review has stopped it: of what is spooled, only reviews are opened."""
        reviews = [_open(item, self._spool) for item in self._added if item.trigger is Trigger.REVIEW]
        return is_stopped(self._index) or any(
            review.header.status is RunStatus.FAILED for review in reviews if review
        )


def _open(item: QueueItem, spool: Queue) -> Envelope | None:
    try:
        return open_item(spool, item)
    except SpoolDamaged as error:
        log.warning("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
        return None


def _with_contents(
    files: Mapping[str, RemoteFile], cache: RepositoryCache
) -> Iterator[tuple[str, RemoteFile, bytes | None]]:
    """Yield each file, with its content if that is here; the disk is asked for many files at a time."""
    places = iter(files.items())
    while chunk := list(islice(places, _READ_AT_ONCE)):
        contents = cache.blobs(file.sha for _, file in chunk)
        yield from ((path, file, contents.get(file.sha)) for path, file in chunk)


def _can_name_run(name: str) -> bool:
    try:
        return parse_run_id(name) == name
    except ValueError:
        return False


def _index_of_latest(content: bytes, path: str, run_id: str) -> Index:
    envelope = open_checkpoint(content, path)
    check_owner(envelope, run_id, path)
    header = envelope.header
    return Index(run_id).with_entries(
        [entry_of(envelope, path)], workflow=header.workflow, now=header.timestamp
    )


def _rebuild(run: StoredRun) -> Iterator[Index]:
    if not run.exists:
        return  # a run that is claimed, but has no checkpoint stored yet, has a folder too
    try:
        index = run.listing()
    except IntegrityFailure as error:
        log.warning("run_left_out", run_id=run.run_id, cause=str(error))
        return
    if index.checkpoint_count:
        yield index
