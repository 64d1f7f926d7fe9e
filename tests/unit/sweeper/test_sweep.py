"""The sweep on a repository in memory: one commit, planned again when the branch moves, nothing forced."""

import json
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.core.envelope import draft_from_mapping
from holdfast.core.limits import Limits
from holdfast.core.parts import seal_in_parts
from holdfast.core.rules import RetentionRules
from holdfast.errors import (
    Conflict,
    IntegrityFailure,
    Missing,
    Refused,
    Stopped,
    SweepBusy,
    Throttled,
    Unavailable,
)
from holdfast.github.gateway import (
    CommitFiles,
    DeleteFile,
    MoveBranch,
    ReadBlob,
    ReadBlobs,
    ReadTree,
    WriteFile,
    WriteTree,
)
from holdfast.ledger import Ledger
from holdfast.mirror import Mirror
from holdfast.spool import Spool
from holdfast.sweeper import Sweeper
from holdfast.sweeper.committing import Committer
from holdfast.sweeper.modest import ModestGateway
from holdfast.sweeper.survey import Surveyor
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.spooling import open_spool
from tests.fakes.stored_runs import LAYOUT, NOON, make_envelope, make_run, run_files, with_paths
from tests.fakes.workshop import BRANCH

SMALL = RetentionRules(full_runs=1, latest_runs=2)
LOG = "checkpoints/retention_log.json"


@dataclass
class Desk:
    """A sweeper with all that it works with."""

    repository: MemoryGateway
    sweeper: Sweeper
    spool: Spool
    clock: VirtualClock

    def names(self, run_id: str) -> set[str]:
        prefix = f"checkpoints/{run_id}/"
        files = self.repository.files(BRANCH)
        return {path.removeprefix(prefix) for path in files if path.startswith(prefix)}

    def writes(self) -> int:
        return sum(call.is_mutation for call in self.repository.calls)


@pytest.fixture
def desk(tmp_path: Path) -> Iterator[Desk]:
    repository, clock = MemoryGateway(), VirtualClock(NOON)
    runs = {name: make_run(name, at=NOON - age) for name, age in (("new", 10), ("old", 20), ("older", 30))}
    repository.write_as_someone_else(BRANCH, with_paths(runs))
    with open_desk(tmp_path, repository, clock) as desk:
        yield desk


@contextmanager
def open_desk(
    folder: Path, repository: MemoryGateway, clock: VirtualClock, rules: RetentionRules = SMALL
) -> Iterator[Desk]:
    """Open a desk over a repository; opening it again is a restart."""
    spool, mirror = open_spool(folder / "spool", clock=clock), Mirror.open(folder / "mirror")
    sweeper = Sweeper(
        surveyor=Surveyor(repository, mirror, LAYOUT, BRANCH),
        committer=Committer(repository, BRANCH),
        spool=spool,
        mirror=mirror,
        layout=LAYOUT,
        rules=rules,
        clock=clock,
        lock_folder=folder,
    )
    try:
        yield Desk(repository, sweeper, spool, clock)
    finally:
        mirror.close()
        spool.close()


def test_whole_sweep_is_one_commit(desk: Desk) -> None:
    before = len(desk.repository.history(BRANCH))

    report = desk.sweeper.sweep()

    assert len(desk.repository.history(BRANCH)) == before + 1
    assert report.commits == [desk.repository.branches[BRANCH]]
    assert desk.names("new") == {*(f"cp_00{n}_manual.json" for n in (1, 2, 3)), "index.json", "latest.json"}
    assert desk.names("old") == {"latest.json"}
    assert desk.names("older") == {"summary.json"}


def test_commit_and_log_say_what_was_done(desk: Desk) -> None:
    desk.sweeper.sweep()

    assert desk.repository.history(BRANCH)[0].message == (
        "Retention: 9 files of 2 runs deleted\n\ntrim old\narchive older"
    )
    log = json.loads(desk.repository.files(BRANCH)[LOG])
    assert log["sweeps"][0]["deleted_files"] == 9
    assert log["sweeps"][0]["actions"] == [
        {"run_id": "old", "action": "trim"},
        {"run_id": "older", "action": "archive"},
    ]
    assert log["runs"].keys() == {"old"}


def test_plan_changes_nothing(desk: Desk) -> None:
    head = desk.repository.branches[BRANCH]

    report = desk.sweeper.plan()

    assert {run.run_id for run in report.plan.changes} == {"old", "older"}
    assert desk.repository.branches[BRANCH] == head
    assert desk.writes() == 0


