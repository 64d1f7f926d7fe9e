from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from holdfast.cache.database import DATABASE
from holdfast.cache.mirror import (
    MAX_BLOB_BYTES,
    MAX_FILES_OF_OUR_WRITES,
    Catalogue,
    Folder,
    Head,
    Mirror,
    RemoteFile,
    Shelf,
)
from holdfast.cache.mirroring import MirroringGateway
from holdfast.cache.store import Store
from holdfast.disk import DatabaseDamaged
from holdfast.errors import SpoolUnwritable, Unavailable
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index
from holdfast.format.paths import Layout
from holdfast.format.run_view import RunView
from holdfast.github.calls import CommitFiles, DeleteFile, WriteFile
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import BRANCH, open_workshop

A, B = RemoteFile("a" * 40, 1), RemoteFile("b" * 40, 2)


@pytest.fixture
def mirror(tmp_path: Path) -> Iterator[Mirror]:
    mirror = Mirror.open(tmp_path)
    yield mirror
    mirror.close()


def test_what_was_kept_is_there_after_a_restart(tmp_path: Path) -> None:
    mirror = Mirror.open(tmp_path)
    mirror.keep_blob(A.sha, b"x")
    mirror.keep_head(Head("c", 'W/"1"'))
    mirror.keep_folder("r", Folder("c", {"index.json": A}))
    mirror.keep_catalogue(Catalogue("c", {"r": Shelf("t", A.sha, None)}))
    mirror.close()

    again = Mirror.open(tmp_path)

    assert again.blob(A.sha) == b"x"
    assert again.blobs([A.sha, B.sha]) == {A.sha: b"x"}
    assert again.head() == Head("c", 'W/"1"')
    assert again.folder("r") == Folder("c", {"index.json": A})
    assert again.catalogue() == Catalogue("c", {"r": Shelf("t", A.sha, None)})
    assert again.known_runs() == ["r"]
    again.close()


def test_nothing_is_known_at_first(mirror: Mirror) -> None:
    assert mirror.head() is None
    assert mirror.folder("r") is None
    assert mirror.catalogue() is None
    assert mirror.view("r") is None
    assert mirror.known_runs() == []


def test_blob_that_would_push_out_everything_else_is_not_kept(mirror: Mirror) -> None:
    mirror.keep_blob("large", b"x" * (MAX_BLOB_BYTES + 1))
    mirror.keep_blobs({"larger": b"x" * (MAX_BLOB_BYTES + 1), A.sha: b"x"})

    assert mirror.blobs(["large", "larger", A.sha]) == {A.sha: b"x"}


def test_our_writes_change_the_folder_and_name_no_commit(mirror: Mirror) -> None:
    mirror.keep_folder("r", Folder("c", {"index.json": A, "cp_001_manual.json": A}))

    mirror.note_writes("r", {"index.json": B, "cp_001_manual.json": None, "latest.json": B})

    assert mirror.folder("r") == Folder("", {"index.json": B, "latest.json": B})


def test_folder_of_many_writes_stays_small_and_keeps_index_and_latest(mirror: Mirror) -> None:
    mirror.note_writes("r", {"index.json": A, "latest.json": A})
    mirror.note_writes("r", {f"cp_{number:03d}_manual.json": A for number in range(500)})

    folder = mirror.folder("r")

    assert folder
    assert len(folder.files) == MAX_FILES_OF_OUR_WRITES
    assert {"index.json", "latest.json", "cp_499_manual.json"} <= set(folder.files)


def test_index_that_others_wrote_is_not_kept_as_we_would_write_it(mirror: Mirror) -> None:
    mirror.keep_view(RunView(Index("r"), index_sha=A.sha))

    assert mirror.blob(A.sha) is None


def test_index_that_we_wrote_is_kept(mirror: Mirror) -> None:
    content = Index("r").to_bytes()
    mirror.keep_view(RunView(Index("r"), index_sha=blob_sha(content)))

    view = mirror.view("r")

    assert view
    assert view.index == Index("r")


