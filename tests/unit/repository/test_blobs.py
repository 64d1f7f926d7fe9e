"""Blobs: from the local copy, many at once, or one by one."""

from collections.abc import Iterator
from pathlib import Path

import pytest

import holdfast.repository.blobs as blobs_module
from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import Missing
from holdfast.format.git_ids import blob_sha
from holdfast.format.run_snapshot import RemoteFile
from holdfast.github.calls import BLOBS_PER_QUERY, ReadBlob, ReadBlobs
from holdfast.github.presence import GraphqlPresence
from holdfast.repository.blobs import MAX_QUERIED_BLOB_BYTES, MAX_QUERY_BYTES, BlobReader, cut
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

CONTENTS = [b"one", b"two", b"x" * (MAX_QUERIED_BLOB_BYTES + 1)]
FILES = [RemoteFile(blob_sha(content), len(content)) for content in CONTENTS]


@pytest.fixture(params=[True, False], ids=["graphql", "no graphql"])
def repository(request: pytest.FixtureRequest) -> MemoryGateway:
    repository = MemoryGateway(has_graphql=request.param)
    repository.write_as_someone_else(BRANCH, {str(n): content for n, content in enumerate(CONTENTS)})
    repository.calls.clear()
    return repository


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[RepositoryCache]:
    cache = RepositoryCache(tmp_path)
    yield cache
    cache.close()


def test_small_ones_come_together_and_all_only_once(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    blobs = BlobReader(repository, cache)

    assert list(blobs.read_many(FILES).values()) == CONTENTS
    assert repository.count(ReadBlobs) == 1
    asked = len(repository.calls)
    assert list(blobs.read_many(FILES).values()) == CONTENTS
    assert [blobs.read(file.sha) for file in FILES] == CONTENTS
    assert len(repository.calls) == asked


def test_what_is_fetched_is_read_without_a_request(repository: MemoryGateway, cache: RepositoryCache) -> None:
    blobs = BlobReader(repository, cache)

    blobs.fetch(FILES)

    assert repository.count(ReadBlob) == 0
    assert (cache.blob(FILES[0].sha) is not None) == repository.has_graphql
    assert cache.blob(FILES[2].sha) is None


def test_what_is_fetched_is_at_hand_though_nothing_can_be_kept(
    repository: MemoryGateway, cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepositoryCache, "blob", lambda *_: None)
    blobs = BlobReader(repository, cache)
    blobs.fetch(FILES)

    assert [blobs.read(file.sha) for file in FILES] == CONTENTS
    assert repository.count(ReadBlob) == (1 if repository.has_graphql else 3)


def test_no_more_is_at_hand_than_one_query_gives(
    repository: MemoryGateway, cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(RepositoryCache, "blob", lambda *_: None)
    monkeypatch.setattr(blobs_module, "MAX_QUERY_BYTES", len(CONTENTS[0]) + 1)
    blobs = BlobReader(repository, cache)
    of_unknown_size = [RemoteFile(file.sha, 0) for file in FILES[:2]]
    blobs.fetch(of_unknown_size)
    blobs.fetch(of_unknown_size)

    assert [blobs.read(file.sha) for file in FILES[:2]] == CONTENTS[:2]
    assert repository.count(ReadBlob) == (1 if repository.has_graphql else 2)


def test_server_without_graphql_is_not_asked_twice(cache: RepositoryCache) -> None:
    repository = MemoryGateway(has_graphql=False)
    presence = GraphqlPresence(VirtualClock())
    for graphql in (None, presence):
        blobs = BlobReader(repository, cache, graphql)
        repository.calls.clear()
        for _ in range(2):
            blobs.fetch(FILES)
        assert repository.count(ReadBlobs) == 1
    assert not presence.is_likely


def test_blob_that_is_gone_keeps_no_other_from_being_read(
    repository: MemoryGateway, cache: RepositoryCache
) -> None:
    gone = RemoteFile("0" * 40, 3)
    blobs = BlobReader(repository, cache)

    blobs.fetch([gone, *FILES])

    assert blobs.read(FILES[0].sha) == CONTENTS[0]
    with pytest.raises(Missing):
        blobs.read(gone.sha)


def test_query_has_its_bounds() -> None:
    small, large = RemoteFile("s", 1), RemoteFile("l", MAX_QUERY_BYTES)

    assert [len(chunk) for chunk in cut([small] * (BLOBS_PER_QUERY + 5))] == [BLOBS_PER_QUERY, 5]
    assert [len(chunk) for chunk in cut([small, large, large, small])] == [1, 1, 1, 1]
    assert list(cut([])) == []
