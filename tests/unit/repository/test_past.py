"""What came before the newest checkpoint: what the spool says of it is read once."""

from pathlib import Path

import pytest

from holdfast.errors import SpoolDamaged
from holdfast.format.receipt import QueueItem
from holdfast.queue.sqlite_queue import SqliteQueue
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

OPEN = {"circuit_breaker_state": {"state": "open", "reason": "three failures"}}
CLOSED = {"circuit_breaker_state": {"state": "closed"}}


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Return the numbers of the checkpoints whose bodies are read from the spool, from here on."""
    numbers: list[int] = []
    original = SqliteQueue.read

    def note(queue: SqliteQueue, item: QueueItem) -> bytes:
        numbers.append(item.sequence)
        return original(queue, item)

    monkeypatch.setattr(SqliteQueue, "read", note)
    return numbers


def test_each_spooled_checkpoint_is_read_once_and_then_only_the_newest(
    workshop: Workshop, read: list[int]
) -> None:
    for number in range(30):
        workshop.save(state={**CLOSED, "n": number}, trigger="phase_complete", phase=f"phase_{number}")
    first = workshop.reader.resume("r")
    workshop.save(state={**CLOSED, "n": 30}, trigger="phase_complete", phase="phase_30")
    read.clear()

    second = workshop.reader.resume("r")

    assert set(read) == {31}
    assert second.completed == [*first.completed, "phase_30"]


def test_what_a_run_waits_for_is_told_again_without_the_checkpoint_that_opened_it(
    workshop: Workshop, read: list[int]
) -> None:
    for state in (CLOSED, OPEN, CLOSED, CLOSED):
        workshop.save(state=state)
    first = workshop.reader.resume("r")
    read.clear()

    assert workshop.reader.resume("r") == first
    assert first.resume_at == "human_review"
    assert set(read) == {4}


def test_what_is_stored_meanwhile_does_not_make_the_others_unknown(
    workshop: Workshop, read: list[int]
) -> None:
    for state in (CLOSED, OPEN, CLOSED, CLOSED):
        workshop.save(state=state)
    workshop.reader.resume("r")
    workshop.worker.sort_out = lambda pending: ([item for item in pending if item.sequence < 3], "")
    workshop.worker.drain()
    assert [item.sequence for item in workshop.spool.pending()] == [3, 4]
    read.clear()

    assert workshop.reader.resume("r").resume_at == "human_review"
    assert set(read) == {4}


def test_what_another_machine_stores_before_them_is_seen_although_they_are_the_same(
    tmp_path: Path, workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save(state=CLOSED, sequence_number=50)
    assert workshop.reader.resume("r").resume_at != "human_review"
    with open_workshop(tmp_path / "theirs", repository) as theirs:
        theirs.save(state=OPEN)
        assert theirs.worker.drain().left == 0

    assert workshop.reader.resume("r").resume_at == "human_review"


def test_checkpoint_that_could_not_be_read_is_read_again(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch
) -> None:
    for state in (OPEN, CLOSED, CLOSED):
        workshop.save(state=state)
    original = SqliteQueue.read

    def fail(queue: SqliteQueue, item: QueueItem) -> bytes:
        if item.sequence == 1:
            raise SpoolDamaged("not now")
        return original(queue, item)

    with monkeypatch.context() as broken:
        broken.setattr(SqliteQueue, "read", fail)
        assert workshop.reader.resume("r").resume_at != "human_review"

    assert workshop.reader.resume("r").resume_at == "human_review"