def test_second_sweep_finds_nothing_to_do(desk: Desk) -> None:
    desk.sweeper.sweep()
    head = desk.repository.branches[BRANCH]

    assert not desk.sweeper.sweep().done
    assert desk.repository.branches[BRANCH] == head


def test_what_was_read_once_is_not_read_again(desk: Desk, tmp_path: Path) -> None:
    desk.sweeper.plan()
    desk.repository.calls.clear()

    desk.sweeper.sweep()

    assert [type(call) for call in desk.repository.calls if call.is_mutation] == [CommitFiles]
    assert not [call for call in desk.repository.calls if isinstance(call, ReadBlob | ReadBlobs)]
    assert desk.repository.count(ReadTree) == 2


def test_empty_repository_and_missing_branch_are_nothing_to_clean(tmp_path: Path) -> None:
    with open_desk(tmp_path, MemoryGateway(), VirtualClock(NOON)) as desk:
        assert not desk.sweeper.sweep().plan.runs


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


def test_run_with_checkpoints_in_the_spool_is_not_touched(desk: Desk) -> None:
    desk.spool.put(draft("older"))

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    assert desk.names("old") == {"latest.json"}


def test_run_whose_checkpoint_was_set_aside_is_not_touched(desk: Desk) -> None:
    desk.spool.put(draft("older"))
    desk.spool.set_aside(desk.spool.pending()[0], "a secret in it")

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_checkpoint_that_comes_in_during_the_sweep_is_noticed(desk: Desk) -> None:
    def arrive(_: Any) -> bool:
        desk.spool.put(draft("older"))
        return False

    desk.repository.fail_next(ReadBlobs, Unavailable("", ""), when=arrive)

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    assert desk.names("old") == {"latest.json"}


def draft(run_id: str) -> Any:
    checkpoint = {"run_id": run_id, "trigger": "manual", "state": {}}
    return draft_from_mapping(
        checkpoint, now="2027-01-15T08:00:00Z", new_id=lambda: "550e8400-e29b-41d4-a716-446655440000"
    )


