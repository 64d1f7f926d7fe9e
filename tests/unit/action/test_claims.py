"""A job that drives a run alone: the claim lasts over its steps."""

import json
import os
import subprocess
import time
from pathlib import Path

import pytest

from holdfast.action import claims
from holdfast.clock import SystemClock
from holdfast.emulator import parse_fault
from tests.unit.action.conftest import TOKEN, Stage
from tests.unit.action.outputs import parse_outputs

RUN = "nightly-7"


def stored(stage: Stage, name: str) -> dict[str, object]:
    document: dict[str, object] = json.loads(stage.stored()[f"checkpoints/{RUN}/{name}"])
    return document


def claim_commits(stage: Stage) -> int:
    return sum(
        each.method == "PUT" and each.path.endswith("claim.json") and each.status < 300
        for each in stage.emulator.journal.entries
    )


@pytest.mark.slow
def test_a_job_claims_its_run_and_saves_with_the_fence(stage: Stage) -> None:
    outputs = stage.run("resume", run_id=RUN, claim="true")
    saved = stage.run("save", run_id=RUN, state='{"n": 1}')

    assert (outputs["found"], outputs["claimed"], outputs["fence"]) == ("false", "true", "1")
    assert (stage.code, saved["status"], stage.warnings) == (0, "verified", [])
    assert stored(stage, "cp_001_manual.json")["fence"] == 1
    assert stored(stage, "claim.json")["owner"] == "owner/name/actions/runs/1/attempts/1 build"
    assert claim_commits(stage) == 1  # nothing to renew yet


def test_the_token_is_masked_and_in_no_variable(stage: Stage) -> None:
    token = stage.run("resume", run_id=RUN, claim="true")["claim-token"]

    assert stage.printed.count(token) == 1
    assert f"::add-mask::{token}\n" in stage.printed
    assert token not in stage.variables.read_text() + stage.summary
    (file,) = stage.folder.glob("temp/*/holdfast-claims/*")
    assert file.stat().st_mode & 0o077 == 0


def test_while_another_job_drives_the_run_the_step_fails_and_says_who(stage: Stage) -> None:
    stage.run("resume", run_id=RUN, claim="true", owner="worker 1")
    outputs = stage.run("resume", run_id=RUN, claim="true", run_number="2")

    assert (stage.code, outputs) == (75, {"claimed": "false", "status": "error"})
    assert "::error title=Holdfast::This job must not go on with the run: " in stage.printed
    assert "'worker 1'" in stage.printed
    assert "[!WARNING]" in stage.summary


def test_while_nobody_can_tell_the_step_fails_as_well(stage: Stage) -> None:
    stage.emulator.faults.add(parse_fault("any:secondary=3600"))

    outputs = stage.run("resume", run_id=RUN, claim="true")

    assert (stage.code, outputs["claimed"]) == (75, "false")


@pytest.mark.slow
def test_a_run_that_nobody_drives_any_more_is_claimed_with_a_higher_fence(stage: Stage) -> None:
    stage.run("resume", run_id=RUN, claim="true")
    stage.run("save", run_id=RUN, state='{"n": 1}')
    released = stage.run("release", run_id=RUN)
    outputs = stage.run("resume", run_id=RUN, claim="true", run_number="2")

    assert released == {"status": "done"}
    assert (outputs["found"], outputs["claimed"], outputs["fence"]) == ("true", "true", "2")
    assert json.loads(Path(outputs["state-file"]).read_text()) == {"n": 1}


@pytest.mark.slow
def test_a_second_resume_of_the_job_goes_on_with_its_claim(stage: Stage) -> None:
    first = stage.run("resume", run_id=RUN, claim="true")
    again = stage.run("resume", run_id=RUN, claim="true")

    assert (again["claimed"], again["fence"]) == ("true", "1")
    assert again["claim-token"] == first["claim-token"]


@pytest.mark.slow
def test_a_save_renews_a_claim_that_is_due(stage: Stage, monkeypatch: pytest.MonkeyPatch) -> None:
    stage.run("resume", run_id=RUN, claim="true")
    monkeypatch.setattr(claims, "RENEWALS_IN_TTL", 1)

    stage.run("save", run_id=RUN)

    assert claim_commits(stage) == 2
    assert stored(stage, "cp_001_manual.json")["fence"] == 1


