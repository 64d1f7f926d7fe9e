"""The commit mode: everything in one commit, on top of the head that was read."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.errors import Missing, Refused, Unavailable
from holdfast.format.receipt import Progress
from holdfast.github.calls import NO_GRAPHQL, ReadPage
from holdfast.github.presence import ASK_AGAIN_S
from holdfast.github.write_calls import CommitFiles, WriteFile
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run, open_workshop, stored_run


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    repository.write_as_someone_else("main", {"README.md": b"code"})
    return repository


@pytest.fixture
def workshop(tmp_path: Path, repository: MemoryGateway) -> Iterator[Workshop]:
    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        yield workshop


def test_checkpoints_of_all_runs_go_into_one_commit(workshop: Workshop, repository: MemoryGateway) -> None:
    for run_id in ("a", "b", "c"):
        for _ in range(3):
            workshop.save(run_id)

    result = workshop.worker.drain()

    assert result.verified == 9
    assert repository.count(CommitFiles) == 1
    for run_id in ("a", "b", "c"):
        assert sorted(check_run(repository, run_id)) == [1, 2, 3]


@pytest.mark.slow
def test_one_at_a_time_costs_one_request_each(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    workshop.worker.drain()
    repository.calls.clear()
    for _ in range(10):
        workshop.save()
        workshop.worker.drain()

    assert len(repository.calls) == 10
    assert len(check_run(repository)) == 11


def test_commit_message_names_the_checkpoint(workshop: Workshop, repository: MemoryGateway) -> None:
    receipt = workshop.save()
    workshop.worker.drain()

    assert repository.history(BRANCH)[0].message.startswith(f"Checkpoint {receipt.checkpoint_id}")


def test_receipt_has_commit_and_blob(workshop: Workshop, repository: MemoryGateway) -> None:
    receipt = workshop.save()
    workshop.worker.drain()

    final = workshop.spool.receipt(receipt.checkpoint_id)

    assert final is not None
    assert final.status is Progress.VERIFIED
    assert final.commit_sha == repository.branches[BRANCH]


def test_moved_head_is_read_merged_and_committed_again(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save()
    workshop.worker.drain()
    repository.write_as_someone_else(BRANCH, {"other.txt": b"moved"})
    workshop.save()

    assert workshop.worker.drain().verified == 1
    assert len(check_run(repository)) == 2
    assert repository.files(BRANCH)["other.txt"] == b"moved"


@pytest.mark.slow
def test_two_writers_of_one_run_lose_nothing(tmp_path: Path, repository: MemoryGateway) -> None:
    with (
        open_workshop(tmp_path / "a", repository, mode="commit") as one,
        open_workshop(tmp_path / "b", repository, mode="commit") as other,
        open_workshop(tmp_path / "c", repository, mode="contents") as third,
    ):
        for _ in range(4):
            for workshop in (one, other, third):
                workshop.save()
            for workshop in (one, other, third):
                assert workshop.worker.drain(timeout_s=60).left == 0

    assert sorted(check_run(repository)) == list(range(1, 13))


def test_lost_answer_is_settled_by_reading_not_committed_twice(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save()
    workshop.worker.drain()
    commits = len(repository.history(BRANCH))
    repository.fail_next(CommitFiles, Unavailable("x", "cut"), is_applied=True)
    workshop.save()

    assert workshop.worker.drain().verified == 1
    assert len(repository.history(BRANCH)) == commits + 1
    check_run(repository)


def test_commit_that_did_not_land_is_made_again(workshop: Workshop, repository: MemoryGateway) -> None:
    repository.fail_next(CommitFiles, Unavailable("x", "cut"))
    workshop.save()

    assert workshop.worker.drain().verified == 1
    check_run(repository)


def test_crash_after_the_commit_is_found_by_the_next_process(
    tmp_path: Path, repository: MemoryGateway, monkeypatch: pytest.MonkeyPatch
) -> None:
    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        workshop.save()
        repository.fail_next(CommitFiles, Unavailable("x", "cut"), is_applied=True)
        repository.fail_next(
            ReadPage, Unavailable("x", "down"), times=9, when=lambda _: len(repository.calls) > 9
        )
        monkeypatch.setattr(workshop.spool, "acknowledge", _crash)
        with pytest.raises(_Crash):
            workshop.worker.drain(timeout_s=60)

    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        assert workshop.worker.drain(timeout_s=60).verified == 1
    assert len(check_run(repository)) == 1


class _Crash(BaseException):
    """The process dies here."""


def _crash(_: object) -> None:
    raise _Crash


def test_server_without_graphql_is_written_in_contents_mode(tmp_path: Path) -> None:
    repository = MemoryGateway(has_graphql=False)
    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        workshop.save()

        assert workshop.worker.drain().verified == 1
        assert repository.count(WriteFile) >= 3
    check_run(repository)


def test_graphql_that_was_missing_for_a_moment_is_used_again(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    repository.fail_next(ReadPage, Missing(NO_GRAPHQL, "404"))
    workshop.save()
    assert workshop.worker.drain().verified == 1
    assert repository.count(CommitFiles) == 0
    written_singly = repository.count(WriteFile)

    workshop.clock.sleep(ASK_AGAIN_S)
    workshop.save()
    assert workshop.worker.drain().verified == 1

    assert (repository.count(CommitFiles), repository.count(WriteFile)) == (1, written_singly)
    assert list(check_run(repository)) == [1, 2]


@pytest.mark.slow
def test_missing_graphql_is_told_once_until_it_is_found(tmp_path: Path) -> None:
    repository = MemoryGateway(has_graphql=False)
    with open_workshop(tmp_path, repository, mode="commit") as workshop, capture_logs() as logs:
        for has_graphql in (False, False, True, True, False):
            repository.has_graphql = has_graphql
            for run_id in ("a", "b"):
                workshop.save(run_id)
                assert workshop.worker.drain().verified == 1
            workshop.clock.sleep(ASK_AGAIN_S)

    told = [entry["event"] for entry in logs if entry["event"].startswith("graphql_")]
    assert told == ["graphql_missing", "graphql_found", "graphql_missing"]
    assert list(check_run(repository, "a")) == list(check_run(repository, "b")) == [1, 2, 3, 4, 5]


def test_server_without_graphql_is_not_asked_with_every_commit(tmp_path: Path) -> None:
    repository = MemoryGateway(has_graphql=False)
    with open_workshop(tmp_path, repository, mode="commit") as workshop:
        for _ in range(3):
            workshop.save()
            workshop.worker.drain()

    assert repository.count(ReadPage) == 1


def test_refused_checkpoint_among_many_is_found_and_set_aside_alone(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save("a")
    secret = workshop.save("b")
    refusal = Refused(BRANCH, "a secret was found", "secret_detected", "Remove it.")
    repository.fail_next(CommitFiles, refusal)
    path = "checkpoints/b/cp_001_manual.json"
    refusal = Refused(path, "a secret was found", "secret_detected", "Remove it.")
    repository.fail_next(WriteFile, refusal, when=lambda call: call.path == path)

    assert workshop.worker.drain().verified == 1
    receipt = workshop.spool.receipt(secret.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.REFUSED
    assert "index.json" in stored_run(repository, "a")
