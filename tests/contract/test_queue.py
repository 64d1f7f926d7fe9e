"""What every queue keeps, whatever it is made of. `open_queue` opens the same one again at each call."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.errors import (
    CheckpointChanged,
    InvalidCheckpoint,
    SpoolBusy,
    SpoolFull,
    SpoolUnwritable,
    UnknownRun,
)
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue import Queue, QueueLimits, SqliteQueue
from holdfast.queue.contract import LONGEST_BACKOFF_S
from holdfast.queue.fallback import FallbackQueue
from holdfast.queue.postgres import Database, PostgresQueue
from holdfast.sharding.homes import rank
from holdfast.sharding.sharded_queue import ShardedQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.postgres import postgres_url
from tests.fakes.spooling import FakeEntry, open_spool

OpenQueue = Callable[..., Queue]
UNLIMITED = QueueLimits(min_free_bytes=0)


def open_sqlite(folder: Path, limits: QueueLimits, clock: VirtualClock) -> Queue:
    return SqliteQueue.open(folder, limits=limits, clock=clock, layout=Layout())


def open_postgres(folder: Path, limits: QueueLimits, clock: VirtualClock) -> Queue:
    """Open the queue of the target that is named as the folder; its neighbours share the database."""
    database = Database(postgres_url(folder.parent))
    return PostgresQueue.open(
        database, folder.name, folder=folder, limits=limits, clock=clock, layout=Layout()
    )


def open_fallback(folder: Path, limits: QueueLimits, clock: VirtualClock) -> Queue:
    """Open what HOLDFAST_DATABASE_URL stands for: the shared queue, and the disk of a machine behind it."""
    local = f"local-{uuid4()}"
    queue = FallbackQueue(
        lambda: open_postgres(folder, limits, clock), open_spool(folder / local, clock=clock, limits=limits)
    )
    queue.open()
    return queue


class Shards(ShardedQueue):
    """Three shards that are closed together, as an assembly does it."""

    def __init__(self, open_one: OpenQueue, folder: Path, limits: QueueLimits, clock: VirtualClock) -> None:
        self._shards = {name: open_one(folder / name, limits, clock) for name in ("one", "two", "three")}
        super().__init__(
            lambda: list(self._shards.values()),
            lambda run_id: self._shards[rank(run_id, list(self._shards))[0]],
        )

    def close(self) -> None:
        for shard in self._shards.values():
            shard.close()


def open_shards(folder: Path, limits: QueueLimits, clock: VirtualClock) -> Queue:
    return Shards(open_sqlite, folder, limits, clock)


def open_shared_shards(folder: Path, limits: QueueLimits, clock: VirtualClock) -> Queue:
    return Shards(open_fallback, folder, limits, clock)


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(1000.0)


@pytest.fixture(
    params=[
        pytest.param(open_sqlite, id="sqlite"),
        pytest.param(open_postgres, id="postgres"),
        pytest.param(open_fallback, id="postgres with fallback"),
        pytest.param(open_shards, id="shards"),
        pytest.param(open_shared_shards, id="shards in postgres with fallback"),
    ]
)
def open_queue(request: pytest.FixtureRequest, tmp_path: Path, clock: VirtualClock) -> Iterator[OpenQueue]:
    """Return what opens the queue; each opening stands for a process of its own."""
    opened: list[Queue] = []

    def open_it(limits: QueueLimits = UNLIMITED) -> Queue:
        opened.append(request.param(tmp_path / "spool", limits, clock))
        return opened[-1]

    yield open_it
    for queue in opened:
        queue.close()


@pytest.fixture
def spool(open_queue: OpenQueue) -> Queue:
    return open_queue()


def delivery(sequence: int = 1) -> Delivery:
    path = f"checkpoints/build-1/cp_{sequence:03d}_manual.json"
    return Delivery(sequence, path, blob_sha="b10b", commit_sha="c0ffee")


def test_put_answers_with_a_receipt_and_keeps_the_bytes(spool: Queue) -> None:
    entry = FakeEntry(content=bytes(range(256)))

    receipt = spool.put(entry, persistence=Persistence.DELAYED)

    assert receipt.status == Progress.SPOOLED
    assert receipt.persistence == Persistence.DELAYED
    assert receipt.file_path == "checkpoints/build-1/cp_001_manual.json"
    assert spool.receipt(entry.checkpoint_id) == receipt
    (item,) = spool.pending()
    assert (item.checkpoint_id, item.run_id, item.sequence) == (entry.checkpoint_id, "build-1", 1)
    assert (item.trigger, item.priority, item.arrived_at) == (Trigger.MANUAL, Priority.MEDIUM, 1000.0)
    assert spool.read(item) == b"1:" + bytes(range(256))
    assert item.size_bytes == 258


def test_clock_that_tells_whole_seconds_is_as_good_as_any(spool: Queue, clock: VirtualClock) -> None:
    clock.time = 1234
    spool.put(FakeEntry())

    (item,) = spool.pending()

    assert item.arrived_at == 1234
    assert spool.read(item) == b"1:state"


def test_what_was_put_is_there_after_reopening(open_queue: OpenQueue) -> None:
    first = open_queue()
    receipt = first.put(FakeEntry())
    items = first.pending()
    first.close()

    second = open_queue()

    assert second.pending() == items
    assert second.receipt(receipt.checkpoint_id) == receipt


def test_writing_back_changes_nothing_that_can_be_read(open_queue: OpenQueue) -> None:
    spool = open_queue()
    spool.put(FakeEntry(content=b"first"))

    spool.write_back()

    (item,) = open_queue().pending()
    assert spool.read(item) == b"1:first"


WANTED = [Priority.MEDIUM, Priority.HIGH, Priority.CRITICAL, Priority.MEDIUM, Priority.CRITICAL]


def test_critical_goes_first_and_within_a_priority_the_order_of_arrival_holds(
    spool: Queue, clock: VirtualClock
) -> None:
    for number, priority in enumerate(WANTED):
        clock.time = 1000.0 + number
        spool.put(FakeEntry(run_id=f"run-{number}", priority=priority))

    assert [item.run_id for item in spool.pending()] == ["run-2", "run-4", "run-1", "run-0", "run-3"]


def test_clock_that_goes_backwards_changes_no_order_within_a_run(spool: Queue, clock: VirtualClock) -> None:
    for number, priority in enumerate(WANTED):
        clock.time = 1000.0 - number
        spool.put(FakeEntry(priority=priority))

    assert [item.sequence for item in spool.pending()] == [3, 5, 2, 1, 4]


def test_order_within_a_run_stays_beyond_ten_and_a_hundred(spool: Queue) -> None:
    spool.put_all([FakeEntry() for _ in range(120)])

    assert [item.sequence for item in spool.pending()] == list(range(1, 121))


def test_same_checkpoint_again_changes_nothing(spool: Queue, clock: VirtualClock) -> None:
    entry = FakeEntry(fingerprint="f1")
    first = spool.put(entry)
    clock.time += 60

    again = spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="f1", content=b"made anew"))

    assert again == first
    assert len(spool.pending()) == 1
    spool.acknowledge({entry.checkpoint_id: delivery()})
    assert spool.put(entry).status == Progress.VERIFIED
    assert spool.pending() == []


def test_same_id_with_other_content_is_refused(spool: Queue) -> None:
    entry = FakeEntry(fingerprint="f1")
    spool.put(entry)

    with pytest.raises(CheckpointChanged):
        spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="f2", content=b"other"))
    with pytest.raises(CheckpointChanged):
        spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="f1", run_id="other"))
    assert spool.known_sequence("build-1") == 1


def test_id_that_was_made_here_is_known_by_its_bytes(spool: Queue) -> None:
    entry = FakeEntry(content=b"same")
    first = spool.put(entry)

    again = spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="now given", content=b"same"))

    assert again == first
    with pytest.raises(CheckpointChanged):
        spool.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="now given", content=b"other"))


def test_twice_in_one_batch_is_stored_once(spool: Queue) -> None:
    entry = FakeEntry(fingerprint="f1")

    first, second, third = spool.put_all([entry, entry, FakeEntry()])

    assert first == second
    assert [item.sequence for item in spool.pending()] == [1, 2]
    assert third == spool.receipt(spool.pending()[1].checkpoint_id)


def test_numbers_go_on_after_the_highest_and_a_taken_one_gets_the_next(spool: Queue) -> None:
    wanted = [None, 5, None, 5, 3, 3, None]

    numbers = [spool.put(FakeEntry(sequence=number)).sequence_number for number in wanted]

    assert numbers == [1, 5, 6, 7, 3, 8, 9]
    assert spool.put(FakeEntry(run_id="other")).sequence_number == 1
    assert spool.known_sequence("build-1") == 9
    assert spool.known_sequence("unknown") == 0


def test_number_of_a_verified_checkpoint_stays_taken(spool: Queue) -> None:
    entry = FakeEntry()
    spool.put(entry)
    spool.acknowledge({entry.checkpoint_id: delivery(1)})
    spool.purge_receipts(older_than=10_000, keep=0)

    assert spool.put(FakeEntry(sequence=1)).sequence_number == 2


def test_sequences_with_gaps_throughout_stay_distinct(spool: Queue) -> None:
    entries = [FakeEntry(sequence=2 * number) for number in range(1, 701)]

    spool.put_all(entries)
    late = [spool.put(FakeEntry(sequence=2 * number)).sequence_number for number in (1, 350, 700)]

    assert late == [1401, 1402, 1403]


def test_body_is_made_once_and_under_the_final_number(spool: Queue, open_queue: OpenQueue) -> None:
    entries = [FakeEntry() for _ in range(3)]
    for entry in entries:
        spool.put(entry)
    assert [entry.bodies_made for entry in entries] == [1, 1, 1]

    open_queue().put(FakeEntry())
    raced = FakeEntry()
    receipt = spool.put(raced)

    assert receipt.sequence_number == 5
    assert spool.read(spool.pending()[-1]) == b"5:state"


def test_learned_sequence_moves_the_next_number_and_never_back(spool: Queue) -> None:
    spool.put(FakeEntry())
    spool.learn_sequence("build-1", 40)
    spool.learn_sequence("build-1", 7)

    assert spool.known_sequence("build-1") == 40
    assert spool.put(FakeEntry()).sequence_number == 41


def test_renumbered_item_keeps_its_place_and_its_receipt_follows(spool: Queue) -> None:
    spool.put_all([FakeEntry(), FakeEntry()])
    first, second = spool.pending()

    moved = spool.renumber(first, 9, b"9:longer than before")

    assert spool.pending() == [moved, second]
    assert (moved.sequence, moved.size_bytes) == (9, 20)
    assert spool.read(moved) == spool.read(first) == b"9:longer than before"
    receipt = spool.receipt(first.checkpoint_id)
    assert receipt is not None
    assert (receipt.sequence_number, receipt.file_path) == (9, "checkpoints/build-1/cp_009_manual.json")
    assert spool.put(FakeEntry()).sequence_number == 10
    assert spool.status(0.0).bytes == 20 + 7 + 8


@pytest.mark.parametrize(
    "lose",
    [
        lambda queue, item: queue.renumber(item, 9, b"9:"),
        lambda queue, item: queue.discard([item.checkpoint_id]),
        lambda queue, item: queue.hand_over([item.checkpoint_id]),
    ],
    ids=["renumber", "discard", "hand_over"],
)
def test_number_that_was_lost_is_given_to_nobody_who_asks_for_it(
    spool: Queue, lose: Callable[[Queue, QueueItem], object]
) -> None:
    spool.put_all([FakeEntry(sequence=number) for number in (4, 6, 7)])
    lose(spool, spool.pending()[1])

    given = spool.put(FakeEntry(sequence=6)).sequence_number

    assert given == max(item.sequence for item in spool.pending()) > 7


def test_item_that_has_left_cannot_be_renumbered(spool: Queue) -> None:
    spool.put(FakeEntry())
    (item,) = spool.pending()
    spool.acknowledge({item.checkpoint_id: delivery()})

    with pytest.raises(UnknownRun):
        spool.renumber(item, 9, b"9:")
    with pytest.raises(UnknownRun):
        spool.read(item)
    assert spool.pending() == []


def test_checkpoint_leaves_only_when_it_is_acknowledged(spool: Queue, clock: VirtualClock) -> None:
    spool.put_all([FakeEntry(), FakeEntry()])
    first, second = spool.pending()

    spool.mark_committed({first.checkpoint_id: delivery(1)})
    committed = spool.receipt(first.checkpoint_id)
    assert committed is not None
    assert (committed.status, committed.commit_sha) == (Progress.COMMITTED, "c0ffee")
    assert spool.pending() == [first, second]

    spool.acknowledge({first.checkpoint_id: delivery(4), "unknown": delivery()})
    verified = spool.receipt(first.checkpoint_id)
    assert verified is not None
    assert (verified.status, verified.sequence_number, verified.blob_sha) == (Progress.VERIFIED, 4, "b10b")
    assert verified.file_path == "checkpoints/build-1/cp_004_manual.json"
    assert spool.pending() == [second]
    assert spool.known_sequence("build-1") == 4

    spool.acknowledge({first.checkpoint_id: delivery(4)})
    spool.mark_committed({first.checkpoint_id: delivery(4)})
    assert spool.receipt(first.checkpoint_id) == verified
    assert spool.status(clock.now()).depth == 1


def test_released_item_does_not_wait_longer_where_the_clock_was_set_back(spool: Queue) -> None:
    spool.put(FakeEntry())
    (item,) = spool.pending()
    spool.release([item], "no answer", not_before=400 * 86_400.0)

    assert spool.pending(1000.0) == [item]
    assert spool.pending(400 * 86_400.0 - LONGEST_BACKOFF_S) == []


def test_released_item_waits_until_its_time_and_counts_attempts(spool: Queue, clock: VirtualClock) -> None:
    spool.put_all([FakeEntry(), FakeEntry()])
    first, second = spool.pending()

    spool.release([first], "no answer", not_before=1060.0)
    spool.release([first], "no answer at all", not_before=1090.0)

    assert spool.pending() == [first, second]
    assert spool.pending(now=1089.0) == [second]
    assert spool.pending(now=1090.0) == [first, second]
    backoff = spool.backoff(first.checkpoint_id)
    assert backoff is not None
    assert (backoff.attempts, backoff.reason) == (2, "no answer at all")
    receipt = spool.receipt(first.checkpoint_id)
    assert receipt is not None
    assert (receipt.status, receipt.reason) == (Progress.SPOOLED, "no answer at all")
    spool.acknowledge({first.checkpoint_id: delivery()})
    assert spool.backoff(first.checkpoint_id) is None


def test_set_aside_item_keeps_its_body_and_can_be_restored(spool: Queue, clock: VirtualClock) -> None:
    spool.put_all([FakeEntry(), FakeEntry()])
    first, second = spool.pending()

    spool.set_aside(first, "a secret in it")
    spool.set_aside(first, "another reason, too late")

    assert spool.pending() == [second]
    (aside,) = spool.set_aside_entries()
    assert (aside.item, aside.reason) == (first, "a secret in it")
    receipt = spool.receipt(first.checkpoint_id)
    assert receipt is not None
    assert (receipt.status, receipt.reason) == (Progress.REFUSED, "a secret in it")
    assert spool.read(first) == b"1:state"
    status = spool.status(clock.now())
    assert (status.depth, status.set_aside, status.bytes, status.set_aside_bytes) == (1, 1, 7, 7)

    assert spool.restore(first.checkpoint_id).status == Progress.SPOOLED
    assert spool.pending() == [first, second]
    assert spool.read(first) == b"1:state"
    assert spool.status(clock.now()).set_aside == 0
    assert spool.restore(first.checkpoint_id).status == Progress.SPOOLED
    with pytest.raises(UnknownRun):
        spool.restore("unknown")


def test_set_aside_checkpoint_that_is_found_verified_leaves_too(spool: Queue, clock: VirtualClock) -> None:
    spool.put(FakeEntry())
    (item,) = spool.pending()
    spool.set_aside(item, "unclear")

    spool.acknowledge({item.checkpoint_id: delivery()})

    status = spool.status(clock.now())
    assert (status.depth, status.set_aside, status.set_aside_bytes) == (0, 0, 0)
    assert spool.set_aside_entries() == []


def test_nothing_is_known_of_strangers(spool: Queue) -> None:
    spool.put(FakeEntry())
    (item,) = spool.pending()
    assert spool.receipt("unknown") is None
    spool.acknowledge({item.checkpoint_id: delivery()})
    spool.purge_receipts(older_than=10_000, keep=0)

    for attempt in (lambda: spool.read(item), lambda: spool.set_aside(item, "why")):
        with pytest.raises(UnknownRun):
            attempt()


def test_status_counts_and_ages(spool: Queue, clock: VirtualClock) -> None:
    assert spool.status(clock.now()).oldest_age_s == 0.0
    spool.put(FakeEntry())
    clock.time += 50
    spool.put(FakeEntry(priority=Priority.CRITICAL))
    clock.time += 10

    status = spool.status(clock.now())

    assert (status.depth, status.bytes, status.oldest_age_s) == (2, 14, 60.0)
    assert (status.salvaged, status.lost) == (0, 0)


def test_accepted_is_verified_plus_spooled_plus_set_aside(spool: Queue, clock: VirtualClock) -> None:
    entries = [FakeEntry() for _ in range(30)]
    spool.put_all(entries)
    items = spool.pending()
    spool.acknowledge({item.checkpoint_id: delivery(item.sequence) for item in items[:11]})
    for item in items[11:16]:
        spool.set_aside(item, "refused")
    spool.release(items[16:20], "later", not_before=2000.0)

    receipts = [spool.receipt(entry.checkpoint_id) for entry in entries]
    verified = sum(receipt is not None and receipt.status == Progress.VERIFIED for receipt in receipts)
    status = spool.status(clock.now())

    assert verified + status.depth + status.set_aside == 30
    assert status.depth == len(spool.pending()) == 14


def test_full_spool_says_its_numbers_and_takes_more_once_it_has_drained(open_queue: OpenQueue) -> None:
    spool = open_queue(QueueLimits(max_items=2, min_free_bytes=0))
    spool.put_all([FakeEntry(), FakeEntry()])
    first, second = spool.pending()

    with pytest.raises(SpoolFull, match=r"2 checkpoints in 14 bytes.*at most 2 in"):
        spool.put(FakeEntry())
    spool.set_aside(first, "still takes room")
    with pytest.raises(SpoolFull):
        spool.put(FakeEntry())
    spool.acknowledge({second.checkpoint_id: delivery()})

    assert spool.put(FakeEntry()).sequence_number == 3


def test_limit_in_bytes_refuses_only_what_does_not_fit(open_queue: OpenQueue) -> None:
    spool = open_queue(QueueLimits(max_bytes=1000, min_free_bytes=0))

    outcomes = spool.put_all([FakeEntry(content=bytes(size)) for size in (600, 600, 300)])

    assert [isinstance(outcome, SpoolFull) for outcome in outcomes] == [False, True, False]
    assert spool.status(0.0).bytes == 904


def test_disk_that_is_nearly_full_is_refused_before_it_is_full(open_queue: OpenQueue) -> None:
    spool = open_queue(QueueLimits(min_free_bytes=2**62))

    with pytest.raises(SpoolUnwritable, match="must stay free; free some space"):
        spool.put(FakeEntry())
    assert spool.pending() == []


def test_wrong_one_does_not_hinder_the_others(spool: Queue) -> None:
    class Broken(FakeEntry):
        def body(self, sequence: int) -> bytes:
            raise InvalidCheckpoint("state", "cannot be encoded")

    outcomes = spool.put_all([FakeEntry(), Broken(), FakeEntry(run_id="a|b"), FakeEntry()])

    assert [isinstance(outcome, InvalidCheckpoint) for outcome in outcomes] == [False, True, True, False]
    assert len(spool.pending()) == 2
    with pytest.raises(InvalidCheckpoint, match="cannot be encoded"):
        spool.put(Broken())
    with pytest.raises(InvalidCheckpoint, match="empty"):
        spool.put(FakeEntry(checkpoint_id=""))


def test_notes_are_kept_until_forgotten(open_queue: OpenQueue) -> None:
    spool = open_queue()
    spool.note("intent/a", b"1")
    spool.note("intent/b", b"2")
    spool.note("intent/a", b"3")
    spool.close()

    again = open_queue()
    assert again.notes() == {"intent/a": b"3", "intent/b": b"2"}
    again.forget("intent/a", "unknown")
    assert again.notes() == {"intent/b": b"2"}


def test_purge_drops_old_receipts_of_verified_checkpoints_alone(spool: Queue, clock: VirtualClock) -> None:
    entries = [FakeEntry(fingerprint="f") for _ in range(6)]
    spool.put_all(entries)
    for item in spool.pending()[:4]:
        clock.time += 10
        spool.acknowledge({item.checkpoint_id: delivery(item.sequence)})
    clock.time += 1000

    assert spool.purge_receipts(older_than=1035.0, keep=3) == 1
    assert spool.purge_receipts(older_than=1035.0, keep=0) == 2

    known = [spool.receipt(entry.checkpoint_id) is not None for entry in entries]
    assert known == [False, False, False, True, True, True]


def test_what_is_discarded_leaves_nothing_but_its_number(spool: Queue) -> None:
    entries = [FakeEntry() for _ in range(4)]
    spool.put_all(entries)
    first, second, third, fourth = spool.pending()
    spool.set_aside(second, "refused")
    spool.acknowledge({third.checkpoint_id: delivery(third.sequence)})

    count = spool.discard([first.checkpoint_id, second.checkpoint_id, third.checkpoint_id, "unknown"])

    assert count == 2
    assert spool.pending() == [fourth]
    assert spool.set_aside_entries() == []
    assert spool.receipt(first.checkpoint_id) is None
    assert spool.receipt(third.checkpoint_id) is not None
    status = spool.status(0)
    assert (status.depth, status.bytes, status.set_aside, status.set_aside_bytes) == (
        1,
        fourth.size_bytes,
        0,
        0,
    )
    assert spool.discard([]) == 0
    spool.discard([fourth.checkpoint_id])
    assert spool.put(FakeEntry()).sequence_number == 5


def test_receipts_of_one_run_are_forgotten_and_its_ids_may_come_again(spool: Queue) -> None:
    verified, waiting = FakeEntry(fingerprint="f1"), FakeEntry()
    other = FakeEntry(run_id="other")
    spool.put_all([verified, waiting, other])
    spool.acknowledge({verified.checkpoint_id: delivery(), other.checkpoint_id: delivery()})

    assert spool.forget_receipts("build-1") == 1

    assert spool.receipt(verified.checkpoint_id) is None
    assert [spool.receipt(each.checkpoint_id) is None for each in (waiting, other)] == [False, False]
    again = spool.put(verified)
    assert (again.status, again.sequence_number) == (Progress.SPOOLED, 3)
    assert spool.status(0).depth == 2
    assert spool.forget_receipts("build-1") == 0


def test_second_drainer_is_told_who_drains(spool: Queue, open_queue: OpenQueue) -> None:
    other = open_queue()
    with spool.drainer(), pytest.raises(SpoolBusy, match=r"process \d+ is draining"), other.drainer():
        pass
    with other.drainer():
        pass


def test_two_that_put_by_turns_see_the_numbers_of_each_other(open_queue: OpenQueue) -> None:
    one, other = open_queue(), open_queue()

    numbers = [queue.put(FakeEntry()).sequence_number for _ in range(4) for queue in (one, other)]
    one.pending()
    numbers += [queue.put(FakeEntry()).sequence_number for _ in range(3) for queue in (other, one)]

    assert numbers == list(range(1, 15))
    assert [item.sequence for item in other.pending()] == numbers


def test_threads_that_put_at_once_get_distinct_numbers(open_queue: OpenQueue) -> None:
    queues = [open_queue(), open_queue()]
    start = threading.Barrier(8)

    def put(queue: Queue) -> None:
        start.wait()
        for number in range(10):
            queue.put(FakeEntry(sequence=None if number % 2 else number + 1))

    threads = [threading.Thread(target=put, args=(queues[number % 2],)) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    items = queues[0].pending()
    assert sorted(item.sequence for item in items) == list(range(1, 81))
    assert all(queues[1].read(item).startswith(b"%d:" % item.sequence) for item in items)


def test_same_checkpoint_through_two_openings_is_one(open_queue: OpenQueue) -> None:
    one, other = open_queue(), open_queue()
    entry = FakeEntry(fingerprint="same")
    one.put(FakeEntry())

    first, again = one.put(entry), other.put(entry)

    assert first == again == one.receipt(entry.checkpoint_id)
    assert one.status(0.0).depth == 2
    with pytest.raises(CheckpointChanged):
        other.put(FakeEntry(checkpoint_id=entry.checkpoint_id, fingerprint="other", content=b"other"))


def test_checkpoint_said_to_be_new_that_is_known_is_answered_and_not_doubled(spool: Queue) -> None:
    entry = FakeEntry()
    (first,) = spool.put_all([entry], are_new=True)

    (again,) = spool.put_all([entry], are_new=True)

    assert first == again
    assert isinstance(again, Receipt)
    assert spool.known_sequence("build-1") == again.sequence_number == 1
    assert spool.status(0.0).depth == 1


def test_large_body_comes_back_whole_and_can_be_renumbered(spool: Queue) -> None:
    content = bytes(range(256)) * 12_000
    spool.put(FakeEntry(content=content))
    (item,) = spool.pending()
    assert spool.read(item) == b"1:" + content

    moved = spool.renumber(item, 2, b"2:" + content + b"more")

    assert spool.read(moved) == b"2:" + content + b"more"
    spool.set_aside(moved, "why")
    assert spool.restore(moved.checkpoint_id).status == Progress.SPOOLED
    assert spool.read(moved) == b"2:" + content + b"more"


def test_save_within_a_save_of_the_same_thread_is_refused_and_does_not_wait_for_itself(
    spool: Queue,
) -> None:
    class Nested(FakeEntry):
        """Saves again while the queue is held, as a signal handler may do."""

        def body(self, sequence: int) -> bytes:
            if self.bodies_made:
                with pytest.raises(SpoolUnwritable, match="this thread is just saving"):
                    spool.put(FakeEntry())
            return super().body(sequence)

    for _ in range(3):
        spool.put(FakeEntry())

    assert spool.put(Nested(sequence=2)).sequence_number == 4
    assert spool.status(0.0).depth == 4


def test_arrival_numbers_follow_the_order_of_arrival(spool: Queue) -> None:
    entries = [FakeEntry(priority=priority) for priority in (Priority.MEDIUM, Priority.CRITICAL)]
    for entry in entries:
        spool.put(entry)

    first, second = (entry.checkpoint_id for entry in entries)
    arrivals = spool.arrivals([second, first, "unknown"])

    assert arrivals.keys() == {first, second}
    assert arrivals[first] < arrivals[second]


def test_room_is_told_before_anything_is_put(open_queue: OpenQueue) -> None:
    spool = open_queue(QueueLimits(max_items=1, min_free_bytes=0))
    spool.check_room()
    spool.put(FakeEntry())

    with pytest.raises(SpoolFull):
        spool.check_room()


def test_only_a_checkpoint_whose_body_is_whole_counts_as_kept_aside(spool: Queue) -> None:
    entry = FakeEntry()
    spool.put(entry)
    assert not spool.is_kept_aside(entry.checkpoint_id)

    spool.set_aside(spool.pending()[0], "a rule refuses it")

    assert spool.is_kept_aside(entry.checkpoint_id)
    assert not spool.is_kept_aside("unknown")


def test_queue_that_was_closed_takes_nothing(open_queue: OpenQueue) -> None:
    spool = open_queue()
    spool.close()

    with pytest.raises(SpoolUnwritable, match="closed"):
        spool.put(FakeEntry())
    spool.close()


def test_wanted_number_is_free_only_once_whatever_was_purged(spool: Queue, clock: VirtualClock) -> None:
    spool.put_all([FakeEntry(sequence=number) for number in (2, 4, 6)])
    spool.acknowledge({item.checkpoint_id: delivery(item.sequence) for item in spool.pending()[:2]})
    clock.time += 100
    assert spool.purge_receipts(older_than=clock.now(), keep=0) == 2

    numbers = [spool.put(FakeEntry(sequence=wanted)).sequence_number for wanted in (4, 6, 5, 5)]

    assert numbers == [7, 8, 5, 9]


def test_journeys_tell_how_far_each_has_come_the_newest_first(spool: Queue, clock: VirtualClock) -> None:
    first, second, _ = spool.put_all([FakeEntry(), FakeEntry(), FakeEntry(run_id="other")])
    assert isinstance(first, Receipt)
    assert isinstance(second, Receipt)
    clock.time += 5.0
    spool.acknowledge({first.checkpoint_id: delivery()})

    newest, oldest = spool.journeys("build-1", most=10)

    assert (newest.checkpoint_id, newest.progress) == (second.checkpoint_id, Progress.SPOOLED)
    assert (oldest.checkpoint_id, oldest.progress) == (first.checkpoint_id, Progress.VERIFIED)
    assert (oldest.arrived_at, oldest.changed_at, oldest.size_bytes) == (1000.0, 1005.0, 7)
    assert [each.run_id for each in spool.journeys(most=2)] == ["other", "build-1"]


def test_verified_checkpoints_are_counted_by_when_that_was(
    open_queue: OpenQueue, clock: VirtualClock
) -> None:
    spool = open_queue()
    spool.put_all([FakeEntry(run_id=f"build-{number}") for number in range(5)])
    for item in spool.pending()[:4]:
        clock.time += 10
        spool.acknowledge({item.checkpoint_id: delivery(item.sequence)})
    other = open_queue()

    assert other.verified_between(1000.0, 1040.0) == 4
    assert other.verified_between(1020.0, 1030.0) == 2
    assert other.verified_between(1041.0, 2000.0) == 0
