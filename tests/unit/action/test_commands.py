"""What each command of the step does, and what it tells."""

import json
import os
import subprocess
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.emulator import parse_fault
from holdfast.retention import Sweeper
from holdfast.security import jose
from tests.fakes.repository import check_files, files_of_run
from tests.unit.action.conftest import TOKEN, Stage
from tests.unit.action.outputs import parse_outputs

RUN = "CI-1-build"
CANARY = "the canary that must not sing 4711"


@pytest.mark.slow
def test_a_save_is_verified_and_told(stage: Stage) -> None:
    outputs = stage.run("save", trigger="phase_complete", phase="plan", state='{"a": 1}')

    path = f"checkpoints/{RUN}/cp_001_phase_complete.json"
    stored = json.loads(stage.stored()[path])
    assert stored["state_snapshot"] == {"a": 1}
    assert (stored["phase"], stored["workflow"]) == ("plan", "CI")
    assert stored["context_fields"]["github_actions"]["run_id"] == "1"
    assert outputs == {
        "checkpoint-id": stored["checkpoint_id"],
        "sequence": "1",
        "status": "verified",
        "file-path": path,
        "spool-dir": "",
        "left": "0",
    }
    assert (stage.code, stage.warnings) == (0, [])
    assert f"(https://github.com/owner/name/blob/checkpoints/{path})" in stage.summary
    assert "of 1,000 requests left" in stage.summary


@pytest.mark.slow
def test_later_steps_call_holdfast_by_its_name_on_the_same_run(stage: Stage) -> None:
    stage.run("resume")
    program = Path(stage.path.read_text().strip()) / "holdfast"
    variables = {**parse_outputs(stage.variables.read_text()), "GITHUB_API_URL": stage.url}

    ended = subprocess.run(
        [program, "exec", "--step", "compile", "--", "echo", "compiled"],
        env={"PATH": os.environ["PATH"], **variables, "GITHUB_TOKEN": TOKEN},
        capture_output=True,
        check=False,
        text=True,
    )
    outputs = stage.run("drain")

    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "compiled\n", "")
    assert variables["HOLDFAST_RUN_ID"] == RUN
    assert TOKEN not in stage.variables.read_text()
    assert outputs["status"] == "verified"
    assert f"checkpoints/{RUN}/cp_002_step_complete.json" in stage.stored()


@pytest.mark.slow
def test_a_run_that_waits_for_a_person_says_so(stage: Stage) -> None:
    stage.run("save", trigger="phase_complete", phase="phase_1_plan")
    free = stage.run("resume")
    stage.run("save", trigger="circuit_breaker", phase="phase_2_build")

    held = stage.run("resume")

    assert (free["needs-review"], held["needs-review"]) == ("false", "true")
    assert held["resume-at"] == "human_review"
    latest = json.loads(stage.stored()[f"checkpoints/{RUN}/latest.json"])
    assert held["saved-at"] == latest["timestamp"]
    assert held["saved-at"] > free["saved-at"]


@pytest.mark.slow
def test_nothing_but_the_masking_command_shows_the_token(stage: Stage) -> None:
    stage.run("save")

    assert stage.printed.splitlines()[0] == f"::add-mask::{TOKEN}"
    assert stage.printed.count(TOKEN) == 1
    assert TOKEN not in stage.summary


