"""The journal in outage: torn, altered, deleted, closed, forked. Nothing acknowledged is lost in silence."""

import errno
import os
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.cache.store import Store
from holdfast.disk import StoreMoved
from holdfast.errors import DiskFailed, SpoolUnwritable
from holdfast.format.receipt import Receipt
from holdfast.queue import Spool, journal
from holdfast.queue.admission import Accepted
from holdfast.queue.journal import BLOCK_BYTES, CAPACITY_BYTES
from tests.fakes.spooling import FakeEntry, open_spool, run_python

# Two blocks in the journal.
LARGE = b"x" * 5000


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    """Return a spool whose next checkpoint goes into the journal. One that is not closed is as if killed."""
    spool = open_spool(tmp_path)
    spool.put(FakeEntry())
    return spool


def alter(tmp_path: Path, position: int, content: bytes = b"\xff") -> None:
    with (tmp_path / "journal").open("r+b") as file:
        file.seek(position)
        file.write(content)


def fail_to_sync(_: int) -> None:
    raise OSError(errno.EIO, os.strerror(errno.EIO))


def test_repeat_of_what_the_disk_did_not_confirm_is_not_acknowledged(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = FakeEntry(fingerprint="same")
    with monkeypatch.context() as patch:
        patch.setattr(journal, "_sync", fail_to_sync)
        with pytest.raises(DiskFailed):
            spool.put(entry)

    with pytest.raises(SpoolUnwritable, match="start Holdfast again"):
        spool.put(entry)

    spool.close()


def test_repeat_of_what_another_process_wrote_is_acknowledged_only_after_a_sync(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    entry = FakeEntry(fingerprint="same")
    with closing(open_spool(tmp_path)) as killed, monkeypatch.context() as patch:
        killed.put(FakeEntry())
        patch.setattr(killed._journal, "confirm", lambda: None)
        first = killed.put(entry)
        syncs: list[int] = []
        patch.setattr(journal, "_sync", syncs.append)

        assert spool.put(entry) == first
        assert len(syncs) == 1
    spool.close()


def test_new_checkpoint_that_was_written_before_its_put_failed_is_not_written_twice(
    spool: Spool, monkeypatch: pytest.MonkeyPatch
) -> None:
    add = spool._intake._store

    def add_and_fail(store: Store, accepted: list[Accepted]) -> None:
        monkeypatch.undo()
        add(store, accepted)
        spool._intake._absorb(store)
        raise StoreMoved("the database was replaced")

    monkeypatch.setattr(spool._intake, "_store", add_and_fail)
    depth = spool.status(0).depth

    (receipt,) = spool.put_all([FakeEntry(fingerprint=None)], are_new=True)

    assert isinstance(receipt, Receipt)
    assert spool.status(0).depth == depth + 1
    assert spool.receipt(receipt.checkpoint_id) == receipt
    spool.close()


def test_failed_sync_of_the_folder_is_not_tried_again(spool: Spool, monkeypatch: pytest.MonkeyPatch) -> None:
    with monkeypatch.context() as patch:
        patch.setattr(journal, "sync_folder", fail_to_sync)
        with pytest.raises(DiskFailed):
            spool.put(FakeEntry())

    with pytest.raises(SpoolUnwritable, match="start Holdfast again"):
        spool.put(FakeEntry())

    spool.close()


def test_what_comes_after_a_torn_write_near_the_end_of_the_journal_is_found(
    spool: Spool, tmp_path: Path
) -> None:
    spool.put(FakeEntry(content=bytes(CAPACITY_BYTES - 8 * BLOCK_BYTES)))
    spool.put(FakeEntry(content=LARGE))
    alter(tmp_path, spool._intake._unabsorbed.end - BLOCK_BYTES)

    next_one = open_spool(tmp_path)
    receipts = [next_one.put(FakeEntry(content=bytes(size))) for size in (10, 10 * BLOCK_BYTES)]

    with closing(open_spool(tmp_path)) as last:
        assert all(last.receipt(receipt.checkpoint_id) for receipt in receipts)
        assert last.status(0.0).depth == 4


def test_rest_of_a_torn_block_does_not_come_back_behind_what_was_written_over_it(
    spool: Spool, tmp_path: Path
) -> None:
    spool.put_all([FakeEntry(content=LARGE) for _ in range(3)])
    alter(tmp_path, 40)

    next_one = open_spool(tmp_path)
    next_one.put(FakeEntry())
    next_one.put_all([FakeEntry(), FakeEntry()])

    with closing(open_spool(tmp_path)) as last:
        assert [item.sequence for item in last.pending()] == [1, 2, 3, 4]


def test_process_that_goes_on_behind_one_that_was_killed_while_writing(spool: Spool, tmp_path: Path) -> None:
    with closing(open_spool(tmp_path)) as other:
        other.put(FakeEntry())
        other.put_all([FakeEntry(content=LARGE) for _ in range(2)])
        alter(tmp_path, 3 * BLOCK_BYTES)

        receipts = [spool.put(FakeEntry()) for _ in range(3)]

        assert [receipt.sequence_number for receipt in receipts] == [4, 5, 6]
        assert [item.sequence for item in other.pending()] == [1, 2, 3, 4, 5, 6]
    spool.close()


@pytest.mark.parametrize("is_alive", [True, False])
@pytest.mark.parametrize(
    ("position", "kept"),
    [
        (40, (5, 0, 1)),
        (BLOCK_BYTES, (5, 1, 0)),
        (2 * BLOCK_BYTES + 40, (5, 0, 1)),
        (3 * BLOCK_BYTES, (5, 1, 0)),
    ],
    ids=["first head", "first body", "middle head", "middle body"],
)
def test_damage_in_a_block_costs_one_entry_and_not_what_comes_after_it(
    spool: Spool, tmp_path: Path, position: int, kept: tuple[int, int, int], *, is_alive: bool
) -> None:
    spool.put_all([FakeEntry(content=LARGE) for _ in range(3)])
    receipts = [spool.put(FakeEntry()) for _ in range(2)]
    alter(tmp_path, position)

    with closing(spool if is_alive else open_spool(tmp_path)) as found:
        status = found.status(0.0)
        assert (status.depth, status.set_aside, status.lost) == kept
        assert all(found.receipt(receipt.checkpoint_id) for receipt in receipts)


def test_entries_of_a_journal_that_was_cut_off_are_counted_as_lost(spool: Spool, tmp_path: Path) -> None:
    for _ in range(3):
        spool.put(FakeEntry())
    os.truncate(tmp_path / "journal", BLOCK_BYTES)

    with closing(spool):
        assert (spool.status(0.0).depth, spool.status(0.0).lost) == (2, 2)
        spool.put(FakeEntry())
        assert spool.status(0.0).depth == 3


def test_what_is_in_a_deleted_journal_is_saved_and_the_new_one_is_shared(
    spool: Spool, tmp_path: Path
) -> None:
    spool.put(FakeEntry())
    with closing(open_spool(tmp_path)) as drainer:
        drainer.pending()
        spool.put(FakeEntry())
        (tmp_path / "journal").unlink()
        with closing(open_spool(tmp_path)) as other:
            other.put(FakeEntry())
            other.put(FakeEntry())

            numbers = [spool.put(FakeEntry()).sequence_number for _ in range(2)]

            assert len(drainer.pending()) == 7
            assert min(numbers) > 4
            assert drainer.status(0.0).lost == 0
    spool.close()


def test_damaged_database_is_not_read_while_someone_absorbs_the_journal_into_it(
    spool: Spool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool.put(FakeEntry())
    monkeypatch.setattr(journal, "LOCK_TIMEOUT_S", 0)

    with spool._journal.held(), pytest.raises(SpoolUnwritable, match="another process has held it"):
        spool._home._replace(spool._home._store, is_damaged=True)

    with closing(open_spool(tmp_path)) as found:
        assert (found.status(0.0).depth, found.status(0.0).salvaged) == (2, 1)
    spool.close()


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


def test_spool_that_was_closed_takes_nothing_and_writes_to_no_file_of_another(
    spool: Spool, tmp_path: Path
) -> None:
    spool.put(FakeEntry())
    spool.close()
    with (tmp_path / "other").open("wb") as other:
        with pytest.raises(SpoolUnwritable, match="closed"):
            spool.put(FakeEntry())
        spool.close()
        other.write(b"mine")

    assert (tmp_path / "other").read_bytes() == b"mine"


def test_same_checkpoint_twice_at_once_is_one(spool: Spool) -> None:
    entry = FakeEntry(fingerprint="same")

    one, other = spool.put_all([entry, entry])

    assert isinstance(one, Receipt)
    assert one == other
    assert spool.status(0.0).depth == 2
    spool.close()


_FORK = """
import os, signal, sys, threading
from pathlib import Path
from holdfast.cache.store import Store
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
spool.put(FakeEntry())
is_held, is_forked = threading.Event(), threading.Event()
def hold():
    with spool._journal.held(), spool._home._store._lock:
        is_held.set()
        is_forked.wait()
thread = threading.Thread(target=hold)
thread.start()
is_held.wait()
"""


def test_forked_process_does_not_wait_for_a_thread_that_it_does_not_have(tmp_path: Path) -> None:
    script = """
child = os.fork()
if not child:
    signal.alarm(20)
    spool.put(FakeEntry())
    spool.pending()
    os._exit(0)
is_forked.set()
thread.join()
assert os.waitpid(child, 0)[1] == 0
print(len(spool.pending()))
"""
    assert run_python(_FORK + script, str(tmp_path)).split() == ["2"]


def test_forked_process_does_not_hold_the_journal_for_a_parent_that_was_killed(tmp_path: Path) -> None:
    script = """
from holdfast.queue import journal
reader, writer = os.pipe()
middle = os.fork()
if not middle:
    spool._journal.held().__enter__()
    if not os.fork():
        os.write(writer, b"%d" % os.getpid())
        signal.alarm(20)
        signal.pause()
    os.kill(os.getpid(), signal.SIGKILL)
is_forked.set()
thread.join()
os.waitpid(middle, 0)
forked = int(os.read(reader, 20))
journal.LOCK_TIMEOUT_S = 1
try:
    print(spool.put(FakeEntry()).sequence_number)
finally:
    os.kill(forked, signal.SIGKILL)
"""
    assert run_python(_FORK + script, str(tmp_path)).split() == ["2"]
