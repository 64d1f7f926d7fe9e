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

pytestmark = pytest.mark.processes

LONGEST_S = 60
# The step as `python -m holdfast.action` carries it out, but for the time that a cancelled job has.
PROGRAM = """
import runpy
import holdfast.action.entry as entry
{}
runpy.run_module("holdfast.action", run_name="__main__", alter_sys=True)
"""
NO_TIME = "entry.GRACE_S = entry.END_S = 0.0"
PLENTY_OF_TIME = f"entry.GRACE_S = {LONGEST_S}"
UNTIL_GITHUB_IS_ASKED = f"""
import httpx
asked = entry.threading.Event()
send = httpx.HTTPTransport.handle_request
def tell_and_send(transport, request):
    asked.set()
    return send(transport, request)
httpx.HTTPTransport.handle_request = tell_and_send
entry.threading.Thread.join = lambda _thread, _timeout_s: asked.wait({LONGEST_S})
"""


class Process:
    """One step that saves, as `scripts/action` starts it."""

    def __init__(self, stage: Stage, time: str, **variables: str) -> None:
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
            [sys.executable, "-I", "-c", PROGRAM.format(time)],
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
    process = Process(stage, NO_TIME, HOLDFAST_INPUT_TIMEOUT="3600")
    assert github_hangs.wait(LONGEST_S)
    process.running.send_signal(signal.SIGINT)

    code, printed, outputs = process.end()

    assert (code, outputs["status"], outputs["left"]) == (0, "spooled", "1"), printed
    assert "the job was cancelled" in printed
    assert (Path(outputs["spool-dir"]) / "manifest.json").is_file()


def test_a_job_that_was_cancelled_while_the_step_began_still_saves(stage: Stage) -> None:
    code, printed, outputs = Process(stage, PLENTY_OF_TIME, HOLDFAST_CANCELLED="yes").end()

    assert (code, outputs["status"]) == (0, "verified"), printed
    assert len(check_files(stage.stored(), "cancelled")) == 1


def test_a_job_that_was_cancelled_while_the_step_began_hands_over_what_github_does_not_take(
    stage: Stage, github_hangs: threading.Event
) -> None:
    code, printed, outputs = Process(stage, UNTIL_GITHUB_IS_ASKED, HOLDFAST_CANCELLED="yes").end()

    assert (code, outputs["status"], outputs["left"]) == (0, "spooled", "1"), printed
    assert github_hangs.is_set()
