from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.cache.database import DATABASE
from holdfast.cache.gateway import CachingGateway
from holdfast.cache.local_copy import (
    MAX_BLOB_BYTES,
    MAX_FILES_OF_OUR_WRITES,
    Folder,
    Head,
    ListedRun,
    RepositoryCache,
    RunList,
)
from holdfast.cache.store import Store
from holdfast.disk import DatabaseDamaged
from holdfast.errors import SpoolUnwritable, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot
from holdfast.github.calls import CommitFiles, DeleteFile, WriteFile
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import BRANCH, open_workshop

A, B = RemoteFile("a" * 40, 1), RemoteFile("b" * 40, 2)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[RepositoryCache]:
    cache = RepositoryCache.open(tmp_path)
    yield cache
    cache.close()


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    cache = RepositoryCache.open(tmp_path)
    cache.keep_blob(A.sha, b"x")
    cache.keep_head(Head("c", 'W/"1"'))
    cache.keep_folder("r", Folder("c", {"index.json": A}))
    cache.keep_catalogue(RunList("c", {"r": ListedRun("t", A.sha, None)}))
    cache.close()

    again = RepositoryCache.open(tmp_path)

    assert again.blob(A.sha) == b"x"
    assert again.blobs([A.sha, B.sha]) == {A.sha: b"x"}
    assert again.head() == Head("c", 'W/"1"')
    assert again.folder("r") == Folder("c", {"index.json": A})
    assert again.catalogue() == RunList("c", {"r": ListedRun("t", A.sha, None)})
    assert again.known_runs() == ["r"]
    again.close()


def test_nothing_is_known_at_first(cache: RepositoryCache) -> None:
    assert cache.head() is None
    assert cache.folder("r") is None
    assert cache.catalogue() is None
    assert cache.view("r") is None
    assert cache.known_runs() == []


def test_blob_that_would_push_out_everything_else_is_not_kept(cache: RepositoryCache) -> None:
    cache.keep_blob("large", b"x" * (MAX_BLOB_BYTES + 1))
    cache.keep_blobs({"larger": b"x" * (MAX_BLOB_BYTES + 1), A.sha: b"x"})

    assert cache.blobs(["large", "larger", A.sha]) == {A.sha: b"x"}


def test_our_writes_change_the_folder_and_name_no_commit(cache: RepositoryCache) -> None:
    cache.keep_folder("r", Folder("c", {"index.json": A, "cp_001_manual.json": A}))

    cache.note_writes("r", {"index.json": B, "cp_001_manual.json": None, "latest.json": B})

    assert cache.folder("r") == Folder("", {"index.json": B, "latest.json": B})


def test_folder_of_many_writes_stays_small_and_keeps_index_and_latest(cache: RepositoryCache) -> None:
    cache.note_writes("r", {"index.json": A, "latest.json": A})
    cache.note_writes("r", {f"cp_{number:03d}_manual.json": A for number in range(500)})

    folder = cache.folder("r")

    assert folder
    assert len(folder.files) == MAX_FILES_OF_OUR_WRITES
    assert {"index.json", "latest.json", "cp_499_manual.json"} <= set(folder.files)


def test_index_that_others_wrote_is_not_kept_as_we_would_write_it(cache: RepositoryCache) -> None:
    cache.keep_view(RunSnapshot(Index("r"), index_sha=A.sha))

    assert cache.blob(A.sha) is None


def test_index_that_we_wrote_is_kept(cache: RepositoryCache) -> None:
    content = Index("r").to_bytes()
    cache.keep_view(RunSnapshot(Index("r"), index_sha=blob_sha(content)))

    view = cache.view("r")

    assert view
    assert view.index == Index("r")


