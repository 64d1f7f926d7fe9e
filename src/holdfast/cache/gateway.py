"""A gateway that keeps a local copy of what it writes, so that it can be read while GitHub is away."""

from collections.abc import Mapping
from typing import TypeVar

from holdfast.cache.local_copy import RepositoryCache
from holdfast.format.git_ids import blob_sha
from holdfast.format.paths import PARTS, Layout, is_single
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import Call, CommitFiles, DeleteFile, Gateway, WriteFile

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
        if isinstance(call, WriteFile):
            self._keep({call.path: call.content})
        elif isinstance(call, DeleteFile):
            self._keep({call.path: None})
        elif isinstance(call, CommitFiles):
            self._keep({**dict.fromkeys(call.deletions), **call.additions})
        return result

    def _keep(self, written: Mapping[str, bytes | None]) -> None:
        by_run: dict[str, dict[str, RemoteFile | None]] = {}
        blobs: dict[str, bytes] = {}
        for path, content in written.items():
            run_id, name = self._layout.parse_path(path)
            if not run_id:
                continue
            if name.startswith(f"{PARTS}/"):
                if content is not None:
                    self._cache.keep_part(path, content)
                continue
            file = None
            if content is not None:
                file = RemoteFile(blob_sha(content), len(content))
                blobs[file.sha] = content
            # The index, which is always written after it, names a single checkpoint together with its blob.
            if file is None or not is_single(name):
                by_run.setdefault(run_id, {})[name] = file
        if blobs:
            self._cache.keep_blobs(blobs)
        for run_id, files in by_run.items():
            self._cache.note_writes(run_id, files)
