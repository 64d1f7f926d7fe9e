"""A job that is cancelled at any moment of a step keeps its checkpoint. The step is a process of its own."""

import os
import signal
import subprocess
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.emulator import Call, Rule
from tests.fakes.repository import check_files
from tests.unit.action.conftest import REPOSITORY, TOKEN, Stage
from tests.unit.action.outputs import parse_outputs

LONGEST_S = 60


class Process:
    """One step that saves, as `scripts/action` starts it."""

    def __init__(self, stage: Stage, **variables: str) -> None:
        self.temp = stage.folder / "temp"
        self.temp.mkdir()
        self._output = self.temp / "output"
        environment = {
            "PATH": os.environ["PATH"],
            "HOLDFAST_INPUT_COMMAND": "save",
            "HOLDFAST_INPUT_RUN_ID": "cancelled",
            "HOLDFAST_INPUT_TOKEN": TOKEN,
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "GITHUB_API_URL": stage.url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_OUTPUT": str(self._output),
            "RUNNER_TEMP": str(self.temp),
            **variables,
        }
        self.running = subprocess.Popen(
            [sys.executable, "-I", "-m", "holdfast.action"],
            env=environment,
            cwd=self.temp,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def end(self) -> tuple[int, str, dict[str, str]]:
        """Return the exit code, all that was printed, and the outputs."""
        printed, _ = self.running.communicate(timeout=LONGEST_S)
        return self.running.returncode, printed, parse_outputs(self._output.read_text(encoding="utf-8"))


@pytest.fixture
def github_hangs(stage: Stage) -> Iterator[threading.Event]:
    """Keep every request waiting to the end of the test; the event tells that there is one."""
    asked, over = threading.Event(), threading.Event()

    def hang(_request: object) -> None:
        asked.set()
        over.wait(LONGEST_S)

    stage.emulator.faults.add(Rule(Call(before=hang)))
    yield asked
    over.set()


def test_a_cancelled_step_ends_by_itself_while_github_still_hangs(
    stage: Stage, github_hangs: threading.Event
) -> None:
    process = Process(stage, HOLDFAST_INPUT_TIMEOUT="3600")
    assert github_hangs.wait(LONGEST_S)
    process.running.send_signal(signal.SIGINT)

    code, printed, outputs = process.end()

    assert (code, outputs["status"], outputs["left"]) == (0, "spooled", "1"), printed
    assert "the job was cancelled" in printed
    assert (Path(outputs["spool-dir"]) / "manifest.json").is_file()


def test_a_job_that_was_cancelled_while_the_step_began_still_saves(stage: Stage) -> None:
    code, printed, outputs = Process(stage, HOLDFAST_CANCELLED="yes").end()

    assert (code, outputs["status"]) == (0, "verified"), printed
    assert len(check_files(stage.stored(), "cancelled")) == 1


def test_a_job_that_was_cancelled_while_the_step_began_hands_over_what_github_does_not_take(
    stage: Stage, github_hangs: threading.Event
) -> None:
    code, printed, outputs = Process(stage, HOLDFAST_CANCELLED="yes").end()

    assert (code, outputs["status"], outputs["left"]) == (0, "spooled", "1"), printed
    assert github_hangs.is_set()
