"""What a writer leaves alone: another writer's checkpoints, and the rest of an unsettled run."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest

from holdfast.drain.chunks import order_items
from holdfast.drain.pending import LONGEST_REQUEST_S, MOST_TRIES, OrphanFile, orphan_files, orphan_name
from holdfast.errors import Conflict, Missing, Unavailable
from holdfast.format.checkpoint import draft_from_mapping, stamp
from holdfast.format.git_ids import blob_sha
from holdfast.format.receipt import QueueItem
from holdfast.format.triggers import Priority, Trigger
from holdfast.github.calls import Call, ListFolder, ReadBlob, ResultT
from holdfast.github.write_calls import DeleteFile, WriteFile
from holdfast.queue import SqliteQueue
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run

PATH = "checkpoints/r/cp_001_manual.json"


class Rival:
    """A gateway through which another writer takes the name of our first file before we write our second."""

    def __init__(self, inner: MemoryGateway, content: bytes) -> None:
        self._inner = inner
        self._content = content

    def perform(self, call: Call[ResultT]) -> ResultT:
        if isinstance(call, WriteFile) and call.path.endswith("cp_002_manual.json"):
            self._inner.write_as_someone_else(BRANCH, {PATH: self._content})
        return self._inner.perform(call)


@pytest.fixture
def repository() -> MemoryGateway:
    return MemoryGateway()


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path, repository) as workshop:
        yield workshop


def test_rest_of_a_run_waits_when_its_urgent_part_could_not_be_settled(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save("r", trigger="error")
    workshop.save("r")
    conflict = Conflict("x", "does not match", kind="stale_file")
    repository.fail_next(WriteFile, conflict, times=3, when=lambda call: "cp_001" in call.path)

    workshop.worker.drain()

    assert "cp_002_manual.json" not in stored_run(repository)


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_machine_that_is_new_to_a_run_goes_on_after_it_and_fills_no_gap(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with open_workshop(tmp_path / "old", repository, mode=mode) as old:
        for number in (1, 10, 20):
            old.save(sequence_number=number)
        old.worker.drain()
    with open_workshop(tmp_path / "new", repository, mode=mode) as new:
        receipts = [new.save(), new.save()]
        new.worker.drain()
        receipts.append(new.save(sequence_number=15))
        new.worker.drain()

        settled = [new.spool.receipt(receipt.checkpoint_id) for receipt in receipts]

    assert [receipt and receipt.sequence_number for receipt in settled] == [21, 22, 15]
    assert list(check_run(repository)) == [1, 10, 15, 20, 21, 22]


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_machine_that_comes_back_to_a_run_goes_on_after_what_others_have_stored_since(
    tmp_path: Path, repository: MemoryGateway, mode: str
) -> None:
    with (
        open_workshop(tmp_path / "one", repository, mode=mode) as one,
        open_workshop(tmp_path / "other", repository, mode=mode) as other,
    ):
        one.save()
        one.worker.drain()
        for number in (3, 4):
            other.save(sequence_number=number)
        other.worker.drain()
        newest = one.save()
        one.worker.drain()

    assert check_run(repository)[5] == newest.checkpoint_id
    assert stored_run(repository)["latest.json"]["checkpoint_id"] == newest.checkpoint_id


@pytest.mark.parametrize("times", [1, 3])
def test_file_that_github_did_not_find_to_delete_is_looked_for_as_long_as_a_listing_shows_it(
    tmp_path: Path, repository: MemoryGateway, times: int
) -> None:
    with (
        open_workshop(tmp_path / "one", repository) as one,
        open_workshop(tmp_path / "other", repository) as other,
    ):
        one.save()
        one.worker.drain()
        other.save(sequence_number=4)
        other.worker.drain()
        repository.fail_next(DeleteFile, Missing("x", "not visible yet"), times=times)
        one.save()
        for _ in range(times):
            one.worker.drain()
            assert "cp_002_manual.json" in stored_run(repository)
            one.clock.sleep(LONGEST_REQUEST_S)
        one.worker.drain()
        assert not orphan_files(one.spool.notes())

    assert list(check_run(repository)) == [1, 4, 5]


@pytest.mark.parametrize("hidden", [ListFolder, ReadBlob])
def test_indexed_file_is_not_deleted_while_github_does_not_show_what_names_it(
    tmp_path: Path, repository: MemoryGateway, hidden: type[Call[Any]]
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()
    path = "checkpoints/r/cp_001_manual.json"
    with open_workshop(tmp_path / "fresh", repository) as workshop:
        orphan = OrphanFile(path, blob_sha(repository.files(BRANCH)[path]), due_at=0)
        workshop.spool.note(orphan.name, orphan.to_bytes())
        repository.fail_next(hidden, Missing("x", "not visible yet"))
        workshop.worker.drain()
        assert "cp_001_manual.json" in stored_run(repository)

        workshop.clock.sleep(LONGEST_REQUEST_S)
        workshop.worker.drain()
        assert not orphan_files(workshop.spool.notes())

    assert list(check_run(repository)) == [1]


def test_file_of_a_run_that_is_gone_is_not_looked_for_without_end(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    orphan = OrphanFile("checkpoints/gone/cp_001_manual.json", "0" * 40, due_at=0)
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()
        workshop.spool.note(orphan.name, orphan.to_bytes())
        for _ in range(MOST_TRIES):
            assert orphan_files(workshop.spool.notes())
            workshop.worker.drain()
            workshop.clock.sleep(LONGEST_REQUEST_S)

        assert not orphan_files(workshop.spool.notes())


def test_file_of_a_write_without_an_answer_is_noted_for_deletion_once(
    tmp_path: Path, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    noted: list[str] = []
    note = SqliteQueue.note

    def watch(spool: SqliteQueue, name: str, content: bytes) -> None:
        noted.append(name)
        note(spool, name, content)

    with (
        open_workshop(tmp_path / "one", repository) as one,
        open_workshop(tmp_path / "other", repository) as other,
    ):
        one.save()
        one.worker.drain()
        other.save(sequence_number=2, trigger="iteration")
        other.worker.drain()
        repository.fail_next(WriteFile, Unavailable("x", "no answer"))
        monkeypatch.setattr(SqliteQueue, "note", watch)
        one.save()
        one.worker.drain()

    assert list(check_run(repository)) == [1, 2, 3]
    orphans = [name for name in noted if name.startswith(orphan_name(""))]
    assert orphans == [orphan_name("checkpoints/r/cp_002_manual.json")]


def test_older_checkpoint_goes_first_where_two_have_one_number() -> None:
    older = QueueItem("older", "r", 2, Trigger.MANUAL, Priority.MEDIUM, 1, arrived_at=1.0)
    newer = QueueItem("newer", "r", 2, Trigger.ERROR, Priority.CRITICAL, 1, arrived_at=2.0)

    assert order_items([newer, older]) == [older, newer]


def test_verifying_never_writes_over_another_writers_checkpoint(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    theirs = draft_from_mapping(
        {"run_id": "r", "trigger": "manual", "state": {"whose": "theirs"}},
        now="2026-11-16T10:00:00Z",
        new_id=lambda: str(uuid4()),
    )
    content = stamp(theirs.body(1)).content
    with open_workshop(tmp_path, Rival(repository, content)) as workshop:
        workshop.save()
        workshop.save()

        workshop.worker.drain()

    assert repository.files(BRANCH)[PATH] == content
