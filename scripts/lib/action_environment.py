"""Make the environment that the GitHub Action runs in, apart from the job's Python, and print its Python.

It holds what the action needs and not the action itself, which runs from its own checkout: so it can be used
again by any version that needs the same. Uses the standard library alone.
"""

import fcntl
import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import time
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import metadata
from pathlib import Path

from environment import ROOT, CannotMake, clean_variables, tell

REQUIREMENTS = ROOT / "scripts" / "action-requirements.txt"
UNUSED_AFTER_S = 30 * 24 * 3600
# From this version on, pip can install for another Python: no second pip has to be set up first.
CAPABLE_PIP = (22, 3)


def find_home() -> Path:
    """Return the folder for environments: one that outlives the job, if there is one that can be written."""
    problems = []
    for variable in ("RUNNER_TOOL_CACHE", "RUNNER_TEMP"):
        if place := os.environ.get(variable):
            home = Path(place) / "holdfast"
            try:
                home.mkdir(parents=True, exist_ok=True)
                (home / "lock").touch()
            except OSError as error:
                problems.append(str(error))
            else:
                return home
    raise CannotMake(f"RUNNER_TOOL_CACHE and RUNNER_TEMP name no folder for it {problems or ''}".rstrip())


def fingerprint() -> str:
    """Return a digest of everything that the environment is made from."""
    digest = hashlib.sha256()
    for source in (REQUIREMENTS, Path(__file__)):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    for text in (sys.version, os.path.realpath(sys.executable), platform.machine(), *platform.libc_ver()):
        digest.update(text.encode(errors="surrogateescape") + b"\0")
    return digest.hexdigest()[:16]


class Environment:
    """One virtual environment. Its stamp comes last: a broken-off attempt is never taken for whole."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.python = folder / "bin" / "python"
        self.stamp = folder / "stamp.json"

    def is_whole(self) -> bool:
        """Whether it was made to the end and lost nothing since."""
        try:
            stamp = json.loads(self.stamp.read_text(encoding="utf-8"))
            return self.python.exists() and self._distributions().issuperset(stamp)
        except (OSError, ValueError):
            return False

    def make(self) -> None:
        """Make it anew."""
        shutil.rmtree(self.folder, ignore_errors=True)
        has_capable_pip = pip_version() >= CAPABLE_PIP
        try:
            venv.EnvBuilder(symlinks=True, with_pip=not has_capable_pip).create(self.folder)
        except subprocess.CalledProcessError as error:
            raise CannotMake(f"ensurepip failed: {error.output!r}") from error
        own = ["--python", str(self.python)] if has_capable_pip else []
        python = sys.executable if has_capable_pip else str(self.python)
        # Everything is pinned, so nothing is left to resolve; only what is imported needs to be compiled.
        command = [python, "-I", "-m", "pip", *own, "--disable-pip-version-check", "-qq", "install"]
        options = ["--no-deps", "--no-compile", "--only-binary", ":all:"]
        options += ["--require-hashes", "--requirement", str(REQUIREMENTS)]
        if subprocess.run(
            [*command, *options], env=clean_variables(), stdout=sys.stderr, check=False
        ).returncode:
            raise CannotMake("pip failed, see above; it needs to reach a package index")
        self.stamp.write_text(json.dumps(sorted(self._distributions())), encoding="utf-8")

    def touch(self) -> None:
        """Note that it is in use."""
        os.utime(self.stamp)

    def _distributions(self) -> set[str]:
        return {folder.name for folder in self.folder.glob("lib/python3.*/site-packages/*.dist-info")}


def pip_version() -> tuple[int, ...]:
    """Return the version of this Python's own pip; nothing if it has none."""
    try:
        return tuple(int(part) for part in metadata.version("pip").split(".")[:2])
    except (metadata.PackageNotFoundError, ValueError):
        return ()


def remove_unused(home: Path, *, now: float) -> None:
    """Remove environments that nobody has used for a long time: a runner of one's own keeps them all."""
    for stamp in home.glob("*/stamp.json"):
        if now - stamp.stat().st_mtime > UNUSED_AFTER_S:
            shutil.rmtree(stamp.parent, ignore_errors=True)


@contextmanager
def only_one(lock: Path) -> Iterator[None]:
    """Let one process at a time in. The lock dies with its process."""
    with lock.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def main() -> int:
    """Make the environment if it is not there, and print the path of its Python."""
    try:
        home = find_home()
        environment = Environment(home / fingerprint())
        if not environment.is_whole():
            with only_one(home / "lock"):
                if not environment.is_whole():
                    tell(f"making an environment for the action with Python {platform.python_version()}")
                    environment.make()
                    remove_unused(home, now=time.time())
        environment.touch()
    except (OSError, CannotMake) as error:
        tell(f"could not make an environment for the action: {error}")
        return 1
    print(environment.python)
    return 0


if __name__ == "__main__":
    sys.exit(main())
