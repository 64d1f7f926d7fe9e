"""Reviews, rollbacks, forks and deletions, as people type them."""

from pathlib import Path
from subprocess import run as run_process
from typing import Any

import pytest

from holdfast.retention.commit import Committer

from .conftest import Ended, Holdfast


def submit(holdfast: Holdfast, run_id: str, *options: str, state: str = "{}") -> Ended:
    return holdfast("submit", "-", "--run-id", run_id, "--json", *options, stdin=state)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "resumable", "status"),
    [("continue", True, "in_progress"), ("retry", True, "in_progress"), ("stop", False, "failed")],
)
def test_a_review_decides_what_a_run_waits_for(
    holdfast: Holdfast, decision: str, resumable: bool, status: str
) -> None:
    submit(holdfast, "r", "--trigger", "circuit_breaker", "--phase", "phase_2", "--wait")
    submit(holdfast, "r", "--trigger", "error", "--status", "failed")
    assert [run["run_id"] for run in holdfast("runs", "--review", "--json").document["runs"]] == ["r"]

    ended = holdfast("review", "r", "--decision", decision, "--note", "seen", "--by", "ada", "--json")

    assert (ended.code, ended.document["status"], ended.document["sequence_number"]) == (0, "verified", 3)
    plan = holdfast("resume", "r", "--json").document
    assert (plan["resumable"], plan["status"], plan["needs_review"]) == (resumable, status, False)
    assert plan["context_fields"]["review"] == {"decision": decision, "note": "seen", "by": "ada"}
    assert (plan["phase"], plan["trigger"], plan["review"]) == ("phase_2", "review", None)
    assert holdfast("runs", "--review", "--json").document["runs"] == []
    (run,) = holdfast("runs", "--json").document["runs"]
    assert run["resumable"] == resumable


@pytest.mark.slow
@pytest.mark.parametrize(
    ("decision", "completed", "remaining"), [("continue", ["pay"], ["mail"]), ("retry", [], ["pay", "mail"])]
)
def test_a_review_says_whether_a_task_that_was_cut_off_is_done(
    holdfast: Holdfast, decision: str, completed: list[str], remaining: list[str]
) -> None:
    tasks = '{"pay": {"status": "in_progress", "idempotent": false}, "mail": {"status": "pending"}}'
    submit(holdfast, "r", state=f'{{"progress": {{"style": "tasks", "tasks": {tasks}}}}}')
    assert holdfast("resume", "r", "--json").document["review"]["kind"] == "escalation"

    assert holdfast("review", "r", "--decision", decision).code == 0

    plan = holdfast("resume", "r", "--json").document
    assert (plan["needs_review"], plan["completed"], plan["remaining"]) == (False, completed, remaining)


@pytest.mark.slow
def test_nothing_to_review_is_a_failure(holdfast: Holdfast) -> None:
    submit(holdfast, "r")

    ended = holdfast("review", "r", "--decision", "continue")

    assert (ended.code, "does not wait for a review" in ended.err) == (1, True)
    assert holdfast("review", "r", "--decision", "perhaps").code == 2


@pytest.mark.slow
def test_a_rollback_goes_on_where_the_older_checkpoint_did(holdfast: Holdfast) -> None:
    state = '{"phase_outputs":{"phase_1":{}},"price":1.10}'
    submit(holdfast, "r", "--trigger", "phase_complete", "--phase", "phase_1", state=state)
    submit(holdfast, "r", "--trigger", "run_complete", "--status", "completed", "--wait")

    ended = holdfast("rollback", "r", "1", "--note", "again")

    assert ended.out == "r goes on from checkpoint 1, carried on in checkpoint 3, which is verified.\n"
    plan = holdfast("resume", "r", "--json")
    assert f'"state":{state}' in plan.out
    assert (plan.document["resume_at"], plan.document["resumable"]) == ("phase_2", True)
    back = plan.document["context_fields"]["rollback"]
    assert (back["sequence_number"], back["trigger"], back["note"]) == (1, "phase_complete", "again")
    assert len(holdfast("list", "r", "--json").document["checkpoints"]) == 3
    assert holdfast("rollback", "r", "9").code == 1


@pytest.mark.slow
def test_a_fork_begins_another_run_and_leaves_the_old_one(holdfast: Holdfast) -> None:
    first = submit(holdfast, "r", state="1").document["checkpoint_id"]
    submit(holdfast, "r", "--wait", state="2")

    ended = holdfast("fork", "r", first, "s", "--json")

    assert (ended.document["run_id"], ended.document["sequence_number"]) == ("s", 1)
    shown = holdfast("show", "s", "--json").document
    assert shown["state_snapshot"] == 1
    assert shown["forked_from"] == {"run_id": "r", "checkpoint_id": first}
    assert len(holdfast("list", "r", "--json").document["checkpoints"]) == 2
    again = holdfast("fork", "r", "1", "s")
    assert (again.code, "there is a run 's' already" in again.err) == (1, True)


