"""How a sweep reaches the branch: by the best way there is, never by force, whole or not at all."""

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Conflict, Missing, Refused, Throttled, Unavailable
from holdfast.github.presence import ASK_AGAIN_S
from holdfast.github.write_calls import CommitFiles, DeleteFile, MoveBranch, WriteFile, WriteTree
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import Desk, open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_run, with_paths

LOG = "checkpoints/retention_log.json"


def test_moved_branch_is_planned_again_and_nothing_is_forced(desk: Desk) -> None:
    def move(call: Any) -> bool:
        files = make_run("old", 4, at=NOON + 60)
        desk.repository.write_as_someone_else(BRANCH, with_paths({"old": files}))
        return True

    conflict = Conflict(BRANCH, "moved", kind="head_moved")
    desk.repository.fail_next(CommitFiles, conflict, when=move)

    desk.sweeper.sweep()

    assert len(desk.names("old")) == 6, "it is the most recent run now"
    assert desk.names("new") == {"latest.json"}


def test_branch_that_never_rests_ends_the_sweep(desk: Desk) -> None:
    conflict = Conflict(BRANCH, "moved", kind="head_moved")
    desk.repository.fail_next(CommitFiles, conflict, times=50)

    with pytest.raises(Conflict):
        desk.sweeper.sweep()


@pytest.mark.parametrize("is_applied", [True, False])
def test_lost_answer_is_settled_by_looking(desk: Desk, *, is_applied: bool) -> None:
    desk.repository.fail_next(CommitFiles, Unavailable(BRANCH, "no answer"), is_applied=is_applied)

    desk.sweeper.sweep()

    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}


@pytest.mark.parametrize(
    "error", [Unavailable(BRANCH, "timed out"), Refused(BRANCH, "too large", "invalid", "")]
)
def test_commit_that_is_too_much_is_tried_in_smaller_ones(desk: Desk, error: Any) -> None:
    desk.sweeper.max_files = 8
    limit = 5
    desk.repository.fail_next(
        CommitFiles, error, times=50, when=lambda call: len(call.deletions) + len(call.additions) > limit + 2
    )

    report = desk.sweeper.sweep()

    assert len(report.commits) == 2
    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}
    log = json.loads(desk.repository.files(BRANCH)[LOG])
    assert len(log["sweeps"]) == 2


def test_refusal_that_a_person_must_mend_is_raised_at_once(desk: Desk) -> None:
    desk.repository.fail_next(CommitFiles, Refused(BRANCH, "no", "protected_branch", "Ask."))

    with pytest.raises(Refused):
        desk.sweeper.sweep()

    assert desk.repository.count(CommitFiles) == 1


def test_without_graphql_the_git_data_api_makes_the_one_commit(desk: Desk) -> None:
    desk.repository.has_graphql = False
    before = len(desk.repository.history(BRANCH))

    desk.sweeper.sweep()

    assert len(desk.repository.history(BRANCH)) == before + 1
    assert desk.repository.count(MoveBranch) == 1
    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}


def test_graphql_that_was_missing_for_a_moment_commits_the_next_sweep(desk: Desk) -> None:
    desk.repository.has_graphql = False
    desk.sweeper.sweep()
    desk.repository.has_graphql = True
    desk.clock.sleep(ASK_AGAIN_S)
    newest = make_run("newest", 2, at=NOON + 60)
    desk.repository.write_as_someone_else(BRANCH, with_paths({"newest": newest}))
    moves, commits = desk.repository.count(MoveBranch), desk.repository.count(CommitFiles)

    desk.sweeper.sweep()

    assert desk.names("new") == {"latest.json"}
    assert (desk.repository.count(MoveBranch), desk.repository.count(CommitFiles)) == (moves, commits + 1)


def test_branch_that_moves_under_the_git_data_api_is_planned_again(desk: Desk) -> None:
    desk.repository.has_graphql = False
    moves = iter([True])

    def move(_: Any) -> bool:
        if next(moves, False):
            desk.repository.write_as_someone_else(BRANCH, {"notes.txt": b"hello"})
        return False

    desk.repository.fail_next(WriteTree, Unavailable("", ""), when=move)

    desk.sweeper.sweep()

    assert desk.repository.files(BRANCH)["notes.txt"] == b"hello"
    assert desk.names("old") == {"latest.json"}


