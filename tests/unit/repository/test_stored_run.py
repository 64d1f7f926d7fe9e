"""Batches, whatever numbers they hold: each is opened once, and a gap in it is no damage."""

from collections.abc import Sequence
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure, UnknownRun
from holdfast.format import stored_file as stored
from holdfast.format.checkpoint import Envelope
from holdfast.format.index import Index
from holdfast.format.paths import Layout, format_batch_name
from holdfast.format.stored_file import entry_of
from holdfast.repository.validate import Validator
from holdfast.styles.replay import replay
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.saved import NOW, stamped
from tests.fakes.workshop import Workshop

LAYOUT = Layout()


def put(repository: MemoryGateway, files: dict[str, bytes | None]) -> None:
    changes = {LAYOUT.path("r", name): content for name, content in files.items()}
    repository.write_as_someone_else(BRANCH, changes)


def make(number: int) -> Envelope:
    return stamped({"n": number}, sequence=number)


def batch(contents: Sequence[bytes]) -> bytes:
    joined = b",".join(contents)
    return b'{"checkpoints":[%s],"batch_metadata":{"checkpoint_count":%d}}' % (joined, len(contents))


def store_batches(repository: MemoryGateway, *batches: Sequence[int]) -> None:
    """Store a run that lies in batches, with its index and its latest."""
    files: dict[str, bytes | None] = {}
    index = Index("r")
    for numbers in batches:
        name = format_batch_name(numbers[0], numbers[-1])
        envelopes = [make(number) for number in numbers]
        files[name] = batch([envelope.content for envelope in envelopes])
        entries = [entry_of(envelope, LAYOUT.path("r", name)) for envelope in envelopes]
        index = index.with_entries(entries, workflow=None, now=NOW)
    files["index.json"] = index.to_bytes()
    files["latest.json"] = make(max(max(numbers) for numbers in batches)).content
    put(repository, files)


def findings(workshop: Workshop) -> list[str]:
    report = Validator(workshop.reader).check_run("r")
    return [f"{finding.path.rpartition('/')[2]}: {finding.reason}" for finding in report.findings]


def test_batches_in_each_others_gaps_are_valid_and_replayed_in_order(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 3, 9], [2, 4, 5, 6, 7, 8])

    assert findings(workshop) == []
    history = workshop.reader.history("r")
    assert [scene.header.sequence_number for scene in replay(history.envelopes)] == list(range(1, 10))
    assert history.warnings == []


def test_span_of_many_thousands_with_two_checkpoints_costs_two(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 999_999_999])

    assert findings(workshop) == []
    put(repository, {"latest.json": None, "index.json": None})
    assert workshop.reader.resume("r").sequence_number == 999_999_999
    assert workshop.reader.resume("r", at=1).state == {"n": 1}
    assert [entry.sequence for entry in workshop.reader.list_checkpoints("r").entries] == [1, 999_999_999]


def test_number_in_the_gap_of_a_batch_is_not_there_rather_than_damaged(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 3, 9])

    with pytest.raises(UnknownRun, match="no checkpoint 5"):
        workshop.reader.resume("r", at=5)


def test_number_that_the_index_puts_into_a_batch_without_it_is_a_failure(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 3, 9])
    put(repository, {"batch_1_9.json": batch([make(1).content, make(9).content])})

    with pytest.raises(IntegrityFailure, match=r"batch_1_9\.json: it does not hold checkpoint 3"):
        workshop.reader.resume("r", at=3)
    assert "batch_1_9.json: it does not hold checkpoint 3" in findings(workshop)


def test_checkpoint_of_a_batch_that_the_index_lacks_is_found(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 3])
    put(repository, {"batch_4_9.json": batch([make(4).content, make(9).content]), "latest.json": None})

    assert workshop.reader.resume("r").sequence_number == 9
    assert "batch_4_9.json: checkpoint 4 is not in the index" in findings(workshop)


def test_damaged_checkpoint_that_the_index_lacks_is_told_once(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    store_batches(repository, [1, 2])
    damaged = make(4).content.replace(b'"n":4', b'"n":5')
    put(repository, {"batch_3_5.json": batch([make(3).content, damaged, make(5).content])})

    reason = "batch_3_5.json: its content does not match its integrity.sha256"
    assert findings(workshop).count(reason) == 1
    assert f"checkpoints/r/{reason}" in workshop.reader.history("r").warnings
    with pytest.raises(IntegrityFailure, match="does not match"):
        workshop.reader.resume("r", at=4)


def test_batch_that_cannot_be_read_is_told_once(workshop: Workshop, repository: MemoryGateway) -> None:
    store_batches(repository, [1, 2])
    put(repository, {"batch_3_900000.json": b"{"})

    assert len([found for found in findings(workshop) if found.startswith("batch_3_900000.json: ")]) == 1
    assert workshop.reader.resume("r").sequence_number == 2


def test_checkpoints_of_a_batch_are_verified_a_fixed_number_of_times(
    workshop: Workshop, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    store_batches(repository, range(1, 41), range(41, 81))
    opened: list[bytes] = []
    original = stored.open_checkpoint

    def count(content: bytes, path: str) -> Any:
        opened.append(content)
        return original(content, path)

    monkeypatch.setattr(stored, "open_checkpoint", count)
    assert findings(workshop) == []
    assert len(opened) == 80

    opened.clear()
    workshop.reader.history("r")
    assert len(opened) == 80