@pytest.mark.slow
def test_keys_given_as_inputs_seal_and_sign_and_are_masked(stage: Stage) -> None:
    seal, sign = jose.make_shared_key(), jose.make_signing_key()
    keys = {"encryption_key": json.dumps(seal), "signing_key": json.dumps(sign)}
    outputs = stage.run("save", state=json.dumps({"note": CANARY}), variables={"RUNNER_DEBUG": "1"}, **keys)

    stored = b"".join(stage.stored().values())
    assert outputs["status"] == "verified"
    assert b"$sealed" in stored
    assert json.loads(stage.stored()[outputs["file-path"]])["integrity"]["signature"]
    said = stage.printed + stage.summary + stage.variables.read_text()
    assert CANARY not in said + stored.decode()
    for secret in (seal["k"], sign["d"]):
        assert f"::add-mask::{secret}\n" in stage.printed
        assert all(secret not in line for line in said.splitlines() if not line.startswith("::add-mask::"))
    assert json.loads(Path(stage.run("resume", variables=None, **keys)["state-file"]).read_text()) == {
        "note": CANARY
    }
    stage.run("resume", signing_key=keys["signing_key"])
    assert any(f"sealed with key {seal['kid']}" in warning for warning in stage.warnings)
    stage.run("save", state='{"note": 2}', encryption_key=keys["encryption_key"])
    assert json.loads(Path(stage.run("resume", variables=None, **keys)["state-file"]).read_text()) == {
        "note": CANARY
    }
    assert "not signed" in stage.printed


@pytest.mark.slow
def test_logs_are_folded_and_cannot_be_commands(stage: Stage) -> None:
    stage.run("save")

    lines = stage.printed.splitlines()
    key = lines[2].removeprefix("::stop-commands::")
    assert lines[1] == "::group::Holdfast: save"
    assert len(key) == 32
    assert lines[-2:] == [f"::{key}::", "::endgroup::"]


def test_a_save_that_does_not_wait_is_spooled_and_written_out_without_a_warning(stage: Stage) -> None:
    outputs = stage.run("save", wait="false")

    assert (outputs["status"], outputs["left"], stage.warnings) == ("spooled", "1", [])
    assert len(stage.emulator.journal) == 0
    assert (Path(outputs["spool-dir"]) / "manifest.json").is_file()


@pytest.mark.slow
def test_a_later_save_takes_along_what_waits_and_clears_what_was_written_out(stage: Stage) -> None:
    folder = Path(stage.run("save", wait="false")["spool-dir"])

    outputs = stage.run("save")

    assert (outputs["sequence"], outputs["left"], outputs["spool-dir"]) == ("2", "0", "")
    assert len(check_files(stage.stored(), RUN)) == 2
    assert not folder.exists()


def test_an_invalid_state_is_a_warning_and_the_build_goes_on(stage: Stage) -> None:
    outputs = stage.run("save", state="{broken")

    assert (stage.code, outputs) == (0, {"status": "error"})
    (warning,) = stage.warnings
    assert "state" in warning
    assert "### Holdfast: failed" in stage.summary


def test_a_failure_fails_the_step_that_asks_for_it(stage: Stage) -> None:
    stage.run("save", fail_on_error="true", trigger="whim")

    assert stage.code == 2
    assert "::error title=Holdfast::" in stage.printed


def test_a_limit_leaves_the_checkpoint_in_a_folder_and_says_so(stage: Stage) -> None:
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    outputs = stage.run("save", state='{"a": 1}')

    assert (stage.code, outputs["status"], outputs["left"]) == (0, "spooled", "1")
    (warning,) = stage.warnings
    assert "1 checkpoint not in the repository yet" in warning
    assert outputs["spool-dir"] in warning
    assert "[!WARNING]" in stage.summary
    manifest = json.loads((Path(outputs["spool-dir"]) / "manifest.json").read_text())
    assert [each["checkpoint_id"] for each in manifest["checkpoints"]] == [outputs["checkpoint-id"]]


def test_a_reason_that_ends_a_sentence_ends_it_once(stage: Stage) -> None:
    stage.emulator.switch(token_revoked=True)

    stage.run("save")

    (warning,) = stage.warnings
    assert ". It lies in" in warning
    assert ".." not in warning


def test_a_checkpoint_that_is_left_fails_the_step_that_asks_for_it(stage: Stage) -> None:
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    stage.run("save", fail_on_error="true")

    assert stage.code == 75


