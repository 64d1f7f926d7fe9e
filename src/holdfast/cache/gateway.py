"""A gateway that keeps a local copy of what it writes, so that it can be read while GitHub is away."""

from collections.abc import Mapping
from typing import Any, TypeVar

from holdfast.cache.local_copy import RepositoryCache
from holdfast.cache.own_commits import OwnCommit, RunWrite
from holdfast.format.git_ids import blob_sha
from holdfast.format.paths import PARTS, Layout, is_single, parse_sequences
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import Call, Gateway
from holdfast.github.write_calls import CommitFiles, DeleteFile, Revision, WriteFile

ResultT = TypeVar("ResultT")


class CachingGateway:
    """Performs calls through `inner`; what GitHub has taken of a run's files goes into `cache` as well."""

    def __init__(self, inner: Gateway, cache: RepositoryCache, layout: Layout) -> None:
        self._inner = inner
        self._cache = cache
        self._layout = layout

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError."""
        result = self._inner.perform(call)
        written = _written_by(call)
        if written and isinstance(result, Revision):
            parent_sha = call.expected_head_sha if isinstance(call, CommitFiles) else result.parent_sha
            self._keep(written, OwnCommit(result.commit_sha, parent_sha))
        return result

    def _keep(self, written: Mapping[str, bytes | None], commit: OwnCommit) -> None:
        by_run: dict[str, RunWrite] = {}
        blobs: dict[str, bytes] = {}
        for path, content in written.items():
            run_id, name = self._layout.parse_path(path)
            if not run_id:
                continue
            noted = by_run.setdefault(run_id, RunWrite())
            if name.startswith(f"{PARTS}/"):
                if content is not None:
                    self._cache.keep_part(path, content)
                continue
            file = None
            if content is not None:
                file = RemoteFile(blob_sha(content), len(content))
                blobs[file.sha] = content
                noted.highest_number = max(noted.highest_number, *parse_sequences(name)[-1:], 0)
            # The index, which is always written after it, names a single checkpoint together with its blob.
            if file is None or not is_single(name):
                noted.files[name] = file
        if blobs:
            self._cache.keep_blobs(blobs)
        self._cache.note_commit(commit, by_run)


def _written_by(call: Call[Any]) -> Mapping[str, bytes | None]:
    """Return what a call writes, by path; None for what it deletes."""
    if isinstance(call, WriteFile):
        return {call.path: call.content}
    if isinstance(call, DeleteFile):
        return {call.path: None}
    return {**dict.fromkeys(call.deletions), **call.additions} if isinstance(call, CommitFiles) else {}
