"""A real runner: `act`, which carries out workflows on this machine without containers."""

import os
import re
import shutil
import subprocess
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
WORKFLOWS = Path(__file__).parent / "workflows"
TOKEN = "ghs_" + "a1b2c3d4" * 4
REPOSITORY = "holdfast/checkpoints"

_LONGEST_S = 200


@dataclass(frozen=True)
class Ended:
    """How a workflow ended, and all that the runner printed."""

    code: int
    log: str

    def annotations(self, kind: str) -> list[str]:
        """Return the messages of the warnings or errors that the runner was told."""
        return re.findall(rf"::{kind} title=Holdfast::(.*)", self.log)


class Act:
    """Runs workflows of a checkout that holds what the published action holds."""

    def __init__(self, program: Path, home: Path, url: str) -> None:
        self._program = program
        self._home = home
        self._url = url
        self.checkout = home / "checkout"
        self.reports = home / "reports"
        self.reports.mkdir(parents=True)
        self._copy_action()

    def run(self, workflow: str, **variables: str) -> Ended:
        """Carry out a workflow file from beginning to end."""
        folder = self.checkout / ".github" / "workflows"
        shutil.rmtree(folder, ignore_errors=True)
        folder.mkdir(parents=True)
        shutil.copy(WORKFLOWS / f"{workflow}.yml", folder)
        given = {
            "GITHUB_API_URL": self._url,
            "REPORTS": str(self.reports),
            **variables,
        }
        command = [
            str(self._program),
            "push",
            "--platform",
            "ubuntu-latest=-self-hosted",
            "--no-cache-server",
        ]
        command += ["--action-cache-path", str(self._home / "act"), "--secret", f"GITHUB_TOKEN={TOKEN}"]
        command += ["--concurrent-jobs", "4", "--rm"]
        for name, value in given.items():
            command += ["--env", f"{name}={value}"]
        ended = subprocess.run(
            command,
            cwd=self.checkout,
            env=_outside(self._home),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            check=False,
            timeout=_LONGEST_S,
        )
        return Ended(ended.returncode, ended.stdout)

    def report(self, name: str) -> list[str]:
        """Return the lines that a workflow has written for us."""
        return (self.reports / name).read_text(encoding="utf-8").splitlines()

    def _copy_action(self) -> None:
        ignored = shutil.ignore_patterns("__pycache__", "benchmarks")
        self.checkout.mkdir()
        shutil.copy(ROOT / "action.yml", self.checkout)
        for name in ("scripts", "src"):
            shutil.copytree(ROOT / name, self.checkout / name, ignore=ignored)
        git = ["git", "-c", "user.name=Test", "-c", "user.email=test@example.com"]
        for words in (
            ["init", "--quiet", "--initial-branch", "main"],
            ["remote", "add", "origin", f"https://github.com/{REPOSITORY}"],
            ["add", "action.yml"],
            ["commit", "--quiet", "--message", "An action"],
        ):
            subprocess.run([*git, *words], cwd=self.checkout, check=True, env=_outside(self._home))


def _outside(home: Path) -> dict[str, str]:
    """Return this process's variables without those that a runner sets itself, and with another home."""
    kept = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("HOLDFAST_", "GITHUB_", "RUNNER_", "ACT", "GIT_"))
    }
    return {**kept, "HOME": str(home)}
