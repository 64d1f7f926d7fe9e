"""The sweep on a repository in memory: what it commits, what it says, and that one runs at a time."""

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import Stopped, SweepBusy, Throttled
from holdfast.github.calls import ReadBlob, ReadBlobs, ReadTree
from holdfast.github.wrappers.low_priority import LowPriorityGateway
from holdfast.github.write_calls import CommitFiles
from holdfast.ratelimit.limits import Limits
from holdfast.ratelimit.shared_file import FileRateLimiter
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import Desk, open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_run, with_paths

LOG = "checkpoints/retention_log.json"


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


def test_damaged_log_is_begun_anew(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {LOG: b"not json"})

    desk.sweeper.sweep()

    assert len(json.loads(desk.repository.files(BRANCH)[LOG])["sweeps"]) == 1


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


@pytest.mark.slow
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


@pytest.mark.processes
def test_only_one_sweeps_at_a_time(desk: Desk) -> None:
    script = (
        "import fcntl, sys; lock = open(sys.argv[1], 'w'); fcntl.flock(lock, fcntl.LOCK_EX);"
        " print('held', flush=True); sys.stdin.read()"
    )
    holder = subprocess.Popen(
        [sys.executable, "-c", script, str(desk.sweeper.lock_folder / "sweep.lock")],
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
    rate_limiter = FileRateLimiter(tmp_path / "budget.json", Limits(requests_per_hour=50), desk.clock)
    desk.sweeper.scanner.gateway = LowPriorityGateway(desk.repository, rate_limiter, desk.clock)

    with pytest.raises(Throttled):
        desk.sweeper.sweep()

    assert not desk.repository.calls