def test_disk_that_takes_nothing_is_nobodys_trouble(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> Any:
        raise SpoolUnwritable("the disk is full")

    for method in ("get", "set", "get_many", "keys", "delete"):
        monkeypatch.setattr(Store, method, refuse)

    mirror.forget_view("r")

    mirror.keep_blob(A.sha, b"x")
    mirror.note_writes("r", {"index.json": A})
    assert mirror.blob(A.sha) is None
    assert mirror.blobs([A.sha]) == {}
    assert mirror.known_runs() == []


def test_fault_of_the_store_itself_is_nobodys_trouble_either(
    mirror: Mirror, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as failing:
        for method in ("get", "set", "get_many", "keys", "delete", "transact", "close"):
            failing.setattr(Store, method, fail_with(LookupError("a row that was there has gone")))
        mirror.keep_blob(A.sha, b"x")
        mirror.keep_blobs({B.sha: b"x"})
        mirror.forget_view("r")
        assert (mirror.blob(A.sha), mirror.blobs([A.sha]), mirror.known_runs()) == (None, {}, [])
        mirror.close()


def test_copy_that_cannot_be_opened_for_any_reason_is_nobodys_trouble(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(
        "holdfast.cache.mirror.open_store", fail_with(RecursionError("damaged again and again"))
    )
    with closing(Mirror.open(tmp_path)) as mirror:
        mirror.keep_blob(A.sha, b"x")
        assert mirror.blob(A.sha) is None


def test_full_copy_takes_large_blobs_one_by_one_and_together_and_stays_full(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("holdfast.cache.mirror.MAX_BYTES", 32_000_000)
    with closing(Mirror.open(tmp_path)) as mirror:
        singly = [f"{number:040d}" for number in range(12)]
        for sha in singly:
            mirror.keep_blob(sha, bytes(4_000_000))
            assert mirror.blob(sha) == bytes(4_000_000)
        assert len(mirror.blobs(singly)) == 7

        together = [f"{number:040d}" for number in range(100, 110)]
        mirror.keep_blobs(dict.fromkeys(together, bytes(1_200_000)))

        assert set(mirror.blobs(together)) == set(together)
        assert len(mirror.blobs(singly)) == 4
        assert (tmp_path / DATABASE).stat().st_size <= 32_000_000


def damage(folder: Path) -> None:
    """Overwrite the database, as a failing disk might."""
    for path in folder.iterdir():
        path.write_bytes(b"\xff" * 8192)


def test_copy_that_another_process_has_begun_anew_is_followed(tmp_path: Path) -> None:
    content = Index("r").to_bytes()
    view = RunView(Index("r"), index_sha=blob_sha(content))
    with closing(Mirror.open(tmp_path)) as running:
        running.keep_view(view)
        damage(tmp_path)
        with closing(Mirror.open(tmp_path)) as other:
            running.forget_view("r")
            assert running.view("r") is None

            running.keep_blob(A.sha, b"x")
            running.keep_view(view)

            assert running.view("r") is not None
            assert other.blob(A.sha) == b"x"


def test_copy_that_is_damaged_while_it_is_open_is_begun_anew(tmp_path: Path) -> None:
    with closing(Mirror.open(tmp_path)) as mirror:
        mirror.keep_blob(A.sha, b"x")
        mirror._attempt(fail_with(DatabaseDamaged("a page of it is torn")))

        assert mirror.blob(A.sha) is None
        mirror.keep_blob(B.sha, b"y")
        assert mirror.blob(B.sha) == b"y"


def fail_with(error: Exception) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_view_that_cannot_be_deleted_is_not_believed(mirror: Mirror, monkeypatch: pytest.MonkeyPatch) -> None:
    view = RunView(Index("r"), index_sha=blob_sha(Index("r").to_bytes()))
    mirror.keep_view(view)
    with monkeypatch.context() as failing:
        failing.setattr(Store, "delete", fail_with(SpoolUnwritable("read-only")))
        mirror.forget_view("r")

    assert mirror.view("r") is None
    mirror.keep_view(view)
    assert mirror.view("r") is not None


def test_folder_that_cannot_be_used_is_nobodys_trouble(tmp_path: Path) -> None:
    (tmp_path / "mirror").write_bytes(b"a file, where a folder should be")
    with closing(Mirror.open(tmp_path / "mirror")) as mirror:
        mirror.keep_blob(A.sha, b"x")
        mirror.forget_view("r")

        assert (mirror.blob(A.sha), mirror.blobs([A.sha]), mirror.known_runs()) == (None, {}, [])


def test_checkpoints_are_written_and_read_whatever_becomes_of_the_copy(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save(state={"n": 1})
        workshop.worker.drain()
        damage(tmp_path / "mirror")
        with closing(Mirror.open(tmp_path / "mirror")):
            repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": None})  # a conflict
            workshop.save(state={"n": 2})
            workshop.worker.drain()

            assert workshop.spool.pending() == []
            assert workshop.reader.resume("r").state == {"n": 2}


def test_record_that_makes_no_sense_is_no_record(mirror: Mirror) -> None:
    for key in ("head", "folder/r", "catalogue", "view/r"):
        mirror._keep(key, b'["x"]')

    known = (mirror.head(), mirror.folder("r"), mirror.catalogue(), mirror.view("r"))
    assert known == (None, None, None, None)


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b""})
    return repository


def test_what_github_has_taken_is_kept(mirror: Mirror, repository: MemoryGateway) -> None:
    gateway = MirroringGateway(repository, mirror, Layout())
    write = WriteFile("checkpoints/r/batch_1_2.json", b"1", "m", "main")
    gateway.perform(write)
    head = repository.branches["main"]
    additions = {"checkpoints/r/latest.json": b"2", "checkpoints/r/parts/p.json": b"3", "README.md": b"4"}
    gateway.perform(CommitFiles("main", head, "m", "", additions))

    folder = mirror.folder("r")

    assert folder
    assert set(folder.files) == {"batch_1_2.json", "latest.json"}
    assert mirror.blob(blob_sha(b"1")) == b"1"
    assert mirror.blob(blob_sha(b"2")) == b"2"
    assert mirror.part("checkpoints/r/parts/p.json") == b"3"
    assert mirror.known_runs() == ["r"]
    gateway.perform(DeleteFile(write.path, "m", "main", blob_sha(b"1")))
    assert set((mirror.folder("r") or folder).files) == {"latest.json"}


def test_what_github_has_not_taken_is_not_kept(mirror: Mirror, repository: MemoryGateway) -> None:
    repository.fail_next(WriteFile, Unavailable("x", "no answer"), is_applied=True)

    with pytest.raises(Unavailable):
        MirroringGateway(repository, mirror, Layout()).perform(
            WriteFile("checkpoints/r/latest.json", b"1", "m", "main")
        )

    assert mirror.folder("r") is None
