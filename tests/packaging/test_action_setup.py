"""`scripts/action` runs the action in an environment of its own, made once, and breaks no build without one.

It works here on a stand-in for the package that needs nothing from a package index.
"""

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

ACTION = """\
import os, signal, sys
print("cancelled", os.environ["HOLDFAST_CANCELLED"], signal.getsignal(signal.SIGINT).name)
print("prefix", sys.prefix)
print("isolated", sys.flags.isolated)
print("command", os.environ["HOLDFAST_INPUT_COMMAND"])
"""

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]


class Runner:
    """A runner with the action checked out, and a job's own variables in the way."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.checkout = folder / "an action"
        self.tools = folder / "tool cache"
        self.temp = folder / "temp"
        package = self.checkout / "src" / "holdfast" / "action"
        package.mkdir(parents=True)
        self.temp.mkdir()
        (package.parent / "__init__.py").touch()
        (package / "__init__.py").touch()
        (package / "__main__.py").write_text(ACTION)
        (self.checkout / "scripts").mkdir()
        shutil.copy(SCRIPTS / "action", self.checkout / "scripts")
        ignored = shutil.ignore_patterns("__pycache__")
        shutil.copytree(SCRIPTS / "lib", self.checkout / "scripts" / "lib", ignore=ignored)
        self.requirements = self.checkout / "scripts" / "action-requirements.txt"
        self.requirements.write_text("# nothing\n")

    def run(self, code: int = 0, **variables: str) -> str:
        """Return what one step prints."""
        bash = shutil.which("bash")
        assert bash is not None
        ended = subprocess.run(
            [bash, "-c", 'STEP=$$ exec "$BASH" "$0"', self.checkout / "scripts" / "action"],
            cwd=self.temp,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(self.folder),
                "RUNNER_TOOL_CACHE": str(self.tools),
                "RUNNER_TEMP": str(self.temp),
                "HOLDFAST_INPUT_COMMAND": "save",
                "PIP_NO_INDEX": "1",
                "PIP_TARGET": str(self.folder / "elsewhere"),
                "PYTHON": "/no/such/python",
                "PYTHONPATH": str(self.folder),
                "PYTHONDONTWRITEBYTECODE": "1",
                **variables,
            },
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        assert (ended.returncode, ended.stderr) == (code, ""), ended.stdout
        return ended.stdout

    def environments(self) -> list[Path]:
        """Return the environments that there are."""
        return [stamp.parent for stamp in self.tools.glob("holdfast/*/stamp.json")]


@pytest.fixture
def runner(tmp_path: Path) -> Runner:
    return Runner(tmp_path)


@pytest.fixture(scope="module")
def two_steps(tmp_path_factory: pytest.TempPathFactory) -> tuple[Runner, str, str]:
    """Return a runner on which two steps have run, and what each printed."""
    runner = Runner(tmp_path_factory.mktemp("used"))
    return runner, runner.run(), runner.run()


def test_the_action_runs_in_an_environment_of_its_own_which_the_next_step_finds(
    two_steps: tuple[Runner, str, str],
) -> None:
    runner, first, second = two_steps

    assert "making an environment for the action" in first
    assert second.startswith(f"cancelled  SIG_IGN\nprefix {runner.tools}/holdfast/")
    assert second.endswith("\nisolated 1\ncommand save\n")
    assert first.endswith(second)
    assert not (runner.folder / "elsewhere").exists()


def test_other_requirements_make_another_environment_and_an_unused_one_goes(
    two_steps: tuple[Runner, str, str],
) -> None:
    runner, *_ = two_steps
    (unused,) = runner.environments()
    long_ago = time.time() - 31 * 24 * 3600
    os.utime(unused / "stamp.json", (long_ago, long_ago))
    runner.requirements.write_text("# nothing else\n")

    printed = runner.run()

    assert "making an environment" in printed
    (environment,) = runner.environments()
    assert environment != unused


def test_an_attempt_that_broke_off_is_made_anew(two_steps: tuple[Runner, str, str]) -> None:
    runner, *_ = two_steps
    (environment,) = runner.environments()
    (environment / "stamp.json").unlink()

    assert "making an environment" in runner.run()
    assert runner.environments() == [environment]


def test_where_the_tool_cache_cannot_be_written_the_jobs_own_folder_serves(runner: Runner) -> None:
    runner.tools.write_text("not a folder")

    assert f"prefix {runner.temp}" in runner.run()


def test_what_cannot_be_installed_is_a_warning_and_leaves_nothing_that_looks_whole(runner: Runner) -> None:
    runner.requirements.write_text("not-to-be-had==1.0\n")

    printed = runner.run()

    assert "not-to-be-had" in printed
    assert printed.splitlines()[-1].startswith("::warning title=Holdfast::The environment of the action")
    assert runner.environments() == []


def test_without_a_python_the_warning_says_what_to_add(runner: Runner) -> None:
    tools = runner.folder / "bin"
    tools.mkdir()
    (tools / "dirname").symlink_to(shutil.which("dirname") or "")

    printed = runner.run(PATH=str(tools))

    assert printed == (
        "::warning title=Holdfast::No Python 3.11 or later that can make a virtual environment. "
        "Add actions/setup-python before this step.\n"
    )
    assert runner.run(1, PATH=str(tools), HOLDFAST_INPUT_FAIL_ON_ERROR="true").startswith("::error title=")
    assert runner.run(1, PATH=str(tools), HOLDFAST_INPUT_CLAIM="true").startswith("::error title=")


@pytest.mark.parametrize("name", ["INT", "TERM"])
def test_a_job_that_is_cancelled_while_the_environment_is_looked_for_is_told_later(
    two_steps: tuple[Runner, str, str], name: str
) -> None:
    runner, *_ = two_steps
    tools = runner.folder / name
    tools.mkdir()
    python = tools / "python3"
    python.write_text(f'#!/bin/sh\nkill -{name} "$STEP"\nexec \'{sys.executable}\' "$@"\n')
    python.chmod(0o755)

    assert "cancelled yes SIG_IGN\n" in runner.run(PATH=f"{tools}:{os.environ['PATH']}")
