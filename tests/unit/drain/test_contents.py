"""The contents mode: the order of the protocol, conflicts, lost answers, verification."""

from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, Missing, Refused, Unavailable
from holdfast.format.receipt import Progress
from holdfast.github.calls import ListFolder, ReadFile
from holdfast.github.results import File
from holdfast.github.write_calls import DeleteFile, WriteFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run

STALE = Conflict("x", "does not match", kind="stale_file")
MOVED = Conflict("x", "is at a but expected b", kind="head_moved")
LOST = Unavailable("x", "the connection was cut")


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b"code"})
    return repository


def put_paths(repository: MemoryGateway) -> list[str]:
    return [
        call.path.removeprefix("checkpoints/r/") for call in repository.calls if isinstance(call, WriteFile)
    ]


def is_file(name: str) -> Any:
    return lambda call: call.path.endswith(name)


def test_checkpoint_is_put_read_back_indexed_and_copied_in_this_order(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    workshop.worker.drain()
    repository.calls.clear()
    workshop.save()

    result = workshop.worker.drain()

    kinds = [(type(call).__name__, call.subject.removeprefix("checkpoints/r/")) for call in repository.calls]
    assert kinds == [
        ("WriteFile", "cp_002_manual.json"),
        ("ReadFile", "cp_002_manual.json"),
        ("WriteFile", "index.json"),
        ("WriteFile", "latest.json"),
    ]
    assert result.verified == 1


def test_read_back_is_at_the_commit_that_the_put_returned(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    workshop.worker.drain()
    receipt = workshop.save()
    workshop.worker.drain()

    (verify,) = [call for call in repository.calls if isinstance(call, ReadFile)]
    final = workshop.spool.receipt(receipt.checkpoint_id)
    assert final is not None
    assert verify.ref == final.commit_sha


def test_receipt_follows_to_verified_with_commit_and_blob(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    receipt = workshop.save()
    workshop.worker.drain()

    final = workshop.spool.receipt(receipt.checkpoint_id)

    assert final is not None
    assert final.status is Progress.VERIFIED
    assert final.blob_sha == repository.perform(ReadFile(final.file_path, final.commit_sha or "")).blob_sha


def test_branch_is_made_without_a_parent_and_the_code_is_untouched(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    workshop.worker.drain()

    assert repository.history(BRANCH)[-1].parent_shas == ()
    assert repository.files("main") == {"README.md": b"code"}
    assert "README.md" in repository.files(BRANCH)


def test_empty_repository_works(tmp_path: Path) -> None:
    repository = MemoryGateway()
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()

    assert len(check_run(repository)) == 1


@pytest.mark.slow
def test_burst_is_verified_by_one_listing_and_indexed_once(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    workshop.worker.drain()
    repository.calls.clear()
    for _ in range(100):
        workshop.save()

    workshop.worker.drain()

    assert len(check_run(repository)) == 101
    assert len(repository.calls) == 104  # one of them closes a segment of the index
    assert repository.count(ListFolder) == 1


def test_restart_spends_no_request_on_what_is_known(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()
    repository.calls.clear()

    with open_workshop(tmp_path, repository) as workshop:
        workshop.save()
        workshop.worker.drain()

    assert len(repository.calls) == 4
    assert len(check_run(repository)) == 2


@pytest.mark.parametrize("name", ["cp_001_manual.json", "index.json", "latest.json"])
def test_lost_answer_is_settled_by_reading_not_written_twice(
    workshop: Workshop, repository: MemoryGateway, name: str
) -> None:
    workshop.save()
    workshop.worker.drain()
    workshop.save(trigger="manual")
    wanted = name.replace("001", "002")
    repository.fail_next(WriteFile, LOST, is_applied=True, when=is_file(wanted))
    repository.calls.clear()

    workshop.worker.drain()

    assert put_paths(repository).count(wanted) == 1
    assert len(check_run(repository)) == 2


@pytest.mark.slow
@pytest.mark.parametrize("name", ["cp_002_manual.json", "index.json", "latest.json"])
@pytest.mark.parametrize("error", [LOST, MOVED], ids=["lost", "moved"])
def test_write_that_did_not_land_is_done_again(
    workshop: Workshop, repository: MemoryGateway, name: str, error: Exception
) -> None:
    workshop.save()
    workshop.worker.drain()
    repository.fail_next(WriteFile, error, when=is_file(name))  # type: ignore[arg-type]
    workshop.save()

    assert workshop.worker.drain().verified == 1
    assert len(check_run(repository)) == 2


def test_moved_branch_is_no_reason_to_read(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    workshop.worker.drain()
    workshop.save()
    repository.calls.clear()
    repository.fail_next(WriteFile, MOVED, times=2, when=is_file("cp_002_manual.json"))

    workshop.worker.drain()

    assert put_paths(repository) == ["cp_002_manual.json"] * 3 + ["index.json", "latest.json"]
    assert repository.count(ListFolder) == 0


@pytest.mark.slow
def test_two_writers_of_one_run_unite_their_indexes(tmp_path: Path, repository: MemoryGateway) -> None:
    with (
        open_workshop(tmp_path / "a", repository) as one,
        open_workshop(tmp_path / "b", repository) as other,
    ):
        receipts = []
        for _ in range(4):
            receipts += [one.save(), other.save(trigger="error")]
            one.worker.drain()
            other.worker.drain()
        numbers = [workshop_receipt(one, other, receipt.checkpoint_id) for receipt in receipts]

    stored = check_run(repository)
    assert sorted(stored.values()) == sorted(receipt.checkpoint_id for receipt in receipts)
    assert [stored[number] for number in numbers] == [receipt.checkpoint_id for receipt in receipts]


def workshop_receipt(one: Workshop, other: Workshop, checkpoint_id: str) -> int:
    receipt = one.spool.receipt(checkpoint_id) or other.spool.receipt(checkpoint_id)
    assert receipt is not None
    return receipt.sequence_number


def test_file_under_a_number_that_was_lost_to_another_is_removed(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with (
        open_workshop(tmp_path / "a", repository) as one,
        open_workshop(tmp_path / "b", repository) as other,
    ):
        one.save()
        one.worker.drain()
        other.runs.snapshot("r")  # learns of checkpoint 1 only
        other.spool.learn_sequence("r", 1)
        one.save()
        one.worker.drain()
        repository.calls.clear()
        other.save(trigger="error")
        other.worker.drain()

    assert repository.count(DeleteFile) == 1
    assert set(stored_run(repository)) == {
        "cp_001_manual.json",
        "cp_002_manual.json",
        "cp_003_error.json",
        "index.json",
        "latest.json",
    }
    check_run(repository)


def test_same_checkpoint_from_two_spools_is_stored_once(tmp_path: Path, repository: MemoryGateway) -> None:
    twin: dict[str, Any] = {"checkpoint_id": "550e8400-e29b-41d4-a716-446655440000", "state": {"same": True}}
    with (
        open_workshop(tmp_path / "a", repository) as one,
        open_workshop(tmp_path / "b", repository) as other,
    ):
        one.save(**twin)
        other.save()
        other.save(**twin)
        one.worker.drain()
        other.worker.drain()
        receipt = other.spool.receipt(twin["checkpoint_id"])

    assert len(check_run(repository)) == 2
    assert receipt is not None
    assert receipt.status is Progress.VERIFIED
    assert receipt.sequence_number == 1


class GarblingGateway:
    """Gives back garbled files of one run, for as often as it is told to."""

    def __init__(self, inner: MemoryGateway, run_id: str, times: int) -> None:
        self.inner = inner
        self.run_id = run_id
        self.times = times

    def perform(self, call: Any) -> Any:
        if isinstance(call, ReadFile | ListFolder) and f"/{self.run_id}" in call.path and self.times:
            self.times -= 1
            garbled = self.inner.write_as_someone_else("elsewhere", {"x": b"garbled"})
            sha = self.inner.perform(ReadFile("x", garbled)).blob_sha
            if isinstance(call, ReadFile):
                return File(b"garbled", sha)
            listing = self.inner.perform(call)
            entries = (
                each._replace(sha=sha) if each.path.startswith("cp_") else each for each in listing.entries
            )
            return listing._replace(entries=tuple(entries))
        return self.inner.perform(call)


def test_what_is_not_stored_as_sent_is_written_again_three_times_in_all(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    with open_workshop(tmp_path, repository) as workshop:
        workshop.save("ok")
        workshop.worker.drain()
    repository.calls.clear()

    garbling = GarblingGateway(repository, "bad", times=0)
    with open_workshop(tmp_path, garbling) as workshop:
        workshop.runs.snapshot("bad")
        garbling.times = 1
        workshop.save("bad")
        workshop.worker.drain()

    puts = [call for call in repository.calls if isinstance(call, WriteFile) and "/cp_" in call.path]
    assert len(puts) == 2
    assert puts[1].content == puts[0].content
    assert puts[1].expected_sha is not None


def test_checkpoint_that_cannot_be_verified_stays_spooled_and_unindexed_and_the_others_go_on(
    tmp_path: Path, repository: MemoryGateway
) -> None:
    garbling = GarblingGateway(repository, "bad", times=0)
    with open_workshop(tmp_path, garbling) as workshop:
        workshop.runs.snapshot("bad")
        garbling.times = 999
        workshop.save("bad")
        workshop.save("good")

        result = workshop.worker.drain()

        assert (result.verified, result.left) == (1, 1)
        assert [item.run_id for item in workshop.spool.pending()] == ["bad"]
    assert "index.json" not in stored_run(repository, "bad")


def test_latest_does_not_go_back_when_an_older_number_arrives(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save(sequence_number=5)
    workshop.worker.drain()
    workshop.save(sequence_number=3)
    workshop.worker.drain()

    assert stored_run(repository)["latest.json"]["sequence_number"] == 5
    assert sorted(check_run(repository)) == [3, 5]


def test_damaged_index_is_made_anew_from_the_files(tmp_path: Path, repository: MemoryGateway) -> None:
    with open_workshop(tmp_path / "a", repository) as workshop:
        for _ in range(3):
            workshop.save()
        workshop.worker.drain()
    repository.write_as_someone_else(BRANCH, {"checkpoints/r/index.json": b"{"})

    with open_workshop(tmp_path / "b", repository) as workshop:
        workshop.save()
        workshop.worker.drain()

    assert sorted(check_run(repository)) == [1, 2, 3, 4]


def test_repository_that_cannot_be_seen_is_a_refusal_that_names_both_causes(
    workshop: Workshop, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    def gone(call: Any) -> Any:
        raise Missing(call.subject, "Not Found")

    monkeypatch.setattr(repository, "perform", gone)
    workshop.save()

    result = workshop.worker.drain()

    assert result.left == 1
    assert "does not exist, or the token may not see it" in result.reason
    assert "contents: write" in result.reason


def test_refused_content_is_set_aside_and_the_rest_of_the_run_goes_on(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    secret = workshop.save(trigger="error")
    workshop.save()
    path = "checkpoints/r/cp_002_error.json"
    refusal = Refused(path, "a secret was found", "secret_detected", "Remove it.")
    repository.fail_next(WriteFile, refusal, times=9, when=is_file("cp_002_error.json"))

    result = workshop.worker.drain()

    assert (result.verified, result.left) == (2, 0)
    receipt = workshop.spool.receipt(secret.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.REFUSED
    assert receipt.reason == "a secret was found. Remove it."
    assert put_paths(repository).count("cp_002_error.json") == 1
    assert sorted(check_run(repository)) == [1, 3]
