"""While the database is away, checkpoints wait on the local disk; then each moves over once, in order."""

import threading
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
import structlog

from holdfast.errors import CheckpointChanged, DatabaseAway, SpoolFull, SpoolUnwritable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.format.triggers import Priority
from holdfast.queue import QueueLimits, SqliteQueue
from holdfast.queue import fallback as module
from holdfast.queue.contract import NewItem, PutOutcome, QueueStatus
from holdfast.queue.fallback import FallbackQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.spooling import FakeEntry, JsonEntry, open_spool

AWAY = DatabaseAway("PostgreSQL at db, database work", "connection refused")


class Shared(SqliteQueue):
    """Stands for the shared queue; what it promises is the contract's, so any queue will do."""

    is_away = False
    is_standby = False
    loses_answers = False

    def put_all(
        self,
        new_items: Sequence[NewItem],
        *,
        persistence: Persistence = Persistence.NORMAL,
        are_new: bool = False,
    ) -> list[PutOutcome]:
        self.forget()
        outcomes = super().put_all(new_items, persistence=persistence, are_new=are_new)
        if self.loses_answers:
            raise AWAY
        return outcomes

    def check_room(self) -> None:
        self.check_answers()
        super().check_room()

    def status(self, now: float) -> QueueStatus:
        self.check_answers()
        return super().status(now)

    def forget(self, *names: str) -> None:
        self.check_answers()
        if self.is_standby:
            raise AWAY
        super().forget(*names)

    def check_answers(self) -> None:
        if self.is_away:
            raise AWAY


START_MOVER = FallbackQueue._start_mover
Open = Callable[..., tuple[FallbackQueue, Shared]]