def test_preserved_run_is_not_touched(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/preserved_runs.json": b'["older"]'})

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_list_of_preserved_runs_that_cannot_be_read_ends_the_sweep(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/preserved_runs.json": b'["older"'})

    with pytest.raises(IntegrityFailure):
        desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_damaged_run_is_left_and_told_of(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/older/index.json": b'{"che'})

    report = desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    left = {run.run_id: run.reason for run in report.plan.runs if run.action == "leave"}
    assert "index.json is damaged" in left["older"]


def test_latest_that_is_damaged_is_found_before_it_is_all_that_is_left(desk: Desk) -> None:
    files = make_run("older")
    broken = {
        "checkpoints/older/latest.json": files["latest.json"][:-9],
        "checkpoints/older/index.json": None,
    }
    cps = {f"checkpoints/older/cp_00{n}_manual.json": None for n in (1, 2, 3)}
    desk.repository.write_as_someone_else(BRANCH, {**broken, **cps})

    desk.sweeper.sweep()

    assert desk.names("older") == {"latest.json"}


def test_files_of_others_stay_and_are_told_of(desk: Desk) -> None:
    strange = {
        "checkpoints/notes.txt": b"hello",
        "checkpoints/.hidden/x.json": b"{}",
        "checkpoints/older/report.pdf": b"%PDF",
    }
    desk.repository.write_as_someone_else(BRANCH, strange)

    report = desk.sweeper.sweep()

    assert set(report.strangers) == {
        "checkpoints/notes.txt",
        "checkpoints/.hidden",
        "checkpoints/older/report.pdf",
    }
    assert strange.items() <= desk.repository.files(BRANCH).items()
    assert desk.names("older") == {"summary.json", "report.pdf"}


def test_damaged_log_is_begun_anew(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {LOG: b"not json"})

    desk.sweeper.sweep()

    assert len(json.loads(desk.repository.files(BRANCH)[LOG])["sweeps"]) == 1


def test_large_checkpoint_keeps_its_parts_and_its_summary_is_made_of_them(tmp_path: Path) -> None:
    state = {"phase_outputs": {"phase_1": "x" * 9000, "phase_2": "y"}, "cost_accumulated": 2}
    envelopes = [
        seal_in_parts(
            make_envelope("r", n, state=state, status="completed").content.rsplit(b',"integrity"', 1)[0]
            + b"}",
            limit_bytes=4000,
            run_folder="checkpoints/r",
        )
        for n in (1, 2)
    ]
    parts = {name: content for envelope in envelopes for name, content in envelope.parts.items()}
    assert parts
    files = {**run_files("r", envelopes, last_updated="2027-01-15T08:00:00Z"), **parts}
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, with_paths({"r": files}))

    with open_desk(tmp_path, repository, VirtualClock(NOON), RetentionRules(0, 1)) as desk:
        desk.sweeper.sweep()
        assert desk.names("r") == {"latest.json", *parts}
        desk.sweeper.rules = RetentionRules(0, 0)
        desk.sweeper.sweep()
        assert desk.names("r") == {"summary.json"}

    summary = json.loads(repository.files(BRANCH)["checkpoints/r/summary.json"])
    assert (summary["phases_completed"], summary["total_cost_usd"]) == (2, 2)


def test_listing_that_github_cuts_off_is_replaced_by_folders(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    runs = {f"r{n}": make_run(f"r{n}", 1, at=NOON - 100 - n) for n in range(6)}
    desk.repository.write_as_someone_else(BRANCH, with_paths(runs))
    whole = desk.repository._answer

    def cut(call: Any) -> Any:
        answer = whole(call)
        if isinstance(call, ReadTree) and call.is_recursive and len(answer.entries) > 10:
            return type(answer)(answer.entries[:10], is_complete=False)
        return answer

    monkeypatch.setattr(desk.repository, "_answer", cut)

    desk.sweeper.sweep()

    assert desk.names("r5") == {"summary.json"}
    assert desk.names("new") == {*(f"cp_00{n}_manual.json" for n in (1, 2, 3)), "index.json", "latest.json"}


@pytest.mark.parametrize(
    "error",
    [
        Throttled(BRANCH, "for checkpoints", kind="own_budget", retry_after_s=60),
        Stopped("told to stop"),
    ],
)
def test_sweep_that_is_cut_short_tells_what_it_did_and_the_next_goes_on(desk: Desk, error: Any) -> None:
    desk.sweeper.max_files = 5
    commits = iter([False, True])
    desk.repository.fail_next(CommitFiles, error, when=lambda _: next(commits))

    first, second = desk.sweeper.sweep(), desk.sweeper.sweep()

    assert [run.run_id for run in first.done] == ["old"]
    assert first.rest_because == str(error)
    assert [run.run_id for run in second.done] == ["older"]
    assert not second.rest_because


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
            desk.sweeper.surveyor.gateway = desk.sweeper.committer.gateway = gateway
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


def test_folder_with_more_runs_than_github_lists_is_refused_as_nobody_knows_what_is_preserved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = desk.repository._answer

    def cut(call: Any) -> Any:
        answer = whole(call)
        is_base = isinstance(call, ReadTree) and any(entry.path == "older" for entry in answer.entries)
        return type(answer)(answer.entries[:2], is_complete=False) if is_base else answer

    monkeypatch.setattr(desk.repository, "_answer", cut)

    with pytest.raises(Refused, match="more than GitHub lists"):
        desk.sweeper.sweep()

    assert desk.writes() == 0


def test_only_one_sweeps_at_a_time(desk: Desk, tmp_path: Path) -> None:
    script = (
        "import sys; from filelock import FileLock; lock = FileLock(sys.argv[1]); lock.acquire();"
        " print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "sweep.lock")],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )
    with holder:
        assert holder.stdout is not None
        assert holder.stdout.readline() == "held\n"
        with pytest.raises(SweepBusy):
            desk.sweeper.sweep()
        holder.kill()
    desk.sweeper.sweep()

    assert desk.names("old") == {"latest.json"}


def test_prune_touches_only_the_runs_that_it_is_told(desk: Desk) -> None:
    desk.sweeper.rules = RetentionRules(0, 0, checkpoints=1)

    report = desk.sweeper.prune(["old"])

    assert desk.names("old") == {"index.json", "latest.json", "cp_003_manual.json"}
    assert len(desk.names("older")) == 5
    assert [run.run_id for run in report.done] == ["old"]


def test_low_budget_is_left_to_checkpoints(desk: Desk, tmp_path: Path) -> None:
    ledger = Ledger(tmp_path / "budget.json", Limits(requests_per_hour=50), desk.clock)
    desk.sweeper.surveyor.gateway = ModestGateway(desk.repository, ledger, desk.clock)

    with pytest.raises(Throttled):
        desk.sweeper.sweep()

    assert not desk.repository.calls
