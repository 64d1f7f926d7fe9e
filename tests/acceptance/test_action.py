"""The step as the runner starts it: a process of its own, with nothing but its environment."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.emulator import Call, Emulator, EmulatorOptions, EmulatorServer, Rule, parse_fault
from tests.fakes.commands import run_step
from tests.fakes.repository import check_files, read_branch

REPOSITORY = "owner/name"
TOKEN = "ghs_canary0123456789"
RUN = "CI-7-build"


class Machine:
    """A runner that starts steps; `vanish` gives it to another job."""

    def __init__(self, folder: Path, emulator: Emulator, url: str) -> None:
        self.folder = folder
        self.emulator = emulator
        self._url = url
        self.temp = folder / "temp"
        self.temp.mkdir()

    def vanish(self) -> None:
        """Lose every file, as a hosted runner does at the end of its job."""
        self.temp.rename(self.folder / "lost")
        self.temp.mkdir()

    def environment(self, command: str, **inputs: str) -> dict[str, str]:
        """Return the environment of a step."""
        outside = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
        given = {"command": command, "token": TOKEN, **inputs}
        return {
            **outside,
            **{f"HOLDFAST_INPUT_{name.upper()}": value for name, value in given.items()},
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "GITHUB_API_URL": self._url,
            "GITHUB_REPOSITORY": REPOSITORY,
            "GITHUB_WORKFLOW": "CI",
            "GITHUB_RUN_ID": "7",
            "GITHUB_JOB": "build",
            "RUNNER_TEMP": str(self.temp),
        }

    def start(self, command: str, **inputs: str) -> "subprocess.Popen[str]":
        """Start a step."""
        return subprocess.Popen(
            [sys.executable, "-m", "holdfast.action"],
            env=self.environment(command, **inputs),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def run(self, command: str, **inputs: str) -> str:
        """Return what a step prints that ends well."""
        ended = run_step(self.environment(command, **inputs))
        assert ended.returncode == 0, ended.stderr.decode()
        return ended.stdout.decode()

    def stored(self) -> dict[int, str]:
        """Return the checkpoints of the run, by number."""
        return check_files(read_branch(self.emulator.options.root / f"{REPOSITORY}.git"), RUN)


def finish(step: "subprocess.Popen[str]") -> str:
    printed, _ = step.communicate(timeout=60)
    assert step.returncode == 0, printed
    return printed


@pytest.fixture
def machine(tmp_path: Path) -> Iterator[Machine]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo=REPOSITORY, token=TOKEN))
    try:
        with EmulatorServer(emulator) as server:
            yield Machine(tmp_path, emulator, server.url)
    finally:
        emulator.close()


def test_a_job_on_another_machine_goes_on_from_what_the_first_has_saved(machine: Machine) -> None:
    machine.run("save", phase="one")
    machine.run("save", phase="two")
    machine.vanish()

    printed = machine.run("resume")

    assert f"{RUN} resumes at two" in printed
    assert machine.stored().keys() == {1, 2}


def test_what_could_not_be_sent_survives_the_machine_in_its_folder(machine: Machine) -> None:
    artifact = machine.folder / "artifact"
    machine.emulator.faults.add(parse_fault("any:secondary=3600"))
    machine.run("save", spool_dir=str(artifact))
    machine.vanish()
    machine.emulator.faults.clear()

    machine.run("drain", spool_dir=str(artifact))

    assert machine.stored().keys() == {1}


def test_a_cancelled_step_ends_before_the_request_that_hangs_and_leaves_its_checkpoint(
    machine: Machine,
) -> None:
    started: list[subprocess.Popen[str]] = []

    def cancel(_request: object) -> None:
        started[0].send_signal(signal.SIGINT)
        started[0].wait(timeout=60)

    machine.emulator.faults.add(Rule(Call(before=cancel), times=1))
    started.append(machine.start("save", spool_dir=str(machine.folder / "artifact")))

    printed = finish(started[0])

    assert (
        "::warning title=Holdfast::1 checkpoint not in the repository yet: the job was cancelled" in printed
    )
    manifest = json.loads((machine.folder / "artifact" / "manifest.json").read_text())
    assert manifest["count"] == 1


def test_a_second_signal_ends_the_step_at_once_and_the_spool_still_has_the_checkpoint(
    machine: Machine,
) -> None:
    started: list[subprocess.Popen[str]] = []

    def end(_request: object) -> None:
        started[0].send_signal(signal.SIGINT)
        while started[0].poll() is None:
            started[0].send_signal(signal.SIGTERM)
            started[0].poll()

    machine.emulator.faults.add(Rule(Call(before=end), times=1))
    started.append(machine.start("save"))
    started[0].communicate(timeout=60)

    machine.run("drain")

    assert machine.stored().keys() == {1}
