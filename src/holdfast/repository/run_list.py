"""Lists every run of the branch with its `index.json` and `latest.json`; only what changed is asked for."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TypeVar

from holdfast.cache.local_copy import ListedRun, RepositoryCache, RunList
from holdfast.errors import Missing, Unavailable
from holdfast.format.paths import INDEX, LATEST, SUMMARY
from holdfast.github.calls import NO_GRAPHQL, ReadFile
from holdfast.github.listing import read_snapshot, walk_to
from holdfast.github.results import Snapshot
from holdfast.logs import log
from holdfast.repository.sources import GitHubSource

ItemT = TypeVar("ItemT")

_PATHS_AT_ONCE = 100
_WORTH_ONE_QUERY = 3


@dataclass(frozen=True, slots=True)
class _BlobAt:
    """The blob that lies at a path, if any, at the commit at which it was looked for."""

    blob_sha: str | None
    commit_sha: str


def list_runs(source: GitHubSource) -> Mapping[str, ListedRun]:
    """Return every run as the newest commit has it. Raises GatewayError."""
    known = source.cache.run_list() or RunList("", {})
    if known.commit_sha == source.head:
        return known.runs
    trees = _list_trees(source)
    kept = {run_id: run for run_id, run in known.runs.items() if trees.get(run_id) == run.tree_sha}
    found = _look_into(source, {run_id: sha for run_id, sha in trees.items() if run_id not in kept})
    runs = {run_id: kept.get(run_id) or found[run_id] for run_id in trees}
    # A run that changed while we looked is looked at again the next time.
    is_steady = all(run.tree_sha for run in runs.values())
    source.cache.keep_run_list(RunList(source.head if is_steady else "", runs))
    return runs


def list_known_runs(cache: RepositoryCache) -> Mapping[str, ListedRun]:
    """Return every run that was seen or written before."""
    known = cache.run_list()
    runs = dict(known.runs) if known else {}
    for run_id in cache.known_runs():
        if run := find_known_run(cache, run_id):
            runs[run_id] = run
    return runs


def find_known_run(cache: RepositoryCache, run_id: str) -> ListedRun | None:
    """Return a run as it was last seen or written; None if it was not."""
    ends = cache.ends(run_id)
    if ends is None:
        known = cache.run_list()
        return known.runs.get(run_id) if known else None
    index, latest = ends.files.get(INDEX), ends.files.get(LATEST)
    return ListedRun("", index.sha if index else None, latest.sha if latest else None)


def _list_trees(source: GitHubSource) -> dict[str, str]:
    try:
        entries = walk_to(source.gateway, source.layout.base_path, source.head)
    except Missing:
        return {}
    return {entry.path: entry.sha for entry in entries if entry.kind == "folder"}


def _look_into(source: GitHubSource, trees: Mapping[str, str]) -> dict[str, ListedRun]:
    """Return each run; `latest.json` is looked for only without an index, the summary only without both."""
    found: dict[str, dict[str, _BlobAt]] = {run_id: {} for run_id in trees}
    wanted = list(trees)
    for name in (INDEX, LATEST, SUMMARY):
        places = _find(source, {run_id: source.layout.path(run_id, name) for run_id in wanted})
        for run_id, place in places.items():
            found[run_id][name] = place
        wanted = [run_id for run_id, place in places.items() if place.blob_sha is None]
    return {run_id: _conclude(sha, found[run_id], source.head) for run_id, sha in trees.items()}


def _conclude(tree_sha: str, places: Mapping[str, _BlobAt], head_sha: str) -> ListedRun:
    is_steady = all(place.commit_sha == head_sha for place in places.values())
    latest = places[LATEST].blob_sha if LATEST in places else None
    is_headless = not any(place.blob_sha for place in places.values())
    summary = places[SUMMARY].blob_sha if SUMMARY in places else None
    return ListedRun(tree_sha if is_steady else "", places[INDEX].blob_sha, latest, is_headless, summary)


def _find(source: GitHubSource, paths: Mapping[str, str]) -> dict[str, _BlobAt]:
    """Return what lies at each path; its content is kept."""
    found: dict[str, _BlobAt] = {}
    for chunk in _chunks(list(paths.items())):
        snapshot = _read_at_once(source, [path for _, path in chunk])
        for run_id, path in chunk:
            if snapshot is None:
                found[run_id] = _BlobAt(_find_one(source, path), source.head)
            elif path in snapshot.unread:
                found[run_id] = _find_by_itself(source, path)
            else:
                file = snapshot.files[path]
                found[run_id] = _BlobAt(file.blob_sha if file else None, snapshot.head_sha)
    return found


def _find_by_itself(source: GitHubSource, path: str) -> _BlobAt:
    """Return what lies at a path that no query gives; nothing for now if GitHub does not answer."""
    try:
        return _BlobAt(_find_one(source, path), source.head)
    except Unavailable as error:
        log.warning("run_left_out", path=path, cause=str(error))
        return _BlobAt(None, "")


def _find_one(source: GitHubSource, path: str) -> str | None:
    try:
        file = source.gateway.perform(ReadFile(path, source.head))
    except Missing:
        return None
    source.cache.keep_blob(file.blob_sha, file.content)
    return file.blob_sha


def _read_at_once(source: GitHubSource, paths: Sequence[str]) -> Snapshot | None:
    """Read many files with one request; None where that is not worth it, or there is no GraphQL."""
    if len(paths) < _WORTH_ONE_QUERY:
        return None
    try:
        snapshot = read_snapshot(source.gateway, source.branch, paths)
    except Missing as error:
        if error.path != NO_GRAPHQL:
            raise
        return None
    source.cache.keep_blobs({file.blob_sha: file.content for file in snapshot.files.values() if file})
    return snapshot


def _chunks(items: Sequence[ItemT]) -> Iterator[Sequence[ItemT]]:
    for start in range(0, len(items), _PATHS_AT_ONCE):
        yield items[start : start + _PATHS_AT_ONCE]
