"""Room on the disk: what was freed counts, and an emptied queue gives it back."""

from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SpoolUnwritable
from holdfast.format.receipt import Delivery
from holdfast.queue import Queue, QueueLimits, room
from tests.fakes.spooling import FakeEntry, open_spool

MEGABYTE = 1024**2
RESERVE = 8 * MEGABYTE


class SmallDisk:
    """A disk that holds this much, of which the spool's files take their share."""

    def __init__(self, capacity_bytes: int) -> None:
        self._capacity_bytes = capacity_bytes

    def free_bytes(self, folder: Path) -> int:
        used = sum(path.stat().st_size for path in folder.rglob("*") if path.name.startswith("queue.db"))
        return max(0, self._capacity_bytes - used)


@pytest.fixture
def disk(monkeypatch: pytest.MonkeyPatch) -> SmallDisk:
    disk = SmallDisk(64 * MEGABYTE)
    monkeypatch.setattr(room, "free_disk_bytes", disk.free_bytes)
    return disk


def fill(spool: Queue) -> int:
    """Put until there is no room; return how many were taken."""
    for count in range(1000):
        try:
            spool.put(FakeEntry(content=bytes(MEGABYTE // 2)))
        except SpoolUnwritable:
            return count
    raise AssertionError("the disk is endless")


def acknowledge(spool: Queue, count: int) -> None:
    items = spool.pending()[:count]
    spool.acknowledge({item.checkpoint_id: Delivery(item.sequence, "p", "b", "c") for item in items})


@pytest.mark.slow
def test_what_left_the_queue_makes_room_though_the_file_keeps_its_size(
    tmp_path: Path, disk: SmallDisk
) -> None:
    with closing(open_spool(tmp_path, limits=QueueLimits(min_free_bytes=RESERVE))) as spool:
        taken = fill(spool)
        assert taken > 20
        with pytest.raises(SpoolUnwritable, match="must stay free"):
            spool.check_room()

        acknowledge(spool, taken // 2)

        assert disk.free_bytes(tmp_path) < RESERVE
        spool.check_room()
        assert fill(spool) > taken // 4


@pytest.mark.slow
def test_emptied_queue_gives_its_space_back_and_takes_as_much_again(tmp_path: Path, disk: SmallDisk) -> None:
    with closing(open_spool(tmp_path, limits=QueueLimits(min_free_bytes=RESERVE))) as spool:
        taken = fill(spool)

        acknowledge(spool, taken)

        assert disk.free_bytes(tmp_path) > 60 * MEGABYTE
        assert fill(spool) >= taken - 4
        assert all(spool.read(item) for item in spool.pending())


def test_small_queue_is_not_compacted_each_time(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with closing(open_spool(tmp_path)) as spool:
        monkeypatch.setattr(spool._folder, "compact", lambda: pytest.fail("nothing was worth it"))
        for _ in range(3):
            spool.put(FakeEntry(content=bytes(100_000)))
            acknowledge(spool, 1)


@pytest.mark.slow
def test_queue_that_cannot_be_compacted_is_used_as_it_is(
    tmp_path: Path, disk: SmallDisk, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse() -> None:
        raise SpoolUnwritable("no room to compact")

    with closing(open_spool(tmp_path, limits=QueueLimits(min_free_bytes=RESERVE))) as spool:
        taken = fill(spool)
        monkeypatch.setattr(spool._folder, "compact", refuse)

        acknowledge(spool, taken)

        assert spool.status(0.0).depth == 0
        assert fill(spool) > taken // 2
