"""A step ends in time, whatever hangs, and says what became of its checkpoint."""

import json
import os
import signal
import threading
from pathlib import Path

import pytest

from holdfast.action import entry
from holdfast.action.entry import finish_in_time
from holdfast.action.inputs import read_settings
from holdfast.action.job import Job
from holdfast.action.runner import StepOutcome
from holdfast.assembly import Assembly
from holdfast.emulator import Call, Rule
from tests.unit.action.conftest import Stage

DONE = StepOutcome("done")


@pytest.fixture
def cancelled() -> threading.Event:
    event = threading.Event()
    event.set()
    return event


def test_what_ends_by_itself_is_returned() -> None:
    assert finish_in_time(lambda: DONE, threading.Event(), threading.Event()) is DONE


def test_what_fails_is_raised_again() -> None:
    def fail() -> StepOutcome:
        raise LookupError("why")

    with pytest.raises(LookupError, match="why"):
        finish_in_time(fail, threading.Event(), threading.Event())


def test_what_ends_within_the_grace_is_not_told_to_stop(
    cancelled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 60)
    stop = threading.Event()

    def look() -> StepOutcome:
        return StepOutcome("stopped" if stop.is_set() else "done")

    assert finish_in_time(look, cancelled, stop) == DONE


def test_what_waits_is_told_to_stop_after_the_grace(
    cancelled: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 0)
    monkeypatch.setattr(entry, "END_S", 60)
    stop = threading.Event()

    def wait() -> StepOutcome:
        return StepOutcome("stopped" if stop.wait(60) else "not told")

    assert finish_in_time(wait, cancelled, stop) == StepOutcome("stopped")


def test_what_hangs_is_left_behind(cancelled: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(entry, "GRACE_S", 0)
    monkeypatch.setattr(entry, "END_S", 0.01)
    never = threading.Event()

    def hang() -> StepOutcome:
        never.wait()
        return DONE

    assert finish_in_time(hang, cancelled, threading.Event()) is None
    never.set()


@pytest.mark.slow
def test_a_cancelled_job_keeps_its_checkpoint_though_a_request_hangs(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    hanging = threading.Event()

    def cancel(_request: object) -> None:
        os.kill(os.getpid(), signal.SIGINT)  # to the process, and not to this thread: it wakes who waits
        hanging.wait(60)

    monkeypatch.setattr(entry, "GRACE_S", 0)
    monkeypatch.setattr(entry, "END_S", 0.05)
    stage.emulator.faults.add(Rule(Call(before=cancel)))
    try:
        outputs = stage.run("save", state='{"a": 1}', timeout="3600")
    finally:
        hanging.set()
        for thread in threading.enumerate():
            if thread.name == "holdfast-step":
                thread.join(60)

    assert (stage.code, outputs["status"], outputs["left"]) == (0, "spooled", "1")
    (warning,) = stage.warnings
    assert "the job was cancelled" in warning
    manifest = json.loads((Path(outputs["spool-dir"]) / "manifest.json").read_text())
    assert manifest["count"] == 1


def test_an_unexpected_error_is_a_warning_with_its_trace_in_the_log(
    stage: Stage, monkeypatch: pytest.MonkeyPatch
) -> None:
    def fail(_step: object) -> StepOutcome:
        raise ZeroDivisionError("::error::not a command")

    monkeypatch.setattr(entry, "carry_out", fail)

    outputs = stage.run("save")

    assert (stage.code, outputs) == (0, {"status": "error"})
    assert stage.warnings == ["an unexpected ZeroDivisionError: ::error::not a command"]
    assert "Traceback (most recent call last)" in stage.printed
    assert stage.printed.index("::stop-commands::") < stage.printed.index("Traceback")


def test_outputs_that_cannot_be_written_are_a_warning(stage: Stage) -> None:
    stage.run("save", variables={"GITHUB_OUTPUT": str(stage.folder)})

    assert stage.code == 0
    assert ["could not be written" in warning for warning in stage.warnings] == [True]


def test_the_budget_knows_the_limit_of_a_jobs_token(tmp_path: Path) -> None:
    job = Job.from_environment({"GITHUB_REPOSITORY": "owner/name", "RUNNER_TEMP": str(tmp_path)})
    assembly = Assembly(read_settings({"HOLDFAST_INPUT_TOKEN": "ghs_x"}, job))
    try:
        assert assembly.rate_limiter.report()["limit"] == 1000
    finally:
        assembly.close()


def test_the_grace_fits_in_the_time_of_a_cancelled_job() -> None:
    assert entry.GRACE_S + entry.END_S < 7.0 - 1.5
