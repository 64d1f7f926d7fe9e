import os
import sqlite3
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.cache.disk_cache import DATABASE, DiskCache
from holdfast.cache.local_copy import MAX_BLOB_BYTES, Folder, Head, ListedRun, RepositoryCache, RunList
from holdfast.cache.own_commits import MAX_FILES_OF_OUR_WRITES, Ends, OwnCommit, RunWrite
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index
from holdfast.format.run_snapshot import RemoteFile, RunSnapshot
from holdfast.settings import Settings
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import open_workshop

A, B = RemoteFile("a" * 40, 1), RemoteFile("b" * 40, 2)


@pytest.fixture
def cache(tmp_path: Path) -> Iterator[RepositoryCache]:
    cache = RepositoryCache(tmp_path)
    yield cache
    cache.close()


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    cache = RepositoryCache(tmp_path)
    cache.keep_blob(A.sha, b"x")
    cache.keep_head(Head("c", 'W/"1"'))
    cache.keep_folder("r", Folder("c", {"index.json": A}))
    cache.keep_run_list(RunList("c", {"r": ListedRun("t", A.sha, None)}))
    cache.close()

    again = RepositoryCache(tmp_path)

    assert again.blob(A.sha) == b"x"
    assert again.blobs([A.sha, B.sha]) == {A.sha: b"x"}
    assert again.head() == Head("c", 'W/"1"')
    assert again.folder("r") == Folder("c", {"index.json": A})
    assert again.run_list() == RunList("c", {"r": ListedRun("t", A.sha, None)})
    assert again.known_runs() == ["r"]
    again.close()


def test_nothing_is_known_at_first(cache: RepositoryCache) -> None:
    assert cache.head() is None
    assert cache.folder("r") is None
    assert cache.run_list() is None
    assert cache.snapshot("r") is None
    assert cache.known_runs() == []


OF_UNKNOWN_PARENT = OwnCommit("own", "")


def note_writes(
    cache: RepositoryCache,
    run_id: str,
    files: dict[str, RemoteFile | None],
    commit: OwnCommit = OF_UNKNOWN_PARENT,
    highest_number: int = 0,
) -> None:
    cache.note_commit(commit, {run_id: RunWrite(files, highest_number)})


def test_ends_follow_our_own_commits_of_any_run(cache: RepositoryCache) -> None:
    cache.keep_ends("r", Ends("c0", {"index.json": A, "latest.json": A}, 4, 9))
    cache.keep_ends("other", Ends("c1", {}, 0))

    note_writes(cache, "r", {"index.json": B}, OwnCommit("c1", "c0"), 5)
    note_writes(cache, "other", {"latest.json": B}, OwnCommit("c2", "c1"), 1)

    ends, other = cache.ends("r"), cache.ends("other")
    assert ends
    assert other
    assert (ends.commit_sha, ends.highest_number) == ("c2", 5)
    assert ends.files == {"index.json": B, "latest.json": A}
    assert (other.commit_sha, other.files, other.highest_number) == ("c2", {"latest.json": B}, 1)


@pytest.mark.parametrize("parent", ["theirs", ""], ids=["someone else wrote between", "nobody knows"])
def test_ends_are_as_of_no_known_commit_if_ours_was_made_on_another(
    cache: RepositoryCache, parent: str
) -> None:
    cache.keep_ends("r", Ends("c0", {"index.json": A}, 4))
    note_writes(cache, "r", {"index.json": B}, OwnCommit("c1", "c0"), 5)
    cache.keep_ends("other", Ends("c1", {}, 0))

    note_writes(cache, "other", {"index.json": B}, OwnCommit("c3", parent), 1)

    ends, other = cache.ends("r"), cache.ends("other")
    assert ends
    assert ends.commit_sha == "c1"
    assert other
    assert (other.commit_sha, other.highest_number) == ("", None)
    assert other.files == {"index.json": B}
    note_writes(cache, "other", {"index.json": A}, OwnCommit("c4", "c3"))
    assert (cache.ends("r") or ends).commit_sha == "c1"


def test_what_a_reader_keeps_late_is_not_taken_for_newer(cache: RepositoryCache) -> None:
    cache.keep_ends("r", Ends("c0", {"index.json": A}, 4))
    note_writes(cache, "r", {"index.json": B}, OwnCommit("c1", "c0"), 5)

    cache.keep_ends("r", Ends("c0", {"index.json": A}, 4))

    ends = cache.ends("r")
    assert ends
    assert ends.commit_sha == "c0"


