"""From the queue to stamped checkpoints: numbers are settled, and durable before anything is sent."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from uuid import UUID

import pytest

from holdfast.drain.stamping import stamp_items, with_stored_latest
from holdfast.drain.write_plan import WritePlan, plan_write
from holdfast.errors import Missing, SpoolDamaged
from holdfast.format.checkpoint import Envelope, draft_from_mapping, stamp
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import Layout
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.queue import SqliteQueue
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

NOW = "2026-11-16T10:00:00.000Z"
LAYOUT = Layout()
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


class StoredBatch:
    """A run whose two checkpoints lie in a batch, while `latest.json` still is to be written."""

    def __init__(self, *, is_known: bool = True) -> None:
        empty, self.stored = RunSnapshot(Index("r")), [made(number, "stored") for number in (1, 2)]
        plan = plan_write(empty, self.stored, is_batch=True, layout=LAYOUT, now=NOW)
        (self.file,) = plan.files
        snapshot = plan.snapshot_after(empty, LAYOUT)
        self.snapshot = replace(
            snapshot, latest_sha=None, latest_sequence=0, blobs=snapshot.blobs if is_known else {}
        )
        self.asked: list[str] = []

    def read(self, sha: str) -> bytes:
        self.asked.append(sha)
        if sha != self.file.blob_sha:
            raise Missing(sha, "there is no such blob")
        return self.file.content

    def plan(self, *envelopes: Envelope) -> WritePlan:
        plan = plan_write(self.snapshot, envelopes, is_batch=True, layout=LAYOUT, now=NOW)
        return with_stored_latest(plan, self.snapshot, self.read, LAYOUT)


def made(number: int, text: str) -> Envelope:
    checkpoint = {"run_id": "r", "trigger": "manual", "state": {"text": text}}
    return stamp(draft_from_mapping(checkpoint, now=NOW, new_id=lambda: str(UUID(int=number))).body(number))


def test_latest_is_a_copy_of_what_is_stored_and_its_file_is_read_once() -> None:
    batch = StoredBatch()

    plan = batch.plan(made(1, "again"), made(2, "again"))

    assert plan.latest
    assert (plan.latest.content, plan.latest.blob_sha) == (batch.stored[1].content, batch.stored[1].blob_sha)
    assert batch.asked == [batch.file.blob_sha]


@pytest.mark.parametrize("numbers", [(1,), (1, 3), (3,)])
def test_nothing_is_read_where_latest_is_no_copy_of_what_was_stored_before(numbers: tuple[int, ...]) -> None:
    batch = StoredBatch()

    plan = batch.plan(*(made(number, "again") for number in numbers))

    assert not batch.asked
    assert not plan.latest or plan.latest.content == made(3, "again").content


def test_latest_is_what_the_queue_has_where_what_is_stored_cannot_be_had() -> None:
    batch = StoredBatch(is_known=False)

    plan = batch.plan(made(2, "again"))

    assert plan.latest
    assert plan.latest.content == made(2, "again").content
