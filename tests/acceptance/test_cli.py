"""The main job by the command line alone: every command is a process of its own."""

import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.fakes.commands import run_command

STATE = '{"price": 1.10, "big": 123456789012345678901234567890, "ünïcode": "\\u00e9"}'


class Shell:
    """Runs commands in one environment."""

    def __init__(self, folder: Path, **variables: str) -> None:
        outside = {
            name: value for name, value in os.environ.items() if not name.startswith(("HOLDFAST_", "GITHUB_"))
        }
        self._environment = {**outside, "HOLDFAST_DATA_DIR": str(folder / "data"), **variables}
        self._folder = folder

    def run(self, *words: str, stdin: str = "", code: int = 0) -> str:
        """Return what a command prints."""
        ended = run_command(*words, environment=self._environment, stdin=stdin.encode(), folder=self._folder)
        assert ended.returncode == code, ended.stderr.decode()
        return ended.stdout.decode()

    def ask(self, *words: str, stdin: str = "", code: int = 0) -> Any:
        """Return the JSON document that a command prints."""
        return json.loads(self.run(*words, "--json", stdin=stdin, code=code))

    def git(self, repository: Path, *words: str) -> str:
        """Return what plain git finds in a bare repository."""
        command = ["git", "--git-dir", str(repository), *words]
        return subprocess.run(command, capture_output=True, timeout=60, check=True, text=True).stdout


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder whose name needs quoting."""
    folder = tmp_path / "a folder"
    folder.mkdir()
    return folder


@pytest.fixture
def github(folder: Path) -> Iterator[dict[str, str]]:
    """An emulator in a process of its own: its address, its repository and its root."""
    command = [sys.executable, "-m", "holdfast", "emulator", "--json", "--root", str(folder / "github")]
    options = ["--repo", "acme/state", "--token", "good"]
    with subprocess.Popen([*command, *options], stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            yield json.loads(process.stdout.readline())
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


def test_a_newcomer_saves_drains_and_looks(folder: Path) -> None:
    shell = Shell(folder)
    (folder / "state.json").write_text(STATE)

    receipt = shell.ask("submit", "state.json", "--run-id", "build-42", "--phase", "phase_1_plan")
    waiting = shell.ask("status")
    drained = shell.ask("drain")
    runs = shell.ask("runs", "--resumable")
    listed = shell.ask("list", "build-42")
    shown = shell.run("show", "build-42", "--json")

    assert receipt["status"] == "spooled"
    assert waiting["spool"]["depth"] == 1
    assert (drained["verified"], drained["left"]) == (1, 0)
    assert [(run["run_id"], run["checkpoint_count"]) for run in runs["runs"]] == [("build-42", 1)]
    assert [entry["checkpoint_id"] for entry in listed["checkpoints"]] == [receipt["checkpoint_id"]]
    assert f'"state_snapshot":{STATE}' in shown
    repository = folder / "data" / "github" / "holdfast" / "checkpoints.git"
    path = listed["checkpoints"][0]["file_path"]
    assert shell.git(repository, "show", f"checkpoints:{path}") == shown.removesuffix("\n")
    assert f"Checkpoint {receipt['checkpoint_id']}" in shell.git(repository, "log", "checkpoints")


def test_a_repository_is_written_through_its_api(folder: Path, github: dict[str, str]) -> None:
    variables = {
        "HOLDFAST_REPO": github["repository"],
        "HOLDFAST_API_URL": github["url"],
        "HOLDFAST_TOKEN": "good",
        "HOLDFAST_WRITE_INTERVAL_S": "0",
    }
    shell = Shell(folder, **variables)
    whole = '{"run_id": "nightly", "trigger": "phase_completed", "phase": "plan", "state": {"n": 1.0}}'

    receipt = shell.ask("submit", "-", "--wait", stdin=whole)

    assert receipt["status"] == "verified"
    repository = Path(github["root"]) / "acme" / "state.git"
    latest = shell.git(repository, "show", "checkpoints:checkpoints/nightly/latest.json")
    assert json.loads(latest)["checkpoint_id"] == receipt["checkpoint_id"]
    assert (
        shell.git(repository, "rev-parse", f"checkpoints:{receipt['file_path']}").strip()
        == receipt["blob_sha"]
    )


def test_a_wrong_token_keeps_everything_and_says_what_to_do(folder: Path, github: dict[str, str]) -> None:
    where = {"HOLDFAST_REPO": github["repository"], "HOLDFAST_API_URL": github["url"]}
    shell = Shell(folder, HOLDFAST_TOKEN="bad", **where)

    shell.ask("submit", "-", "--run-id", "r", stdin="{}")
    left = shell.ask("drain", code=75)
    status = shell.ask("status")

    assert (left["verified"], left["left"]) == (0, 1)
    assert "HOLDFAST_TOKEN" in left["reason"]
    assert status["last_error"] == left["reason"]
    assert status["spool"]["depth"] == 1


def test_unsent_checkpoints_are_moved_by_hand(folder: Path) -> None:
    here = Shell(folder, HOLDFAST_REPO="acme/unreachable", HOLDFAST_API_URL="http://127.0.0.1:9")
    there = Shell(folder, HOLDFAST_DATA_DIR=str(folder / "there"))

    receipts = [here.ask("submit", "-", "--run-id", "r", stdin=f"[{number}]") for number in range(3)]
    here.run("spool", "export", "unsent")
    there.run("spool", "import", "unsent")
    there.run("drain")

    listed = there.ask("list", "r")["checkpoints"]
    assert [entry["checkpoint_id"] for entry in listed] == [each["checkpoint_id"] for each in receipts]


def test_the_demo_keeps_every_promise_through_a_crash(folder: Path) -> None:
    summary = Shell(folder).ask("demo", "--data-dir", str(folder / "demo"))

    assert summary["ok"] is True
    assert summary["killed"] is True
    assert summary["spooled_after_crash"] == summary["acknowledged_before_crash"] == 24
    assert all(promise["ok"] for promise in summary["promises"])