@pytest.fixture(autouse=True)
def _no_mover(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the tests say when it is tried again."""
    monkeypatch.setattr(FallbackQueue, "_start_mover", lambda _: None)


@pytest.fixture
def open_both(tmp_path: Path) -> Iterator[Open]:
    opened: list[FallbackQueue] = []

    def open_it(*, is_away: bool = False, limits: QueueLimits | None = None) -> tuple[FallbackQueue, Shared]:
        folder, clock = tmp_path / "shared", VirtualClock(1000.0)
        limits = limits or QueueLimits(min_free_bytes=0)
        shared = Shared(open_spool(folder, clock=clock)._folder, limits=limits, clock=clock, layout=LAYOUT)
        shared.is_away = is_away

        def reach() -> Shared:
            shared.check_answers()
            return shared

        queue = FallbackQueue(reach, open_spool(tmp_path / "local", clock=clock))
        opened.append(queue)
        try:
            queue.open()
        except DatabaseAway as error:
            queue.begin_away(error)
        return queue, shared

    yield open_it
    for queue in opened:
        queue.close()


LAYOUT = Layout()


def test_with_the_database_there_nothing_touches_the_local_disk(open_both: Open) -> None:
    queue, shared = open_both()

    receipt = queue.put(JsonEntry())

    assert receipt.persistence is Persistence.NORMAL
    assert [item.checkpoint_id for item in shared.pending()] == [receipt.checkpoint_id]
    assert queue._local.status(0.0).depth == 0
    assert queue.trouble() is None


def test_while_it_is_away_checkpoints_are_accepted_and_said_to_be_delayed(open_both: Open) -> None:
    queue, shared = open_both()
    shared.is_away = True

    receipt = queue.put(JsonEntry())

    assert (receipt.status, receipt.persistence) == (Progress.SPOOLED, Persistence.DELAYED)
    assert queue.receipt(receipt.checkpoint_id) == receipt
    assert "connection refused; checkpoints are kept on the local disk" in (queue.trouble() or "")
    queue.check_room()
    assert queue.status(1000.0).depth == 1


def test_a_look_at_the_numbers_finds_the_outage_and_does_not_ask_again_until_it_is_over(
    open_both: Open,
) -> None:
    queue, shared = open_both()
    queue.put_all([JsonEntry(), JsonEntry()])
    shared.is_away = True

    assert queue.status(1000.0).depth == 0

    assert "connection refused" in (queue.trouble() or "")
    with patch.object(shared, "status") as status:
        queue.status(1000.0)
    status.assert_not_called()
    shared.is_away = False
    queue.move()
    assert queue.status(1000.0).depth == 2


def test_order_within_a_run_is_kept_across_the_outage(open_both: Open) -> None:
    queue, shared = open_both()
    entries = [JsonEntry(priority=each) for each in (Priority.MEDIUM, Priority.CRITICAL) * 4]
    queue.put_all(entries[:2])
    shared.is_away = True
    for entry in entries[2:5]:
        queue.put(entry)
    shared.is_away = False
    # It is back, but what waits here goes first.
    queue.put(entries[5])
    assert shared.status(0.0).depth == 2

    assert queue._try_to_move()

    queue.put_all(entries[6:])
    arrivals = shared.arrivals(entry.checkpoint_id for entry in entries)
    ids = sorted(arrivals, key=lambda each: arrivals[each])
    assert ids == [entry.checkpoint_id for entry in entries]
    numbers = {item.checkpoint_id: item.sequence for item in shared.pending()}
    assert [numbers[each] for each in ids] == list(range(1, 9))
    assert queue.trouble() is None
    assert queue._local.status(0.0).depth == 0


def test_what_was_stored_without_an_answer_is_not_doubled(open_both: Open) -> None:
    queue, shared = open_both()
    shared.loses_answers = True
    entry = JsonEntry(fingerprint="f1")
    delayed = queue.put(entry)
    assert delayed.persistence is Persistence.DELAYED
    shared.loses_answers = False

    queue.move()

    assert shared.status(0.0).depth == 1
    assert queue.put(entry).checkpoint_id == entry.checkpoint_id
    assert shared.status(0.0).depth == 1


def test_move_that_was_cut_short_changes_nothing_when_it_is_repeated(
    open_both: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, shared = open_both()
    shared.is_away = True
    entries = [JsonEntry() for _ in range(5)]
    queue.put_all(entries)
    shared.is_away = False
    monkeypatch.setattr(queue._local, "hand_over", _interrupt)
    with pytest.raises(KeyboardInterrupt):
        queue.move()
    monkeypatch.delattr(queue._local, "hand_over")
    assert shared.status(0.0).depth == 5

    again, shared = open_both()
    assert [item.sequence for item in again.pending()] == [1, 2, 3, 4, 5]

    assert again._local.status(0.0).depth == 0
    assert shared.status(0.0).depth == 5


def _interrupt(_: object) -> None:
    raise KeyboardInterrupt


def test_same_checkpoint_after_the_outage_is_answered_as_the_first_time(open_both: Open) -> None:
    queue, shared = open_both()
    shared.is_away = True
    entry = JsonEntry(fingerprint="f1", content=b"made at ten")
    queue.put(entry)
    shared.is_away = False
    queue.move()

    again = queue.put(JsonEntry(checkpoint_id=entry.checkpoint_id, fingerprint="f1", content=b"made later"))

    assert again.checkpoint_id == entry.checkpoint_id
    with pytest.raises(CheckpointChanged):
        queue.put(JsonEntry(checkpoint_id=entry.checkpoint_id, fingerprint="f2"))


def test_numbers_are_given_anew_where_others_have_gone_on_meanwhile(open_both: Open) -> None:
    queue, shared = open_both()
    queue.put(JsonEntry())
    shared.is_away = True
    first, second = JsonEntry(), JsonEntry(sequence=7)
    queue.put_all([first, second])
    shared.is_away = False
    shared.put(JsonEntry())  # by another replica

    queue.move()

    by_id = {item.checkpoint_id: item for item in shared.pending()}
    assert by_id[first.checkpoint_id].sequence == 3
    assert by_id[second.checkpoint_id].sequence == 7
    assert b'"sequence_number":3' in shared.read(by_id[first.checkpoint_id])


def test_one_that_clashes_is_set_aside_and_the_others_go_on(open_both: Open) -> None:
    queue, shared = open_both()
    taken = JsonEntry(fingerprint="f1")
    queue.put(taken)
    shared.is_away = True
    clash, other = JsonEntry(checkpoint_id=taken.checkpoint_id, content=b"other"), JsonEntry()
    queue.put_all([clash, other])
    shared.is_away = False

    queue.move()

    assert shared.status(0.0).depth == 2
    (aside,) = queue.set_aside_entries()
    assert "other content" in aside.reason


def test_one_whose_body_is_no_json_is_set_aside_and_the_others_go_on(open_both: Open) -> None:
    queue, shared = open_both()
    queue.put(JsonEntry())
    shared.is_away = True
    queue.put_all([FakeEntry(content=b"no json"), JsonEntry()])
    shared.is_away = False
    shared.put(JsonEntry())  # of another replica: what waits here needs other numbers

    queue.move()

    assert [item.sequence for item in shared.pending()] == [1, 2, 3]
    (aside,) = queue.set_aside_entries()
    assert "not JSON" in aside.reason


def test_an_outage_that_was_found_by_a_look_ends_with_the_next_one(open_both: Open) -> None:
    queue, shared = open_both()
    shared.is_away = True
    queue.check_room()
    assert queue.trouble()
    with pytest.raises(DatabaseAway):
        queue.pending()
    assert queue.trouble()

    shared.is_away = False

    assert queue.pending() == []
    assert queue.trouble() is None
    assert queue.put(JsonEntry()).persistence is Persistence.NORMAL


def test_a_database_that_only_answers_questions_is_not_back(open_both: Open) -> None:
    queue, shared = open_both()
    shared.is_standby = True
    queue.put(JsonEntry())

    with structlog.testing.capture_logs() as events, pytest.raises(DatabaseAway):
        queue.move()

    assert events == []
    assert "until it is back (1 so far)" in str(queue.trouble())
    shared.is_standby = False
    assert queue.move() == 1
    assert queue.trouble() is None


def test_whatever_finds_the_outage_sets_out_to_end_it(
    open_both: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, shared = open_both()
    begun: list[FallbackQueue] = []
    monkeypatch.setattr(FallbackQueue, "_start_mover", lambda self: begun.append(self))
    shared.is_away = True

    queue.check_room()

    assert begun == [queue]


def test_what_still_moves_is_told(open_both: Open) -> None:
    queue, shared = open_both(is_away=True)
    queue.put_all([JsonEntry(), JsonEntry()])
    shared.is_away = False
    told: list[str | None] = []
    put_all = Shared.put_all

    def put(*arguments: Any, **named: Any) -> list[PutOutcome]:
        told.append(queue.trouble())
        return put_all(shared, *arguments, **named)

    with patch.object(shared, "put_all", put):
        queue.move()

    assert told == ["2 checkpoints that were kept on the local disk move to the database"]
    assert queue.trouble() is None


def test_numbers_go_on_while_the_database_is_away(open_both: Open) -> None:
    queue, shared = open_both()
    queue.put_all([JsonEntry(), JsonEntry()])
    shared.is_away = True

    receipts = [queue.put(JsonEntry()), queue.put(JsonEntry())]

    assert [receipt.sequence_number for receipt in receipts] == [3, 4]
    shared.is_away = False
    queue.move()
    assert [item.sequence for item in shared.pending()] == [1, 2, 3, 4]


def test_numbers_of_many_runs_are_learned_at_once(open_both: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, shared = open_both()
    queue.put_all([JsonEntry(run_id=f"run-{n}") for n in range(20)])
    shared.is_away = True
    folder = queue._local._folder

    with patch.object(folder, "change", wraps=folder.change) as change:
        receipts = queue.put_all([JsonEntry(run_id=f"run-{n}") for n in range(20)])

    assert {each.sequence_number for each in receipts if isinstance(each, Receipt)} == {2}
    assert change.call_count == 2


def test_full_shared_queue_leaves_the_rest_here(open_both: Open) -> None:
    queue, shared = open_both(is_away=True, limits=QueueLimits(max_items=2, min_free_bytes=0))
    entries = [JsonEntry() for _ in range(4)]
    queue.put_all(entries)
    shared.is_away = False

    with pytest.raises(SpoolFull):
        queue.move()

    assert shared.status(0.0).depth == 2
    assert [item.checkpoint_id for item in queue._local.pending()] == [e.checkpoint_id for e in entries[2:]]


def test_full_shared_queue_is_drained_and_then_takes_the_rest(open_both: Open) -> None:
    queue, shared = open_both(is_away=True, limits=QueueLimits(max_items=2, min_free_bytes=0))
    entries = [JsonEntry() for _ in range(3)]
    queue.put_all(entries)
    shared.is_away = False

    with queue.drainer():
        first = queue.pending()
        shared.discard(item.checkpoint_id for item in first)
        rest = queue.pending()

    assert [item.checkpoint_id for item in first + rest] == [entry.checkpoint_id for entry in entries]


def test_who_does_not_drain_is_told_that_not_all_of_it_can_be_seen(open_both: Open) -> None:
    queue, shared = open_both(is_away=True, limits=QueueLimits(max_items=2, min_free_bytes=0))
    queue.put_all([JsonEntry() for _ in range(3)])
    shared.is_away = False

    with queue.drainer(), ThreadPoolExecutor(1) as elsewhere, pytest.raises(SpoolFull):
        elsewhere.submit(queue.pending).result()
    with pytest.raises(SpoolFull):
        queue.pending()


def test_database_that_is_back_but_full_is_not_said_to_be_away(open_both: Open) -> None:
    queue, shared = open_both(limits=QueueLimits(max_items=1, min_free_bytes=0))
    queue.put(JsonEntry())
    shared.is_away = True
    queue.put(JsonEntry())
    shared.is_away = False

    assert not queue._try_to_move()

    assert queue.trouble() == "1 checkpoints that were kept on the local disk move to the database"


def test_outage_that_is_noted_once_it_is_over_is_not_told_for_ever(
    open_both: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, _ = open_both()
    queue._note_away(AWAY)
    note_back, late = queue._note_back, iter([AWAY])

    def note_both() -> None:
        note_back()
        for error in late:  # of one whose look had failed before
            queue._note_away(error)

    monkeypatch.setattr(queue, "_note_back", note_both)

    queue.move()

    assert not queue._is_local
    assert queue.trouble() is None


def test_try_that_failed_before_another_found_the_database_back_tells_nothing(open_both: Open) -> None:
    queue, shared = open_both()
    queue._note_away(AWAY)

    def fail() -> None:
        queue.move()  # in another thread
        raise AWAY

    with patch.object(shared, "check_room", fail):
        assert not queue._try_to_move()

    assert queue.trouble() is None


def test_signal_handler_of_a_thread_that_saves_here_is_refused_and_does_not_hang(open_both: Open) -> None:
    queue, _ = open_both(is_away=True)
    put_all, refusals = queue._local.put_all, []

    def interrupted(*arguments: Any, **named: Any) -> list[PutOutcome]:
        try:
            queue.put(JsonEntry())  # as the handler does, in between
        except SpoolUnwritable as error:
            refusals.append(str(error))
        return put_all(*arguments, **named)

    with patch.object(queue._local, "put_all", interrupted):
        receipt = queue.put(JsonEntry())

    assert receipt.status is Progress.SPOOLED
    assert refusals == ["this thread is just saving; save again when it has done so"]
    assert queue._local.status(0.0).depth == 1


def test_what_another_process_of_this_machine_left_here_moves_over(open_both: Open) -> None:
    queue, _ = open_both()
    other, away = open_both()
    away.is_away = True
    left = other.put(JsonEntry())

    assert [item.checkpoint_id for item in queue.pending()] == [left.checkpoint_id]

    assert queue._local.status(0.0).depth == 0
    assert queue.put(JsonEntry()).persistence is Persistence.NORMAL


def test_process_that_was_forked_and_only_looks_finds_out_that_the_database_is_back(
    open_both: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, shared = open_both()
    shared.put(JsonEntry())
    shared.is_away = True
    queue.status(0.0)  # the mover that this starts is the parent's
    shared.is_away = False
    monkeypatch.setattr(module, "TRY_EVERY_S", 0.01)
    monkeypatch.setattr(FallbackQueue, "_start_mover", START_MOVER)

    queue.status(0.0)
    assert queue._mover
    queue._mover.join(60)

    assert (queue.status(0.0).depth, queue.trouble()) == (1, None)


def test_forked_process_has_a_mover_of_its_own(open_both: Open, monkeypatch: pytest.MonkeyPatch) -> None:
    queue, shared = open_both()
    monkeypatch.setattr(FallbackQueue, "_start_mover", START_MOVER)
    monkeypatch.setattr(module, "TRY_EVERY_S", 0.01)
    shared.is_away = True
    queue._mover = threading.Thread()  # as a thread looks that went on in the other process
    receipt = queue.put(JsonEntry())
    shared.is_away = False

    queue._mover.join()

    assert [item.checkpoint_id for item in shared.pending()] == [receipt.checkpoint_id]


def test_what_only_the_database_knows_is_not_guessed(open_both: Open) -> None:
    queue, _ = open_both(is_away=True)
    queue.put(JsonEntry())

    for ask in (queue.pending, queue.notes, lambda: queue.known_sequence("build-1"), queue.drainer):
        with pytest.raises(DatabaseAway):
            ask()
    assert queue.drained_by() is None
    assert queue.status(1000.0).depth == 1


def test_what_waits_from_an_earlier_process_moves_over_before_it_is_listed(open_both: Open) -> None:
    first, _ = open_both(is_away=True)
    entry = JsonEntry()
    first.put(entry)

    queue, shared = open_both()

    assert [item.checkpoint_id for item in queue.pending()] == [entry.checkpoint_id]
    assert shared.status(0.0).depth == 1


def test_mover_ends_when_nothing_is_left_and_begins_again(
    open_both: Open, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue, shared = open_both(is_away=True)
    queue.put(JsonEntry())
    monkeypatch.undo()
    monkeypatch.setattr(module, "TRY_EVERY_S", 0.001)
    for _ in range(3):
        queue._start_mover()
        mover = queue._mover
        shared.is_away = False
        if mover:
            mover.join(60)
        assert queue._mover is None
        assert queue.trouble() is None
        shared.is_away = True
        queue.put(JsonEntry())
    shared.is_away = False
