"""The queue's folder: who may open it, who drains, and what it is taken for."""

import errno
import os
import sqlite3
from contextlib import closing
from itertools import count
from pathlib import Path

import pytest

from holdfast import disk
from holdfast.errors import SpoolBusy, SpoolUnwritable
from holdfast.locks import locked
from holdfast.queue import folder as queue_folder
from holdfast.queue.folder import DATABASE
from holdfast.queue.rows import ItemRow
from tests.fakes.spooling import FakeEntry, open_spool, run_python, start_python


def test_spool_of_an_unknown_format_is_left_alone(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    spool.put(FakeEntry())
    spool.close()
    with closing(sqlite3.connect(tmp_path / "spool" / "queue" / DATABASE)) as database:
        database.execute("alter table run add column more")
        database.execute("pragma user_version = 4")

    with pytest.raises(SpoolUnwritable, match="format 4, and this Holdfast knows 3"):
        open_spool(tmp_path / "spool")
    assert not list((tmp_path / "spool").glob("damaged-*"))


@pytest.mark.parametrize(("column", "value"), [("trigger", "full_moon"), ("priority", 9)])
def test_sound_row_that_is_not_understood_is_of_a_newer_format_and_no_damage(
    tmp_path: Path, column: str, value: object
) -> None:
    spool = open_spool(tmp_path)
    receipt = spool.put(FakeEntry())
    spool.close()
    with closing(sqlite3.connect(tmp_path / "queue" / DATABASE)) as database:
        database.execute(f"update item set {column} = ?", (value,))
        row = ItemRow._make(database.execute("select * from item").fetchone())
        database.execute("update item set seal = ?", (row.sealed().seal,))
        database.commit()

    with closing(open_spool(tmp_path)) as found:
        for _ in range(2):
            assert found.pending() == []
            assert found.newer_runs() == {receipt.run_id}
        assert found.status(0.0).depth == 1, "it is counted, and said to wait"
        assert found.receipt(receipt.checkpoint_id) == receipt, "nothing of it is lost"
    assert not list(tmp_path.glob("damaged-*"))


def test_folder_that_was_moved_keeps_what_it_has(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "old")
    before = [spool.put(FakeEntry()) for _ in range(3)]
    (tmp_path / "old").rename(tmp_path / "new")
    with pytest.raises(SpoolUnwritable):
        spool.put(FakeEntry())
    open_spool(tmp_path / "old").close()

    after = [spool.put(FakeEntry()) for _ in range(3)]
    spool.close()

    for folder, receipts in (("new", before), ("old", after)):
        with closing(open_spool(tmp_path / folder)) as found:
            kept = {item.checkpoint_id for item in found.pending()}
            assert kept == {receipt.checkpoint_id for receipt in receipts}


def test_new_checkpoint_that_was_stored_before_its_file_moved_is_not_stored_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool = open_spool(tmp_path)
    file = spool._folder._file
    check, checks = file._check_in_place, count(1)

    def check_amid_damage() -> None:
        if next(checks) == 2:  # the first is before the commit, the second after it
            # Another process finds damage, moves the file away and salvages it.
            with closing(open_spool(tmp_path)) as other:
                other._folder._replace(other._folder._file, is_damaged=True)
        check()

    spool.put(FakeEntry(run_id="build-2"))
    monkeypatch.setattr(file, "_check_in_place", check_amid_damage)
    (receipt,) = spool.put_all([FakeEntry()], are_new=True)

    assert spool._folder._file is not file
    assert [(item.run_id, item.sequence) for item in spool.pending()] == [("build-2", 1), ("build-1", 1)]
    assert receipt == spool.receipt(spool.pending()[1].checkpoint_id)
    spool.close()


PUT_AND_CLOSE = """
import sys
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
spool.put(FakeEntry(run_id="other"))
spool.close()
"""


@pytest.mark.processes
def test_opening_a_second_time_takes_no_lock_from_the_first(tmp_path: Path) -> None:
    """A process that closes a file loses its locks on it: others would delete the log under the first."""
    first = open_spool(tmp_path)
    first.put(FakeEntry())
    open_spool(tmp_path).close()
    log = tmp_path / "queue" / f"{DATABASE}-wal"
    inode = log.stat().st_ino

    run_python(PUT_AND_CLOSE, str(tmp_path))

    assert log.stat().st_ino == inode
    receipt = first.put(FakeEntry())
    with closing(open_spool(tmp_path)) as other:
        assert [item.sequence for item in other.pending()] == [1, 1, 2]
        assert other.receipt(receipt.checkpoint_id) == receipt
    first.close()


def test_opening_that_another_process_holds_is_an_error_and_not_an_endless_wait(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(queue_folder, "_OPEN_TIMEOUT_S", 0)

    with (
        locked(tmp_path / "open.lock", timeout_s=0, busy=str),
        pytest.raises(SpoolBusy, match="keeps this spool from being opened"),
    ):
        open_spool(tmp_path)

    open_spool(tmp_path).close()


HOLD_THE_DRAIN = """
import sys, time
from pathlib import Path
from tests.fakes.spooling import open_spool
with open_spool(Path(sys.argv[1])).drainer():
    print("draining", flush=True)
    time.sleep(60)
"""


@pytest.mark.processes
def test_lock_of_the_drainer_dies_with_its_process(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    process = start_python(HOLD_THE_DRAIN, str(tmp_path))
    assert process.stdout is not None
    assert process.stdout.readline() == "draining\n"

    with pytest.raises(SpoolBusy, match=f"process {process.pid} "), spool.drainer():
        pass
    spool.put(FakeEntry())
    process.kill()
    process.communicate()

    with spool.drainer():
        assert len(spool.pending()) == 1
    spool.close()


@pytest.mark.parametrize("amid", ["salvage", "opening"])
def test_save_of_a_signal_handler_amid_a_salvage_or_an_opening_is_refused_and_does_not_wait_for_itself(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, amid: str
) -> None:
    monkeypatch.setattr(queue_folder, "_OPEN_TIMEOUT_S", 0)
    spool = open_spool(tmp_path)
    spool.put(FakeEntry())
    make, refusals = queue_folder.make_database, []
    handle = (lambda: spool.put(FakeEntry())) if amid == "salvage" else (lambda: open_spool(tmp_path))

    def make_interrupted(folder: Path) -> Path:
        with pytest.raises(SpoolUnwritable, match="this thread is just opening the spool") as refusal:
            handle()
        refusals.append(refusal.value)
        return make(folder)

    monkeypatch.setattr(queue_folder, "make_database", make_interrupted)
    if amid == "salvage":
        spool._folder._replace(spool._folder._file, is_damaged=True)
    else:
        open_spool(tmp_path).close()

    assert refusals
    spool.put(FakeEntry())
    assert len(spool.pending()) == 2
    spool.close()


def test_every_opening_makes_the_disk_confirm_the_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_spool(tmp_path).close()
    sync, synced = os.fsync, list[int]()

    def sync_and_tell(descriptor: int) -> None:
        sync(descriptor)
        synced.append(os.fstat(descriptor).st_ino)

    monkeypatch.setattr(os, "fsync", sync_and_tell)
    open_spool(tmp_path).close()

    assert synced == [folder.stat().st_ino for folder in (tmp_path / "queue", tmp_path)]


def test_folder_that_could_not_be_opened_for_a_sync_may_be_tried_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    open_spool(tmp_path).close()
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", lambda _: pytest.fail("nothing is open"))
        patch.setattr(disk, "_opened", raise_no_descriptors)
        with pytest.raises(SpoolUnwritable, match="Too many open files"):
            open_spool(tmp_path)

    with closing(open_spool(tmp_path)) as spool:
        spool.put(FakeEntry())


def raise_no_descriptors(_: Path) -> None:
    raise OSError(errno.EMFILE, "Too many open files")