def test_blob_that_would_push_out_everything_else_is_not_kept(cache: RepositoryCache) -> None:
    cache.keep_blob("large", b"x" * (MAX_BLOB_BYTES + 1))
    cache.keep_blobs({"larger": b"x" * (MAX_BLOB_BYTES + 1), A.sha: b"x"})

    assert cache.blobs(["large", "larger", A.sha]) == {A.sha: b"x"}


def test_our_writes_change_the_folder_and_name_no_commit(cache: RepositoryCache) -> None:
    cache.keep_folder("r", Folder("c", {"index.json": A, "cp_001_manual.json": A}))

    note_writes(cache, "r", {"index.json": B, "cp_001_manual.json": None, "latest.json": B})

    assert cache.folder("r") == Folder("", {"index.json": B, "latest.json": B})


def test_folder_of_many_writes_stays_small_and_keeps_index_and_latest(cache: RepositoryCache) -> None:
    note_writes(cache, "r", {"index.json": A, "latest.json": A})
    note_writes(cache, "r", {f"cp_{number:03d}_manual.json": A for number in range(500)})

    folder = cache.folder("r")

    assert folder
    assert len(folder.files) == MAX_FILES_OF_OUR_WRITES
    assert {"index.json", "latest.json", "cp_499_manual.json"} <= set(folder.files)


def test_index_that_others_wrote_is_not_kept_as_we_would_write_it(cache: RepositoryCache) -> None:
    cache.keep_snapshot(RunSnapshot(Index("r"), index_sha=A.sha))

    assert cache.blob(A.sha) is None


def test_index_that_we_wrote_is_kept(cache: RepositoryCache) -> None:
    content = Index("r").to_bytes()
    cache.keep_snapshot(RunSnapshot(Index("r"), index_sha=blob_sha(content)))

    snapshot = cache.snapshot("r")

    assert snapshot
    assert snapshot.index == Index("r")


