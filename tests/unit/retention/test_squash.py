"""Squashing: the history goes, the files stay, and nothing that is written meanwhile is lost."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import Deadline
from holdfast.emulator.app import Emulator
from holdfast.emulator.options import EmulatorOptions
from holdfast.emulator.transport import EmulatorTransport
from holdfast.errors import Conflict, Refused, Unavailable
from holdfast.github.client import GitHubClient
from holdfast.github.inspection import ReadHistory
from holdfast.github.write_calls import MoveBranch, ReplaceBranch, WriteCommit, WriteFile
from holdfast.retention import Squash
from holdfast.retention.squash import MAX_KEPT_COMMITS
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import DAY_S, NOON
from tests.fakes.workshop import Workshop, check_run, open_workshop


@pytest.fixture
def clock() -> VirtualClock:
    return VirtualClock(NOON)


@pytest.fixture
def repository() -> MemoryGateway:
    repository = MemoryGateway()
    for number in range(5):
        repository.write_as_someone_else(
            BRANCH, {f"{number}.json": b"%d" % number, "same.json": b"%d" % number}
        )
    return repository


def squash(repository: MemoryGateway, clock: VirtualClock, **options: Any) -> Any:
    return Squash(repository, BRANCH, clock, Deadline(clock)).run(**options)


def test_history_becomes_one_commit_of_the_present_files(
    repository: MemoryGateway, clock: VirtualClock
) -> None:
    files = repository.files(BRANCH)

    report = squash(repository, clock)

    (commit,) = repository.history(BRANCH)
    assert not commit.parent_shas
    assert repository.files(BRANCH) == files
    assert (report.commits_before, report.commits_after) == (5, 1)
    assert report.branch_bytes == sum(len(content) for content in files.values())


def test_history_that_is_one_commit_stays_as_it_is(repository: MemoryGateway, clock: VirtualClock) -> None:
    squash(repository, clock)
    head = repository.branches[BRANCH]

    report = squash(repository, clock)

    assert repository.branches[BRANCH] == head
    assert report.head_after == head


def test_default_branch_is_squashed_only_when_it_is_named(clock: VirtualClock) -> None:
    repository = MemoryGateway(default_branch=BRANCH)
    for number in range(3):
        repository.write_as_someone_else(BRANCH, {f"{number}.json": b"{}"})

    for force in ("", "main"):
        with pytest.raises(Refused, match="default branch"):
            squash(repository, clock, forced_branch=force)
    assert len(repository.history(BRANCH)) == 3

    squash(repository, clock, forced_branch=BRANCH)
    assert len(repository.history(BRANCH)) == 1


def test_what_is_written_meanwhile_is_not_lost(repository: MemoryGateway, clock: VirtualClock) -> None:
    def write(_: Any) -> bool:
        repository.write_as_someone_else(BRANCH, {"meanwhile.json": b"{}"})
        return False

    repository.fail_next(WriteCommit, Unavailable("", ""), when=_once(write))

    squash(repository, clock)

    assert repository.files(BRANCH)["meanwhile.json"] == b"{}"
    assert len(repository.history(BRANCH)) == 1


def _once(action: Any) -> Any:
    calls = iter([True])
    return lambda call: action(call) if next(calls, False) else False


def test_branch_that_never_rests_is_left_as_it_is(repository: MemoryGateway, clock: VirtualClock) -> None:
    repository.fail_next(ReplaceBranch, Conflict(BRANCH, "moved", kind="head_moved"), times=50)

    with pytest.raises(Conflict):
        squash(repository, clock)

    assert len(repository.history(BRANCH)) == 5


def test_lost_answer_is_settled_by_looking(repository: MemoryGateway, clock: VirtualClock) -> None:
    repository.fail_next(ReplaceBranch, Unavailable(BRANCH, "no answer"), is_applied=True)

    squash(repository, clock)

    assert len(repository.history(BRANCH)) == 1


def test_without_graphql_nothing_guards_the_move_so_it_must_be_forced(
    repository: MemoryGateway, clock: VirtualClock
) -> None:
    repository.has_graphql = False

    with pytest.raises(Refused, match="GraphQL"):
        squash(repository, clock)
    assert len(repository.history(BRANCH)) == 5

    with pytest.raises(Refused, match="GraphQL"):
        squash(repository, clock, forced_branch=BRANCH)  # the other guard is not this one
    report = squash(repository, clock, may_be_unguarded=True)
    assert len(repository.history(BRANCH)) == 1
    assert report.commits_before is None


def test_unguarded_squash_does_not_waive_the_guard_of_the_default_branch(clock: VirtualClock) -> None:
    repository = MemoryGateway(default_branch=BRANCH, has_graphql=False)
    repository.write_as_someone_else(BRANCH, {"0.json": b"{}"})

    with pytest.raises(Refused, match="default branch"):
        squash(repository, clock, may_be_unguarded=True)


def test_what_came_between_the_look_and_an_unguarded_move_is_put_back(
    repository: MemoryGateway, clock: VirtualClock
) -> None:
    repository.has_graphql = False
    gone = min(repository.files(BRANCH))

    def write(_: Any) -> bool:
        repository.write_as_someone_else(BRANCH, {"between.json": b"{}", gone: None})
        return False

    repository.fail_next(MoveBranch, Unavailable("", ""), when=_once(write))

    squash(repository, clock, may_be_unguarded=True)

    assert repository.files(BRANCH)["between.json"] == b"{}"
    assert gone not in repository.files(BRANCH)
    assert len(repository.history(BRANCH)) == 2


def test_commits_of_the_last_days_are_made_again_on_top(clock: VirtualClock) -> None:
    repository = MemoryGateway()
    for number in range(6):
        repository.date = f"2027-01-{10 + number:02d}T08:00:00Z"
        repository.write_as_someone_else(BRANCH, {f"{number}.json": b"{}"})
    trees = [commit.tree_sha for commit in repository.history(BRANCH)]

    report = squash(repository, clock, keep_days=2.5)

    history = repository.history(BRANCH)
    assert [commit.tree_sha for commit in history] == trees[:4]
    assert [commit.committer.date[:10] for commit in history if commit.committer] == [
        "2027-01-15",
        "2027-01-14",
        "2027-01-13",
        "2027-01-12",
    ]
    assert (report.commits_before, report.commits_after) == (6, 4)
    assert squash(repository, clock, keep_days=2.5).commits_after == 4


def test_history_within_the_kept_days_stays_as_it_is(repository: MemoryGateway, clock: VirtualClock) -> None:
    head = repository.branches[BRANCH]

    squash(repository, clock, keep_days=3)

    assert repository.branches[BRANCH] == head


def test_too_many_commits_to_keep_are_refused(repository: MemoryGateway, clock: VirtualClock) -> None:
    for number in range(MAX_KEPT_COMMITS + 1):
        repository.write_as_someone_else(BRANCH, {"same.json": b"%d" % number})

    with pytest.raises(Refused, match="made again"):
        squash(repository, clock, keep_days=3)

    assert repository.count(ReadHistory) > 1


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_writers_at_work_recover_from_a_squash(
    mode: str, repository: MemoryGateway, clock: VirtualClock, tmp_path: Path
) -> None:
    with open_workshop(tmp_path, repository, mode=mode) as workshop:
        _store(workshop, 2)
        squash(repository, clock)
        _store(workshop, 2)
        workshop.save()
        repository.fail_next(
            WriteFile if mode == "contents" else ReplaceBranch,
            Unavailable("", ""),
            when=_once(lambda _: bool(squash(repository, clock)) and False),
        )
        assert workshop.worker.drain().left == 0

    assert check_run(repository).keys() == {1, 2, 3, 4, 5}


def _store(workshop: Workshop, count: int) -> None:
    for _ in range(count):
        workshop.save()
        assert workshop.worker.drain().left == 0


@pytest.fixture
def client(tmp_path: Path, clock: VirtualClock) -> Iterator[GitHubClient]:
    options = EmulatorOptions(root=tmp_path, repo="holdfast/checkpoints", clock=clock.now)
    emulator = Emulator(options)
    transport = EmulatorTransport(emulator, sleep=clock.sleep)
    with GitHubClient(
        "holdfast/checkpoints",
        token=lambda: "t",
        api_url="http://github.test",
        clock=clock,
        transport=transport,
    ) as client:
        yield client
    emulator.close()


def test_squash_works_over_http_with_dates_kept(client: GitHubClient, clock: VirtualClock) -> None:
    client.perform(WriteFile("README.md", b"hello", "First", branch=""))
    for number in range(4):
        clock.time += DAY_S
        client.perform(WriteFile(f"{number}.json", b"{}", f"Day {number}", "main"))

    report = Squash(client, "main", clock, Deadline(clock)).run(keep_days=1.5, forced_branch="main")

    history = client.perform(ReadHistory(report.head_after))
    assert [commit.message.splitlines()[0][:5] for commit in history] == ["Day 3", "Day 2", "Every"]
    assert (report.commits_before, report.commits_after) == (5, 3)
    assert report.bytes_after > 0