def test_as_a_last_resort_files_go_one_by_one_and_the_index_first(desk: Desk) -> None:
    desk.repository.has_graphql = False
    desk.repository.fail_next(WriteTree, Missing("trees", "there is no such thing"), times=9)

    desk.sweeper.sweep()

    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}
    changed = [
        call.path.removeprefix("checkpoints/")
        for call in desk.repository.calls
        if isinstance(call, WriteFile | DeleteFile)
    ]
    assert changed.index("older/summary.json") < changed.index("older/index.json")
    assert changed.index("older/index.json") < changed.index("older/cp_001_manual.json")
    assert changed.index("older/cp_003_manual.json") < changed.index("older/latest.json")


def test_last_resort_that_is_interrupted_is_finished_by_the_next(desk: Desk) -> None:
    desk.repository.has_graphql = False
    desk.repository.fail_next(WriteTree, Missing("trees", "there is no such thing"), times=99)
    stopped = Throttled("", "enough", kind="primary", retry_after_s=60)
    desk.repository.fail_next(DeleteFile, stopped, when=lambda call: "cp_002" in call.path)

    with pytest.raises(Throttled):
        desk.sweeper.sweep()
    desk.sweeper.sweep()

    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}


def test_last_resort_stops_when_someone_else_writes(desk: Desk) -> None:
    desk.repository.has_graphql = False
    desk.repository.fail_next(WriteTree, Missing("trees", "there is no such thing"), times=99)
    moves = iter([True])

    def move(call: Any) -> bool:
        if next(moves, False):
            desk.repository.write_as_someone_else(BRANCH, {"notes.txt": b"hello"})
        return False

    desk.repository.fail_next(DeleteFile, Unavailable("", ""), when=move)

    desk.sweeper.sweep()

    assert desk.names("older") == {"summary.json"}
    assert "notes.txt" in desk.repository.files(BRANCH)


class Killed(BaseException):
    """The process is gone."""


@dataclass
class DeadlyGateway:
    """Passes calls on until it kills the process: instead of a call, or once it is carried out."""

    inner: MemoryGateway
    calls_left: int
    is_applied: bool

    def perform(self, call: Any) -> Any:
        self.calls_left -= 1
        if self.calls_left >= 0:
            return self.inner.perform(call)
        if self.is_applied:
            self.inner.perform(call)
        raise Killed


@pytest.mark.slow
@pytest.mark.parametrize("has_graphql", [True, False])
def test_death_at_any_point_leaves_the_old_or_the_new_state(tmp_path: Path, *, has_graphql: bool) -> None:
    runs = {name: make_run(name, at=NOON - age) for name, age in (("new", 10), ("old", 20), ("older", 30))}

    def sweep(calls: int, *, is_applied: bool) -> tuple[MemoryGateway, bool]:
        folder = tmp_path / f"{calls}-{is_applied}"
        repository = MemoryGateway()
        repository.has_graphql = has_graphql
        repository.write_as_someone_else(BRANCH, with_paths(runs))
        with open_desk(folder, repository, VirtualClock(NOON)) as desk:
            gateway = DeadlyGateway(repository, calls, is_applied)
            desk.sweeper.scanner.gateway = desk.sweeper.committer.gateway = gateway
            try:
                desk.sweeper.sweep()
            except Killed:
                return repository, True
            return repository, False

    old, new = with_paths(runs), sweep(100, is_applied=False)[0].files(BRANCH)
    deaths = 0
    for calls in range(100):
        for is_applied in (False, True):
            repository, is_dead = sweep(calls, is_applied=is_applied)
            deaths += is_dead
            assert repository.files(BRANCH) in (old, new)
            with open_desk(tmp_path / f"{calls}-{is_applied}", repository, VirtualClock(NOON)) as desk:
                desk.sweeper.sweep()
            assert repository.files(BRANCH) == new
        if not is_dead:
            break
    assert deaths >= 2 * 5
