"""Files that attempts have left behind: looked for, spared, and deleted once nobody can need them."""

from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.drain.orphans import OrphanFiles
from holdfast.drain.pending import LONGEST_REQUEST_S, PendingWrite, orphan_files
from holdfast.errors import Conflict, Throttled
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.github.calls import Call
from holdfast.github.write_calls import DeleteFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop, stored_run

LEFT = "checkpoints/r/cp_009_manual.json"
WRITE = PendingWrite("r", (), is_batch=False, files={LEFT: blob_sha(b"{}")})


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    """Return one that has stored a checkpoint, beside a file that an attempt has left."""
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()
        repository.write_as_someone_else(BRANCH, {LEFT: b"{}"})
        yield workshop


@pytest.fixture
def orphans(workshop: Workshop) -> OrphanFiles:
    return workshop.worker.contents.orphans


def noted(workshop: Workshop) -> list[str]:
    return [orphan.path for orphan in orphan_files(workshop.spool.notes())]


def is_left(repository: MemoryGateway) -> bool:
    return LEFT in repository.files(BRANCH)


def test_clock_that_was_set_back_puts_the_deletion_off_no_longer_than_usual(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    workshop.clock.sleep(400 * 86_400)
    orphans.abandon(WRITE)
    workshop.clock.sleep(-400 * 86_400)

    orphans.sweep()
    workshop.clock.sleep(LONGEST_REQUEST_S)
    orphans.sweep()

    assert not is_left(repository)


def test_abandoned_file_is_deleted_once_no_request_can_be_under_way(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    orphans.abandon(WRITE)

    orphans.sweep()
    assert is_left(repository)
    workshop.clock.sleep(LONGEST_REQUEST_S)
    orphans.sweep()

    assert (is_left(repository), noted(workshop)) == (False, [])


def test_file_that_has_come_to_be_of_use_is_spared(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    orphans.abandon(WRITE)

    orphans.spare([LEFT, "checkpoints/r/another.json"])
    workshop.clock.sleep(LONGEST_REQUEST_S)
    orphans.sweep()

    assert (is_left(repository), noted(workshop)) == (True, [])


@pytest.mark.parametrize("is_unclear", [False, True])
def test_obsolete_file_is_deleted_at_once_and_looked_for_again_only_if_it_may_come_late(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway, is_unclear: bool
) -> None:
    orphans.delete_obsolete(WRITE, Index("r"), is_unclear=is_unclear)

    assert not is_left(repository)
    assert noted(workshop) == ([LEFT] if is_unclear else [])


def test_file_that_github_does_not_find_is_looked_for_again(workshop: Workshop, orphans: OrphanFiles) -> None:
    never_seen = replace(WRITE, files={"checkpoints/r/cp_010_manual.json": "a" * 40})

    orphans.delete_obsolete(never_seen, Index("r"), is_unclear=False)

    assert noted(workshop) == ["checkpoints/r/cp_010_manual.json"]


def test_nothing_is_deleted_while_a_checkpoint_of_the_write_is_stored_nowhere(
    orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    orphans.delete_obsolete(replace(WRITE, checkpoint_ids=("lost",)), Index("r"), is_unclear=False)

    assert is_left(repository)


@pytest.mark.parametrize(
    "error",
    [
        Throttled("x", "limit", kind="own_budget", retry_after_s=60),
        Conflict("x", "the branch has moved on", kind="head_moved"),
    ],
)
def test_no_checkpoint_waits_for_what_cannot_be_deleted_now(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway, error: Throttled | Conflict
) -> None:
    repository.fail_next(DeleteFile, error)

    orphans.delete_obsolete(WRITE, Index("r"), is_unclear=False)

    assert (is_left(repository), noted(workshop)) == (True, [LEFT])


def test_look_that_github_does_not_answer_is_repeated_later(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    orphans.abandon(WRITE)
    workshop.clock.sleep(LONGEST_REQUEST_S)
    repository.fail_next(Call, Throttled("x", "limit", kind="primary", retry_after_s=60))

    orphans.sweep()

    (orphan,) = orphan_files(workshop.spool.notes())
    assert (orphan.tries, orphan.due_at) == (0, workshop.clock.now() + LONGEST_REQUEST_S)


def test_name_that_another_writer_has_taken_is_left_alone(
    workshop: Workshop, orphans: OrphanFiles, repository: MemoryGateway
) -> None:
    repository.write_as_someone_else(BRANCH, {LEFT: b'{"another": "file"}'})

    orphans.delete_obsolete(WRITE, Index("r"), is_unclear=False)

    assert (is_left(repository), noted(workshop)) == (True, [])
    assert "cp_001_manual.json" in stored_run(repository)


def test_numbers_of_a_batch_that_was_given_up_are_free(orphans: OrphanFiles) -> None:
    blobs = {"batch_1_4.json": "a" * 40, "batch_5_6.json": "b" * 40, "cp_009_manual.json": "c" * 40}
    snapshot = RunSnapshot(Index("r"), blobs=blobs)
    assert orphans.hide_batches(snapshot) is snapshot

    files = {"checkpoints/r/batch_1_4.json": "a" * 40, LEFT: "c" * 40}
    orphans.abandon(replace(WRITE, files=files))

    assert set(orphans.hide_batches(snapshot).blobs) == {"batch_5_6.json", "cp_009_manual.json"}
