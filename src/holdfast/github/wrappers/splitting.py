"""A gateway that makes one call for each request, so that whatever is below it sees every one of them."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import cast

from holdfast.github.calls import (
    PATHS_PER_QUERY,
    Call,
    File,
    Gateway,
    ReadBlob,
    ReadPage,
    ReadSnapshot,
    ResultT,
    Snapshot,
)


@dataclass(frozen=True, slots=True)
class SplittingGateway:
    """Performs calls through `inner`; one that takes several requests as several calls."""

    inner: Gateway

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers, or raise its GatewayError."""
        if isinstance(call, ReadSnapshot):
            return cast(ResultT, read_snapshot(self.inner, call))
        return self.inner.perform(call)


def read_snapshot(gateway: Gateway, call: ReadSnapshot) -> Snapshot:
    """Read the first files at the branch, and the others at the commit that it then pointed to."""
    paths = list(dict.fromkeys(call.paths))
    head_sha = ""
    files: dict[str, File | None] = {}
    folders: dict[str, dict[str, str]] = {}
    for chunk in _chunks(paths):
        page = gateway.perform(ReadPage(call.branch, tuple(chunk), head_sha))
        head_sha = page.head_sha
        files |= page.files
        folders |= page.folders
        for path, sha in page.truncated.items():
            files[path] = File(gateway.perform(ReadBlob(sha)), sha)
    return Snapshot(head_sha, {path: files[path] for path in paths}, folders)


def _chunks(paths: Sequence[str]) -> Iterator[Sequence[str]]:
    """Yield at least one chunk: the head is asked for even if no file is."""
    for start in range(0, max(1, len(paths)), PATHS_PER_QUERY):
        yield paths[start : start + PATHS_PER_QUERY]
