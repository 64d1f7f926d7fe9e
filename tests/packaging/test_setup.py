"""`scripts/setup` makes the environment once, from any folder, and notices when it is no longer current.

It works here on a tiny project that needs nothing from a package index.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

SCRIPTS = Path(__file__).resolve().parents[2] / "scripts"

PYPROJECT = """\
[build-system]
requires = []
build-backend = "backend"
backend-path = ["."]
[project]
name = "tiny"
version = "1.0"
dependencies = []
[project.optional-dependencies]
dev = []
"""

NEEDY = PYPROJECT.replace("dependencies = []", 'dependencies = ["not-to-be-had>=1"]')

BACKEND = '''\
"""Builds an installable wheel with no code in it."""
import pathlib, zipfile

def build_editable(folder, config_settings=None, metadata_directory=None):
    name = "tiny-1.0-py3-none-any.whl"
    with zipfile.ZipFile(pathlib.Path(folder) / name, "w") as wheel:
        wheel.writestr("tiny-1.0.dist-info/METADATA", "Metadata-Version: 2.1\\nName: tiny\\nVersion: 1.0\\n")
        wheel.writestr("tiny-1.0.dist-info/WHEEL", "Wheel-Version: 1.0\\nTag: py3-none-any\\n")
        wheel.writestr("tiny-1.0.dist-info/RECORD", "")
    return name
'''

pytestmark = [pytest.mark.packaging, pytest.mark.timeout(300)]


class Checkout:
    """A tiny project with the real set-up scripts."""

    def __init__(self, root: Path, pyproject: str = PYPROJECT, hashes: str = "") -> None:
        self.root = root
        self.stamp = root / ".venv" / "stamp.json"
        (root / "scripts").mkdir(parents=True)
        shutil.copy(SCRIPTS / "setup", root / "scripts")
        shutil.copytree(
            SCRIPTS / "lib", root / "scripts" / "lib", ignore=shutil.ignore_patterns("__pycache__")
        )
        (root / "scripts" / "hashes.txt").write_text(hashes)
        (root / "pyproject.toml").write_text(pyproject)
        (root / "backend.py").write_text(BACKEND)

    def start_setup(self, **variables: str) -> "subprocess.Popen[str]":
        """Start the script as a newcomer does, but with an empty home and variables that could mislead it."""
        home = self.root.parent / "home"
        home.mkdir(exist_ok=True)
        return subprocess.Popen(
            [self.root / "scripts" / "setup"],
            cwd=home,
            env={
                "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}",
                "HOME": str(home),
                "PIP_NO_INDEX": "1",
                "PIP_TARGET": str(home / "elsewhere"),
                "PYTHONDONTWRITEBYTECODE": "1",
                "PYTHONPATH": str(home),
                "CDPATH": str(self.root.parent),
                **variables,
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
        )

    def set_up(self, **variables: str) -> tuple[int, str]:
        """Return the exit code and the words of one set-up."""
        return finish(self.start_setup(**variables))

    def is_current(self) -> bool:
        """Tell what the environment's own Python says of it."""
        return ask_whether_current(self.root)


def finish(process: "subprocess.Popen[str]") -> tuple[int, str]:
    """Return the exit code and the words of a process that was started."""
    words, _ = process.communicate(timeout=200)
    return process.returncode, words


def ask_whether_current(root: Path) -> bool:
    """Whether the environment under `root` takes itself for current."""
    python, script = root / ".venv" / "bin" / "python", root / "scripts" / "lib" / "environment.py"
    return (
        subprocess.run([python, "-I", "-S", script, "--is-current"], check=False, timeout=60).returncode == 0
    )


@pytest.fixture(scope="module")
def bare_checkout(tmp_path_factory: pytest.TempPathFactory) -> Checkout:
    return Checkout(tmp_path_factory.mktemp("with space") / "tiny project")


@pytest.fixture(scope="module")
def two_at_once(bare_checkout: Checkout) -> list[tuple[int, str]]:
    both = [bare_checkout.start_setup(), bare_checkout.start_setup()]
    return [finish(process) for process in both]


@pytest.fixture
def checkout(bare_checkout: Checkout, two_at_once: list[tuple[int, str]]) -> Checkout:
    """Return the one checkout of this module, set up; each test leaves it as it was."""
    return bare_checkout


@contextmanager
def altered(path: Path) -> Iterator[None]:
    """Append a line to the file for a while."""
    original = path.read_bytes()
    path.write_bytes(original + b"\n# altered\n")
    try:
        yield
    finally:
        path.write_bytes(original)