@pytest.mark.slow
def test_another_job_drains_what_was_written_out_and_doing_it_again_changes_nothing(stage: Stage) -> None:
    first = stage.run("save", wait="false", state='{"a": 1}')
    artifact = stage.folder / "artifact"
    Path(first["spool-dir"]).rename(artifact)
    kept = {file.name: file.read_bytes() for file in artifact.iterdir()}

    drained = stage.run("drain", job="later", spool_dir=str(artifact))
    (stage.folder / "again").mkdir()
    for name, content in kept.items():
        (stage.folder / "again" / name).write_bytes(content)
    again = stage.run("drain", job="latest", spool_dir=str(stage.folder / "again"))

    assert drained == again == {"status": "verified", "spool-dir": "", "left": "0"}
    assert stage.warnings == []
    assert check_files(stage.stored(), RUN) == {1: first["checkpoint-id"]}
    assert not artifact.exists()


@pytest.mark.slow
def test_the_artifacts_of_several_jobs_are_drained_from_one_folder(stage: Stage) -> None:
    for job in ("one", "two"):
        stage.run("save", job=job, wait="false", spool_dir=str(stage.folder / "artifacts" / job))

    outputs = stage.run("drain", job="later", spool_dir=str(stage.folder / "artifacts"))

    assert outputs["status"] == "verified"
    assert "2 checkpoints verified, 0 left" in stage.printed
    assert len(check_files(stage.stored(), "CI-1-one")) == len(check_files(stage.stored(), "CI-1-two")) == 1


def test_a_drain_without_anything_to_do_is_content(stage: Stage) -> None:
    outputs = stage.run("drain", spool_dir=str(stage.folder / "missing"))

    assert outputs == {"status": "verified", "spool-dir": "", "left": "0"}
    assert (stage.code, stage.warnings) == (0, [])


def test_a_drain_that_is_limited_writes_out_what_is_left(stage: Stage) -> None:
    artifact = stage.folder / "artifact"
    stage.run("save", wait="false", spool_dir=str(artifact))
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    outputs = stage.run("drain", job="later", spool_dir=str(artifact))

    assert (outputs["status"], outputs["left"], outputs["spool-dir"]) == ("spooled", "1", str(artifact))
    assert (artifact / "manifest.json").is_file()
    assert len(stage.warnings) == 1


def test_a_damaged_file_of_an_artifact_is_told_and_stays(stage: Stage) -> None:
    artifact = stage.folder / "artifact"
    first = stage.run("save", wait="false", spool_dir=str(artifact))
    damaged = artifact / f"{first['checkpoint-id']}.json"
    damaged.write_bytes(damaged.read_bytes() + b" ")

    stage.run("drain", job="later", spool_dir=str(artifact))

    assert ["is damaged" in warning for warning in stage.warnings] == [True]
    assert damaged.exists()


def test_a_checkpoint_that_github_refuses_is_told_with_the_reason(stage: Stage) -> None:
    stage.emulator.switch(secret_marker="hunter2")

    outputs = stage.run("save", state='{"password": "hunter2"}')

    assert outputs["status"] == "refused"
    assert [outputs["checkpoint-id"] in warning for warning in stage.warnings] == [True]
    assert "hunter2" not in stage.printed


def test_there_is_nothing_to_resume_at_first(stage: Stage) -> None:
    outputs = stage.run("resume")

    assert (stage.code, outputs, stage.warnings) == (0, {"found": "false"}, [])


@pytest.mark.slow
def test_another_attempt_of_the_job_resumes_where_the_first_stopped(stage: Stage) -> None:
    progress = {"style": "tasks", "tasks": {"compile": {"status": "completed"}, "test": {"status": "failed"}}}
    state = json.dumps({"progress": progress})[:-1] + ', "price": 1.10}'
    stage.run("save", state=state)

    outputs = stage.run("resume")

    plan = json.loads(outputs["plan"])
    assert (outputs["found"], outputs["resumable"], outputs["resume-at"]) == ("true", "true", "test")
    assert (outputs["sequence"], outputs["status"]) == ("1", "in_progress")
    assert (plan["completed"], "state" in plan) == (["compile"], False)
    assert Path(outputs["state-file"]).read_text() == state
    assert "resumes at test" in stage.summary


