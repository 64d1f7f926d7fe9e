"""Reads blobs by their SHAs: from the local copy if they are there, many with each request if not."""

from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field

from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import Missing
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import BLOBS_PER_QUERY, NO_GRAPHQL, Gateway, ReadBlob, ReadBlobs
from holdfast.github.presence import GraphqlPresence

# What one query may ask for: GitHub gives up on answers that take long, and cuts large texts off.
MAX_QUERY_BYTES = 5 * 1024 * 1024
MAX_QUERIED_BLOB_BYTES = 512 * 1024


@dataclass
class BlobReader:
    """Reads the blobs of one repository; what was read is kept in the local copy.

    `graphql` knows whether the server has GraphQL; unless it is given, the first answer decides for good.
    """

    gateway: Gateway
    cache: RepositoryCache
    graphql: GraphqlPresence | None = None
    _is_without_graphql: bool = field(default=False, init=False)
    _at_hand: dict[str, bytes] = field(default_factory=dict, init=False)

    def read(self, sha: str) -> bytes:
        """Return a blob's content. Raises Missing."""
        content = self._at_hand.pop(sha, None) or self.cache.blob(sha)
        if content is None:
            content = self.gateway.perform(ReadBlob(sha))
            self.cache.keep_blob(sha, content)
        return content

    def fetch(self, files: Sequence[RemoteFile]) -> None:
        """Get into the local copy what queries give; the others are read when their turn comes.

        As much as one query gives stays at hand: who fetches blobs reads them next.
        """
        here = self.cache.blobs(file.sha for file in files)
        self._hold(here)
        for chunk in cut([file for file in files if file.sha not in here]):
            with suppress(Missing):
                self._hold(self._query(chunk))

    def _hold(self, contents: Mapping[str, bytes]) -> None:
        room_bytes = MAX_QUERY_BYTES - sum(map(len, self._at_hand.values()))
        for sha, content in contents.items():
            room_bytes -= len(content)
            if room_bytes < 0:
                return
            self._at_hand[sha] = content

    def read_many(self, files: Sequence[RemoteFile]) -> dict[str, bytes]:
        """Return contents by SHA: small ones with one request, the others one by one. Raises Missing."""
        contents = self.cache.blobs(file.sha for file in files)
        contents |= self._query([file for file in files if file.sha not in contents])
        return {f.sha: contents[f.sha] if f.sha in contents else self.read(f.sha) for f in files}

    def _query(self, files: Sequence[RemoteFile]) -> Mapping[str, bytes]:
        shas = {file.sha: None for file in files if file.size_bytes <= MAX_QUERIED_BLOB_BYTES}
        is_likely = self.graphql.is_likely if self.graphql else not self._is_without_graphql
        if len(shas) < 2 or not is_likely:
            return {}
        try:
            found = self.gateway.perform(ReadBlobs(tuple(shas)))
        except Missing as error:
            if error.path != NO_GRAPHQL:
                raise
            self._is_without_graphql = True
            if self.graphql:
                self.graphql.miss()
            return {}
        if self.graphql:
            self.graphql.find()
        self.cache.keep_blobs(found)
        return found


def cut(files: Sequence[RemoteFile]) -> Iterator[Sequence[RemoteFile]]:
    """Cut a list so that each piece is one query, and not too much at a time."""
    start = size = 0
    for place, file in enumerate(files):
        if place > start and (place - start == BLOBS_PER_QUERY or size + file.size_bytes > MAX_QUERY_BYTES):
            yield files[start:place]
            start, size = place, 0
        size += file.size_bytes
    if files[start:]:
        yield files[start:]