@pytest.mark.slow
def test_a_fork_takes_no_name_of_an_archived_run(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DELETE_COMPLETED", "true")
    submit(holdfast, "old", "--wait", state="1")
    holdfast("complete", "old")
    submit(holdfast, "r", "--wait", state="1")

    ended = holdfast("fork", "r", "1", "old")

    told = "there is a run 'old' already, which is archived; choose another name"
    assert (ended.code, told in ended.err) == (1, True)
    assert "holdfast show old" in holdfast("resume", "old").err


def history(data_dir: Path) -> list[str]:
    (repository,) = (data_dir / "github").rglob("*.git")
    command = ["git", "-C", str(repository), "log", "--format=%s", "checkpoints"]
    return run_process(command, capture_output=True, check=True, text=True).stdout.splitlines()


@pytest.mark.slow
@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_a_deletion_is_one_commit_and_takes_what_is_spooled(
    holdfast: Holdfast, data_dir: Path, mode: str
) -> None:
    submit(holdfast, "r", "--wait", "--write-mode", mode)
    submit(holdfast, "other", "--wait", "--write-mode", mode)
    submit(holdfast, "r")
    before = history(data_dir)

    unsure = holdfast("delete", "r")
    ended = holdfast("delete", "r", "--yes", "--json")

    assert (unsure.code, "add --yes" in unsure.err) == (2, True)
    assert (ended.code, ended.document["deleted_files"], ended.document["deleted_spooled"]) == (0, 3, 1)
    after = history(data_dir)
    assert after == ["Delete run r", *before]
    assert [run["run_id"] for run in holdfast("runs", "--json").document["runs"]] == ["other"]
    assert holdfast("status", "--json").document["spool"]["depth"] == 0
    assert holdfast("delete", "r", "--yes").code == 1


@pytest.mark.slow
def test_a_deleted_run_can_begin_anew(holdfast: Holdfast) -> None:
    submit(holdfast, "r", "--wait")
    holdfast("delete", "r", "--yes")

    receipt = submit(holdfast, "r", "--wait", state="5").document

    assert (receipt["status"], receipt["sequence_number"]) == ("verified", 2)
    assert holdfast("resume", "r", "--json").document["state"] == 5


@pytest.mark.slow
def test_a_deleted_checkpoint_that_comes_again_is_stored_again(holdfast: Holdfast) -> None:
    checkpoint = (
        '{"checkpoint_id": "1f0c7a52-6d0e-4b43-9a43-5d5cf3a0c3ad", "run_id": "r", "trigger": "manual",'
        ' "state": 7}'
    )
    holdfast("submit", "-", "--wait", stdin=checkpoint)
    holdfast("delete", "r", "--yes")

    again = holdfast("submit", "-", "--json", stdin=checkpoint).document

    assert again["status"] == "spooled"
    assert holdfast("drain").code == 0
    assert holdfast("resume", "r", "--json").document["state"] == 7


@pytest.mark.slow
@pytest.mark.parametrize("moment", ["before the commit", "after the commit"])
def test_a_deletion_that_was_killed_leaves_no_receipt_without_its_checkpoint(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    checkpoint = (
        '{"checkpoint_id": "1f0c7a52-6d0e-4b43-9a43-5d5cf3a0c3ad", "run_id": "r", "trigger": "manual",'
        ' "state": 7}'
    )
    holdfast("submit", "-", "--wait", stdin=checkpoint)
    commit = Committer.commit

    class Killed(BaseException):
        """What stands for kill -9."""

    def kill(committer: Committer, *arguments: Any) -> str:
        if moment == "after the commit":
            commit(committer, *arguments)
        raise Killed

    with monkeypatch.context() as patch:
        patch.setattr(Committer, "commit", kill)
        with pytest.raises(Killed):
            holdfast("delete", "r", "--yes")

    holdfast("submit", "-", stdin=checkpoint)
    assert holdfast("drain").code == 0
    assert holdfast("resume", "r", "--json").document["state"] == 7
    assert len(holdfast("list", "r", "--json").document["checkpoints"]) == 1


@pytest.mark.slow
def test_a_run_that_is_only_spooled_can_be_deleted(holdfast: Holdfast) -> None:
    submit(holdfast, "r")

    assert holdfast("delete", "r", "--yes", "--json").document["deleted_spooled"] == 1
    assert holdfast("runs", "--json").document == {"runs": []}


@pytest.mark.slow
def test_a_preserved_run_is_deleted_by_force_alone(holdfast: Holdfast) -> None:
    submit(holdfast, "r", "--wait")
    holdfast("preserve", "r")

    refused = holdfast("delete", "r", "--yes")
    forced = holdfast("delete", "r", "--yes", "--force")

    assert (refused.code, "is preserved" in refused.err) == (1, True)
    assert forced.code == 0
    assert "was not preserved" in holdfast("preserve", "r", "--remove").out


@pytest.mark.slow
def test_of_an_archived_run_the_summary_is_shown(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_DELETE_COMPLETED", "true")
    submit(holdfast, "r", "--wait")
    holdfast("complete", "r")

    (run,) = holdfast("runs", "--archived", "--json").document["runs"]
    shown = holdfast("show", "r", "--json").document

    assert (run["run_id"], run["status"], run["resumable"]) == ("r", "completed", False)
    assert (shown["run_id"], shown["final_status"]) == ("r", "completed")
    assert holdfast("runs", "--json").document == {"runs": []}
    assert holdfast("fork", "r", "1", "s").code == 1