@pytest.mark.slow
def test_a_claim_is_renewed_in_time_by_a_machine_whose_clock_is_hours_behind(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(SystemClock, "now", lambda _: time.time() - 7200)
    stage.run("resume", run_id=RUN, claim="true")
    monkeypatch.setattr(claims, "RENEWALS_IN_TTL", 1)

    stage.run("save", run_id=RUN)

    assert claim_commits(stage) == 2


def take_over(stage: Stage) -> None:
    """Claim a run for another job that the first one believes to hold."""
    stage.run("resume", run_id=RUN, claim="true")
    (kept,) = stage.folder.glob("temp/build-1/holdfast-claims/*")
    copy = stage.folder / "temp" / "build-2" / "holdfast-claims" / kept.name
    copy.parent.mkdir(parents=True)
    copy.write_bytes(kept.read_bytes())
    stage.run("release", run_id=RUN, run_number="2")
    stage.run("resume", run_id=RUN, claim="true", run_number="2", owner="worker 2")
    stage.run("save", run_id=RUN, run_number="2", state='{"by": 2}')


@pytest.mark.slow
def test_a_job_whose_run_was_taken_over_learns_of_it_when_it_renews(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    take_over(stage)
    monkeypatch.setattr(claims, "RENEWALS_IN_TTL", 1)

    outputs = stage.run("save", run_id=RUN, state='{"by": 1}', fail_on_error="true")

    assert (stage.code, outputs["status"]) == (1, "error")
    assert "'worker 2' has taken it over" in stage.printed
    assert stored(stage, "latest.json")["state_snapshot"] == {"by": 2}


@pytest.mark.slow
def test_a_job_whose_run_was_taken_over_is_refused_by_the_writer(stage: Stage) -> None:
    take_over(stage)

    outputs = stage.run("save", run_id=RUN, state='{"by": 1}')

    assert outputs["status"] == "refused"
    assert "is not yours any more (fence 1)" in stage.warnings[0]
    assert "GitHub refused" not in stage.warnings[0]
    assert stored(stage, "latest.json")["state_snapshot"] == {"by": 2}
    assert stage.run("release", run_id=RUN)["status"] == "error"
    assert "someone else had taken it over" in stage.warnings[0]


@pytest.mark.slow
def test_complete_releases_the_run(stage: Stage) -> None:
    stage.run("resume", run_id=RUN, claim="true")
    stage.run("save", run_id=RUN)
    stage.run("complete", run_id=RUN)

    assert stored(stage, "claim.json")["released"] is True
    assert stored(stage, "latest.json")["fence"] == 1
    assert stage.run("release", run_id=RUN) == {"status": "done"}


@pytest.mark.slow
def test_steps_of_holdfast_exec_carry_the_fence_of_the_job_and_those_of_other_runs_none(stage: Stage) -> None:
    stage.run("resume", run_id=RUN, claim="true")
    assert parse_outputs(stage.variables.read_text())["HOLDFAST_FENCE"] == "1"

    _execute(stage)
    stage.run("drain", run_id=RUN)

    assert stored(stage, "cp_002_step_complete.json")["fence"] == 1
    stage.run("resume", run_id="other")
    assert parse_outputs(stage.variables.read_text())["HOLDFAST_FENCE"] == ""


def test_only_resume_claims(stage: Stage) -> None:
    stage.run("save", run_id=RUN, claim="true")

    assert stage.code == 2
    assert "it is resume that claims a run" in stage.printed


def _execute(stage: Stage) -> None:
    program = Path(stage.path.read_text().strip()) / "holdfast"
    variables = {**parse_outputs(stage.variables.read_text()), "GITHUB_API_URL": stage.url}
    subprocess.run(
        [program, "exec", "--step", "compile", "--", "echo", "compiled"],
        env={"PATH": os.environ["PATH"], **variables, "GITHUB_TOKEN": TOKEN},
        check=True,
        stdout=subprocess.DEVNULL,
    )
