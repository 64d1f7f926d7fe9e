"""From the queue to stamped checkpoints: numbers are settled, and durable before anything is sent."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.drain.stamping import stamp_items
from holdfast.errors import SpoolDamaged
from holdfast.format.checkpoint import stamp
from holdfast.format.index import Index, IndexEntry
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.queue import SqliteQueue
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

EMPTY = RunSnapshot(Index("r"))


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with open_workshop(tmp_path, MemoryGateway()) as workshop:
        yield workshop


def taken(*numbers: int) -> RunSnapshot:
    """Return a run whose numbers another machine has."""
    entries = tuple(
        IndexEntry(number, f"other-{number}", "manual", "", f"checkpoints/r/{number}", "", "")
        for number in numbers
    )
    return RunSnapshot(Index("r", entries=entries))


def test_number_that_is_free_stays(workshop: Workshop) -> None:
    receipt = workshop.save()

    (stamped,) = stamp_items(workshop.spool, EMPTY, workshop.spool.pending(), stamp)

    assert stamped.envelope.checkpoint_id == receipt.checkpoint_id
    assert stamped.item.sequence == stamped.envelope.sequence == 1


def test_new_number_is_in_item_receipt_and_checkpoint(workshop: Workshop) -> None:
    receipt = workshop.save()

    (stamped,) = stamp_items(workshop.spool, taken(1, 2), workshop.spool.pending(), stamp)

    known = workshop.spool.receipt(receipt.checkpoint_id)
    (pending,) = workshop.spool.pending()
    assert known is not None
    assert stamped.item.sequence == stamped.envelope.sequence == 3
    assert known.sequence_number == pending.sequence == 3


def test_next_checkpoint_comes_after_all_that_the_repository_has(workshop: Workshop) -> None:
    workshop.save()

    stamp_items(workshop.spool, taken(41), workshop.spool.pending(), stamp)

    assert workshop.save().sequence_number > 41


def test_damaged_item_is_left_out(workshop: Workshop, monkeypatch: pytest.MonkeyPatch) -> None:
    bad, good = workshop.save(), workshop.save()
    read = SqliteQueue.read

    def read_damaged(spool: SqliteQueue, item: QueueItem) -> bytes:
        if item.checkpoint_id == bad.checkpoint_id:
            raise SpoolDamaged("its digest does not match")
        return read(spool, item)

    monkeypatch.setattr(SqliteQueue, "read", read_damaged)

    stamped = stamp_items(workshop.spool, EMPTY, workshop.spool.pending(), stamp)

    assert [each.item.checkpoint_id for each in stamped] == [good.checkpoint_id]


def test_others_have_a_turn_before_each_checkpoint(workshop: Workshop) -> None:
    turns: list[None] = []
    for _ in range(3):
        workshop.save()

    stamp_items(workshop.spool, EMPTY, workshop.spool.pending(), stamp, breathe=lambda: turns.append(None))

    assert len(turns) == 3
