"""The catalog: every run that is stored or spooled, in a line each, without a request for each."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from holdfast.cache.local_copy import ListedRun, RepositoryCache
from holdfast.errors import IntegrityFailure, SpoolDamaged, UnknownRun
from holdfast.format.checkpoint import Header, RunStatus
from holdfast.format.ids import parse_run_id
from holdfast.format.index import Index
from holdfast.format.moments import format_moment
from holdfast.format.paths import INDEX, LATEST, Layout
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RemoteFile
from holdfast.format.stored_file import entry_of, open_checkpoint
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.repository.queued import open_item
from holdfast.repository.snapshot import check_owner, read_index
from holdfast.repository.sources import RunSource
from holdfast.repository.stored_run import StoredRun


@dataclass(frozen=True, slots=True)
class RunSummary:
    """One run, in a line."""

    run_id: str
    status: RunStatus
    resumable: bool
    checkpoint_count: int
    last_updated: str
    workflow: str | None


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
    contents = cache.blobs(file.sha for file in files.values())
    for path, file in files.items():
        run_id, name = layout.parse_path(path)
        try:
            content = contents.get(file.sha) or source.read(path, file)
            yield (read_index if name == INDEX else _index_of_latest)(content, path, run_id)
        except IntegrityFailure as error:
            log.warning("run_damaged", run_id=run_id, path=error.path, cause=error.reason)
            yield from _rebuild(StoredRun(source, layout, run_id))
    for run_id, run in runs.items():
        if run.is_headless:
            yield from _rebuild(StoredRun(source, layout, run_id))


def summarise_runs(indexes: Sequence[Index], pending: Sequence[QueueItem], spool: Queue) -> list[RunSummary]:
    """Return every run, stored or spooled, the one last written to first.

    `pending` is what waited before the indexes were read: what has left the spool since is in them.
    """
    spooled: dict[str, list[QueueItem]] = {}
    for item in pending:
        spooled.setdefault(item.run_id, []).append(item)
    stored = {index.run_id: index for index in indexes}
    summaries = [
        _summarise(stored.get(run_id, Index(run_id)), spooled.get(run_id, []), spool)
        for run_id in {*stored, *spooled}
    ]
    return sorted(summaries, key=lambda run: (run.last_updated, run.run_id), reverse=True)


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


def _summarise(index: Index, items: Sequence[QueueItem], spool: Queue) -> RunSummary:
    """Return the run in a line; of what is spooled only the newest is opened, and it counts as the newest."""
    added = [item for item in items if item.checkpoint_id not in index.by_id]
    newest = max(added, key=lambda item: item.sequence, default=None)
    header = _header_of(newest, spool) if newest else None
    status = header.status if header else index.status
    return RunSummary(
        run_id=index.run_id,
        status=status,
        resumable=status is not RunStatus.COMPLETED,
        checkpoint_count=len(index.entries) + len(added),
        last_updated=format_moment(newest.arrived_at) if newest else index.last_updated,
        workflow=(header.workflow if header else None) or index.workflow,
    )


def _header_of(item: QueueItem, spool: Queue) -> Header | None:
    try:
        envelope = open_item(spool, item)
    except SpoolDamaged as error:
        log.warning("checkpoint_damaged", checkpoint_id=item.checkpoint_id, cause=str(error))
        return None
    return envelope.header if envelope else None


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
    try:
        index = run.listing()
    except (IntegrityFailure, UnknownRun) as error:
        log.warning("run_left_out", run_id=run.run_id, cause=str(error))
        return
    if index.entries:
        yield index