@contextmanager
def moved(path: Path) -> Iterator[None]:
    """Take the file or folder away for a while."""
    aside = path.with_name("aside")
    path.rename(aside)
    try:
        yield
    finally:
        aside.rename(path)


def test_of_two_at_once_one_makes_the_environment_and_the_other_waits(
    checkout: Checkout, two_at_once: list[tuple[int, str]]
) -> None:
    assert [code for code, _ in two_at_once] == [0, 0]
    assert sum("making" in words for _, words in two_at_once) == 1
    assert checkout.is_current()
    assert not (checkout.root.parent / "home" / "elsewhere").exists()


def test_a_current_environment_is_reused_without_a_word(checkout: Checkout) -> None:
    made_at = checkout.stamp.stat().st_mtime_ns

    assert checkout.set_up() == (0, "")
    assert checkout.set_up(PYTHON=sys.executable) == (0, "")
    assert checkout.stamp.stat().st_mtime_ns == made_at


@pytest.mark.parametrize("source", ["pyproject.toml", "scripts/hashes.txt", "scripts/lib/environment.py"])
def test_a_change_of_what_it_is_made_from_makes_it_stale(checkout: Checkout, source: str) -> None:
    with altered(checkout.root / source):
        changed = checkout.is_current()

    assert (changed, checkout.is_current()) == (False, True)


def test_a_missing_distribution_makes_it_stale(checkout: Checkout) -> None:
    metadata = next(checkout.root.glob(".venv/lib/python3.*/site-packages/tiny-1.0.dist-info"))

    with moved(metadata):
        changed = checkout.is_current()

    assert (changed, checkout.is_current()) == (False, True)


def test_an_attempt_that_broke_off_is_not_current(checkout: Checkout) -> None:
    with moved(checkout.stamp):
        assert not checkout.is_current()


def test_a_moved_checkout_is_stale(checkout: Checkout) -> None:
    elsewhere = checkout.root.with_name("elsewhere moved")
    checkout.root.rename(elsewhere)
    try:
        changed = ask_whether_current(elsewhere)
    finally:
        elsewhere.rename(checkout.root)

    assert (changed, checkout.is_current()) == (False, True)


def test_an_environment_whose_python_is_gone_is_made_anew(checkout: Checkout) -> None:
    python = checkout.root / ".venv" / "bin" / "python"
    python.unlink()
    python.symlink_to(checkout.root / "no such python")

    code, words = checkout.set_up()

    assert (code, "making" in words) == (0, True)
    assert checkout.is_current()


def test_what_cannot_be_installed_is_told_and_leaves_nothing_that_looks_current(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "tiny", NEEDY, f"not-to-be-had==1.0 --hash=sha256:{'0' * 64}\n")

    code, words = checkout.set_up()

    assert (code, checkout.is_current()) == (1, False)
    assert "No matching distribution found for not-to-be-had" in words
    assert "could not make .venv: pip failed" in words


def test_what_nobody_has_pinned_is_told_and_not_installed(tmp_path: Path) -> None:
    checkout = Checkout(tmp_path / "tiny", NEEDY)

    code, words = checkout.set_up()

    assert (code, checkout.stamp.exists()) == (1, False)
    assert "could not make .venv: not-to-be-had is not in scripts/hashes.txt: run scripts/pin" in words


def test_a_python_that_does_not_work_is_refused_by_name(checkout: Checkout) -> None:
    code, words = checkout.set_up(PYTHON="/no/such/python")

    assert code == 1
    assert "PYTHON=/no/such/python is not a working Python 3.11" in words


def choose_python(path: Path) -> "subprocess.CompletedProcess[str]":
    """Ask the script which Python it takes when only `path` can be searched."""
    bash = shutil.which("bash")
    assert bash is not None
    return subprocess.run(
        [bash, "-c", 'source "$1"; choose_python', "bash", SCRIPTS / "lib" / "python.sh"],
        env={"PATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )


def write_command(path: Path, line: str) -> None:
    path.write_text(f"#!/bin/sh\n{line}\n")
    path.chmod(0o755)


def test_a_shim_that_fails_is_passed_over(tmp_path: Path) -> None:
    write_command(tmp_path / "python3", "exit 127")
    write_command(tmp_path / "python3.12", f"exec '{sys.executable}' \"$@\"")

    assert choose_python(tmp_path).stdout == "python3.12\n"


def test_without_any_python_the_message_says_what_to_install(tmp_path: Path) -> None:
    answer = choose_python(tmp_path)

    assert (answer.returncode, answer.stdout) == (1, "")
    assert "found no Python 3.11 or later" in answer.stderr