@pytest.mark.parametrize(
    "error",
    [OSError("the disk is full"), LookupError("a row that was there has gone")],
    ids=["full", "fault"],
)
def test_disk_that_takes_nothing_is_nobodys_trouble(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    with monkeypatch.context() as failing:
        for method in ("get", "set", "keys", "delete", "transact"):
            failing.setattr(DiskCache, method, fail_with(error))

        cache.forget_snapshot("r")

        cache.keep_blob(A.sha, b"x")
        cache.keep_blobs({B.sha: b"x"})
        note_writes(cache, "r", {"index.json": A})
        assert cache.blob(A.sha) is None
        assert cache.blobs([A.sha]) == {}
        assert cache.known_runs() == []
        cache.close()


def test_copy_that_cannot_be_opened_for_any_reason_is_nobodys_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(DiskCache, "__init__", fail_with(RecursionError("damaged again and again")))
    with closing(RepositoryCache(tmp_path)) as cache:
        cache.keep_blob(A.sha, b"x")
        assert cache.blob(A.sha) is None


def test_reserve_of_the_disk_is_left_alone_with_some_room(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    disk, reserve_bytes = os.statvfs(tmp_path), 2**26
    blocks = (reserve_bytes + MAX_BLOB_BYTES) // disk.f_frsize
    nearly_full = os.statvfs_result((*disk[:3], blocks, blocks, *disk[5:]))
    monkeypatch.setattr("holdfast.cache.best_effort.os.statvfs", lambda _: nearly_full)
    with closing(RepositoryCache(tmp_path, min_free_bytes=reserve_bytes)) as cache:
        cache.keep_blob(A.sha, b"x")
        assert cache.blob(A.sha) is None
    with closing(RepositoryCache(tmp_path, min_free_bytes=reserve_bytes - 2**20)) as cache:
        cache.keep_blob(A.sha, b"x")
        assert cache.blob(A.sha) == b"x"


@pytest.mark.slow
def test_full_copy_takes_large_blobs_one_by_one_and_together_and_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cache.local_copy.MAX_BYTES", 32_000_000)
    with closing(RepositoryCache(tmp_path)) as cache:
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
    snapshot = RunSnapshot(Index("r"), index_sha=blob_sha(content))
    with closing(RepositoryCache(tmp_path)) as running:
        running.keep_snapshot(snapshot)
        damage(tmp_path)
        with closing(RepositoryCache(tmp_path)) as other:
            running.forget_snapshot("r")
            assert running.snapshot("r") is None

            running.keep_blob(A.sha, b"x")
            running.keep_snapshot(snapshot)

            assert running.snapshot("r") is not None
            assert other.blob(A.sha) == b"x"


def test_copy_that_is_damaged_while_it_is_open_is_begun_anew(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with closing(RepositoryCache(tmp_path)) as cache:
        cache.keep_blob(A.sha, b"x")
        with monkeypatch.context() as failing:
            failing.setattr(DiskCache, "get", fail_with(sqlite3.DatabaseError("a page of it is torn")))
            assert cache.blob(A.sha) is None

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
    snapshot = RunSnapshot(Index("r"), index_sha=blob_sha(Index("r").to_bytes()))
    cache.keep_snapshot(snapshot)
    with monkeypatch.context() as failing:
        failing.setattr(DiskCache, "delete", fail_with(OSError("read-only")))
        cache.forget_snapshot("r")

    assert cache.snapshot("r") is None
    cache.keep_snapshot(snapshot)
    assert cache.snapshot("r") is not None


@pytest.mark.parametrize("failing_methods", [("set",), ("set", "delete")])
def test_record_that_could_not_be_replaced_is_not_believed(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch, failing_methods: tuple[str, ...]
) -> None:
    cache.keep_head(Head("c", "1"))
    cache.keep_folder("r", Folder("c", {"index.json": A}))
    with monkeypatch.context() as failing:
        for method in failing_methods:
            failing.setattr(DiskCache, method, fail_with(OSError("the disk is full")))
        cache.keep_head(Head("d", "2"))
        note_writes(cache, "r", {"index.json": B})

    assert cache.head() is None
    assert cache.folder("r") is None
    note_writes(cache, "r", {"index.json": B})
    assert cache.folder("r") == Folder("", {"index.json": B})


def test_cache_that_takes_nothing_for_long_is_given_up(
    cache: RepositoryCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    cache.keep_folder("r0", Folder("c", {}))
    monkeypatch.setattr("holdfast.cache.local_copy.MAX_DISBELIEVED", 3)
    with monkeypatch.context() as failing:
        for method in ("set", "delete"):
            failing.setattr(DiskCache, method, fail_with(OSError("read-only")))
        for number in range(10):
            cache.keep_folder(f"r{number}", Folder("d", {}))

    assert len(cache._disbelieved) <= 4
    assert cache.folder("r0") is None


def test_folder_that_cannot_be_used_is_nobodys_trouble(tmp_path: Path) -> None:
    (tmp_path / "cache").write_bytes(b"a file, where a folder should be")
    with closing(RepositoryCache(tmp_path / "cache")) as cache:
        cache.keep_blob(A.sha, b"x")
        cache.forget_snapshot("r")

        assert (cache.blob(A.sha), cache.blobs([A.sha]), cache.known_runs()) == (None, {}, [])


def test_copy_in_an_earlier_format_is_removed_when_the_new_one_is_opened(tmp_path: Path) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})
    with closing(Assembly(settings)) as assembly:
        earlier = assembly.folder / "mirror"
        earlier.mkdir(parents=True)
        (earlier / DATABASE).write_bytes(b"an earlier format")

        assembly.cache.keep_blob(A.sha, b"x")

        assert not earlier.exists()
        assert (assembly.folder / "cache" / DATABASE).exists()


def test_checkpoints_are_written_and_read_whatever_becomes_of_the_copy(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save(state={"n": 1})
        workshop.worker.drain()
        damage(workshop.assembly.folder / "cache")
        with closing(RepositoryCache(workshop.assembly.folder / "cache")):
            repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": None})  # a conflict
            workshop.save(state={"n": 2})
            workshop.worker.drain()

            assert workshop.spool.pending() == []
            assert workshop.reader.resume("r").state == {"n": 2}


def test_record_that_makes_no_sense_is_no_record(cache: RepositoryCache) -> None:
    for key in ("head", "folder/r", "runs", "view/r"):
        cache._keep(key, b'["x"]')

    known = (cache.head(), cache.folder("r"), cache.run_list(), cache.snapshot("r"))
    assert known == (None, None, None, None)


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b""})
    return repository


def test_folder_that_an_earlier_version_kept_is_not_taken_for_an_empty_one(tmp_path: Path) -> None:
    cache = RepositoryCache(tmp_path)
    cache._keep_record("folder/r", ("c" * 40, {"index.json": ("a" * 40, 7)}))

    assert cache.folder("r") is None
    cache.close()