def test_disk_that_takes_nothing_is_nobodys_trouble(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise SpoolUnwritable("the disk is full")

    for method in ("get", "set", "get_many", "keys", "delete"):
        monkeypatch.setattr(Store, method, refuse)

    cache.forget_view("r")

    cache.keep_blob(A.sha, b"x")
    cache.note_writes("r", {"index.json": A})
    assert cache.blob(A.sha) is None
    assert cache.blobs([A.sha]) == {}
    assert cache.known_runs() == []


def test_fault_of_the_store_itself_is_nobodys_trouble_either(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        for method in ("get", "set", "get_many", "keys", "delete", "transact", "close"):
            failing.setattr(Store, method, fail_with(LookupError("a row that was there has gone")))
        cache.keep_blob(A.sha, b"x")
        cache.keep_blobs({B.sha: b"x"})
        cache.forget_view("r")
        assert (cache.blob(A.sha), cache.blobs([A.sha]), cache.known_runs()) == (None, {}, [])
        cache.close()


def test_copy_that_cannot_be_opened_for_any_reason_is_nobodys_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "holdfast.cache.local_copy.open_store", fail_with(RecursionError("damaged again and again"))
    )
    with closing(RepositoryCache.open(tmp_path)) as cache:
        cache.keep_blob(A.sha, b"x")
        assert cache.blob(A.sha) is None


def test_full_copy_takes_large_blobs_one_by_one_and_together_and_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cache.local_copy.MAX_BYTES", 32_000_000)
    with closing(RepositoryCache.open(tmp_path)) as cache:
        singly = [f"{number:040d}" for number in range(12)]
        for sha in singly:
            cache.keep_blob(sha, bytes(4_000_000))
            assert cache.blob(sha) == bytes(4_000_000)
        assert len(cache.blobs(singly)) == 7

        together = [f"{number:040d}" for number in range(100, 110)]
        cache.keep_blobs(dict.fromkeys(together, bytes(1_200_000)))

        assert set(cache.blobs(together)) == set(together)
        assert len(cache.blobs(singly)) == 4
        assert (tmp_path / DATABASE).stat().st_size <= 32_000_000


def damage(folder: Path) -> None:
    """Overwrite the database, as a failing disk might."""
    for path in folder.iterdir():
        path.write_bytes(b"\xff" * 8192)


def test_copy_that_another_process_has_begun_anew_is_followed(tmp_path: Path) -> None:
    content = Index("r").to_bytes()
    view = RunSnapshot(Index("r"), index_sha=blob_sha(content))
    with closing(RepositoryCache.open(tmp_path)) as running:
        running.keep_view(view)
        damage(tmp_path)
        with closing(RepositoryCache.open(tmp_path)) as other:
            running.forget_view("r")
            assert running.view("r") is None

            running.keep_blob(A.sha, b"x")
            running.keep_view(view)

            assert running.view("r") is not None
            assert other.blob(A.sha) == b"x"


def test_copy_that_is_damaged_while_it_is_open_is_begun_anew(tmp_path: Path) -> None:
    with closing(RepositoryCache.open(tmp_path)) as cache:
        cache.keep_blob(A.sha, b"x")
        cache._attempt(fail_with(DatabaseDamaged("a page of it is torn")))

        assert cache.blob(A.sha) is None
        cache.keep_blob(B.sha, b"y")
        assert cache.blob(B.sha) == b"y"


def fail_with(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_view_that_cannot_be_deleted_is_not_believed(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    view = RunSnapshot(Index("r"), index_sha=blob_sha(Index("r").to_bytes()))
    cache.keep_view(view)
    with monkeypatch.context() as failing:
        failing.setattr(Store, "delete", fail_with(SpoolUnwritable("read-only")))
        cache.forget_view("r")

    assert cache.view("r") is None
    cache.keep_view(view)
    assert cache.view("r") is not None


def test_folder_that_cannot_be_used_is_nobodys_trouble(tmp_path: Path) -> None:
    (tmp_path / "mirror").write_bytes(b"a file, where a folder should be")
    with closing(RepositoryCache.open(tmp_path / "mirror")) as cache:
        cache.keep_blob(A.sha, b"x")
        cache.forget_view("r")

        assert (cache.blob(A.sha), cache.blobs([A.sha]), cache.known_runs()) == (None, {}, [])


def test_checkpoints_are_written_and_read_whatever_becomes_of_the_copy(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save(state={"n": 1})
        workshop.worker.drain()
        damage(tmp_path / "mirror")
        with closing(RepositoryCache.open(tmp_path / "mirror")):
            repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": None})  # a conflict
            workshop.save(state={"n": 2})
            workshop.worker.drain()

            assert workshop.spool.pending() == []
            assert workshop.reader.resume("r").state == {"n": 2}


def test_record_that_makes_no_sense_is_no_record(cache: RepositoryCache) -> None:
    for key in ("head", "folder/r", "catalogue", "view/r"):
        cache._keep(key, b'["x"]')

    known = (cache.head(), cache.folder("r"), cache.catalogue(), cache.view("r"))
    assert known == (None, None, None, None)


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
