from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.cache.gateway import CachingGateway
from holdfast.cache.local_copy import RepositoryCache
from holdfast.errors import Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.format.paths import Layout
from holdfast.github.write_calls import CommitFiles, DeleteFile, WriteFile
from tests.fakes.memory_gateway import MemoryGateway


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[RepositoryCache]:
    cache = RepositoryCache(tmp_path)
    yield cache
    cache.close()


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b""})
    return repository


def test_what_github_has_taken_is_kept(cache: RepositoryCache, repository: MemoryGateway) -> None:
    gateway = CachingGateway(repository, cache, Layout())
    write = WriteFile("checkpoints/r/batch_1_2.json", b"1", "m", "main")
    gateway.perform(write)
    head = repository.branches["main"]
    additions = {"checkpoints/r/latest.json": b"2", "checkpoints/r/parts/p.json": b"3", "README.md": b"4"}
    gateway.perform(CommitFiles("main", head, "m", "", additions))

    folder = cache.folder("r")

    assert folder
    assert set(folder.files) == {"batch_1_2.json", "latest.json"}
    assert cache.blob(blob_sha(b"1")) == b"1"
    assert cache.blob(blob_sha(b"2")) == b"2"
    assert cache.part("checkpoints/r/parts/p.json") == b"3"
    assert cache.known_runs() == ["r"]
    gateway.perform(DeleteFile(write.path, "m", "main", blob_sha(b"1")))
    assert set((cache.folder("r") or folder).files) == {"latest.json"}


def test_what_github_has_not_taken_is_not_kept(cache: RepositoryCache, repository: MemoryGateway) -> None:
    repository.fail_next(WriteFile, Unavailable("x", "no answer"), is_applied=True)

    with pytest.raises(Unavailable):
        CachingGateway(repository, cache, Layout()).perform(
            WriteFile("checkpoints/r/latest.json", b"1", "m", "main")
        )

    assert cache.folder("r") is None