@pytest.mark.slow
def test_a_plan_that_is_too_long_for_an_output_is_shortened(stage: Stage) -> None:
    tasks = {f"task-{number:06d}": {"status": "completed"} for number in range(12_000)}
    stage.run("save", state=json.dumps({"progress": {"style": "tasks", "tasks": tasks}}))

    plan = json.loads(stage.run("resume")["plan"])

    assert plan["completed"] == []
    assert plan["warnings"] == ["the plan is too long for an output"]


def test_a_resume_that_cannot_ask_is_a_warning(stage: Stage) -> None:
    stage.emulator.switch(token_revoked=True)

    outputs = stage.run("resume")

    assert (stage.code, outputs) == (0, {"status": "error"})
    assert len(stage.warnings) == 1


@pytest.mark.slow
def test_a_completed_run_is_told_and_not_resumed(stage: Stage) -> None:
    stage.run("save", state='{"a": 1}')
    completed = stage.run("complete", status="success")

    resumed = stage.run("resume")

    assert (completed["status"], completed["sequence"]) == ("verified", "2")
    assert (resumed["found"], resumed["resumable"], resumed["status"]) == ("true", "false", "completed")
    assert files_of_run(stage.stored(), RUN)["latest.json"]["status"] == "completed"


def test_completing_a_run_that_is_not_there_is_a_warning(stage: Stage) -> None:
    assert stage.run("complete") == {"status": "error"}
    assert len(stage.warnings) == 1


def test_a_final_checkpoint_that_is_limited_is_handed_over_too(stage: Stage) -> None:
    stage.run("save", wait="false")
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    outputs = stage.run("complete")

    assert (outputs["status"], outputs["left"]) == ("spooled", "2")


@pytest.mark.slow
def test_a_cleanup_first_says_what_it_would_do_and_then_does_it(stage: Stage) -> None:
    for number in ("1", "1", "2"):
        stage.run("save", run_number=number, status="completed")
    before = stage.stored()
    keep_one = {"HOLDFAST_KEEP_FULL_RUNS": "1"}

    planned = stage.run("cleanup", dry_run="true", variables=keep_one)
    unchanged = stage.stored()
    done = stage.run("cleanup", variables=keep_one)

    assert unchanged == before
    gone = before.keys() - stage.stored().keys()
    assert planned == done == {"status": "done", "deleted": str(len(gone))}
    assert f"checkpoints/{RUN}/cp_001_manual.json" in gone
    assert "| run | action | files | bytes | why |" in stage.summary


@pytest.mark.slow
def test_a_cleanup_without_a_budget_is_postponed(stage: Stage) -> None:
    stage.run("save")
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    outputs = stage.run("cleanup", job="nightly")

    assert (stage.code, outputs) == (0, {"status": "postponed"})
    assert "The next cleanup goes on" in stage.warnings[0]


@pytest.mark.slow
def test_a_cleanup_that_is_cut_short_tells_what_it_did(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    sweep = Sweeper.sweep
    monkeypatch.setattr(
        Sweeper, "sweep", lambda sweeper: replace(sweep(sweeper), rest_because="for checkpoints")
    )
    stage.run("save")

    outputs = stage.run("cleanup", job="nightly", variables={"HOLDFAST_KEEP_FULL_RUNS": "0"})

    assert (stage.code, outputs) == (0, {"status": "postponed", "deleted": "2"})
    assert "The next cleanup goes on: for checkpoints" in stage.warnings[0]


def test_commits_to_a_branch_that_may_hold_code_start_no_workflow(stage: Stage) -> None:
    outputs = stage.run("save", branch="main")

    repository = stage.emulator.options.root / "owner" / "name.git"
    command = ["git", "--git-dir", str(repository), "log", "--format=%s|%b", "--max-count=1", "main"]
    newest = subprocess.run(command, capture_output=True, check=True, text=True).stdout
    assert newest.strip() == f"Checkpoint {outputs['checkpoint-id']}|[skip ci]"
