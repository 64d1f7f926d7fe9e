"""Make the virtual environment of this checkout, and tell whether it is current.

Uses the standard library alone, because nothing is installed yet when it runs.
"""

import fcntl
import hashlib
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tomllib
import venv
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
PYPROJECT = ROOT / "pyproject.toml"
CONSTRAINTS = ROOT / "scripts" / "constraints.txt"
HASHES = ROOT / "scripts" / "hashes.txt"
ENVIRONMENT = ROOT / ".venv"
PYTHON = ENVIRONMENT / "bin" / "python"
STAMP = ENVIRONMENT / "stamp.json"
LOCK = ROOT / ".venv.lock"

# Each of these would take pip or Python elsewhere than into this environment.
MISLEADING_VARIABLES = frozenset(
    {"PIP_CONSTRAINT", "PIP_PREFIX", "PIP_ROOT", "PIP_TARGET", "PIP_USER", "PYTHONHOME", "PYTHONPATH"}
)


class CannotMake(Exception):
    """The environment cannot be made; the message is for the person at the terminal."""


def read_requirements() -> list[str]:
    """Return all that running, testing and building the package needs, as pyproject.toml says it."""
    pyproject = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    project = pyproject["project"]
    return [
        *project["dependencies"],
        *project["optional-dependencies"]["dev"],
        *pyproject["build-system"]["requires"],
    ]


def clean_variables() -> dict[str, str]:
    """Return the environment variables without those that mislead pip or Python."""
    return {name: value for name, value in os.environ.items() if name not in MISLEADING_VARIABLES}


def fingerprint() -> str:
    """Return a digest of everything that the environment is made from."""
    digest = hashlib.sha256()
    for source in (PYPROJECT, HASHES, Path(__file__)):
        digest.update(hashlib.sha256(source.read_bytes()).digest())
    digest.update(os.fsencode(ROOT) + b"\0" + sys.version.encode())
    return digest.hexdigest()


def installed_distributions() -> set[str]:
    """Return the name and version of each distribution, as its metadata folder spells them."""
    return {folder.name for folder in ENVIRONMENT.glob("lib/python3.*/site-packages/*.dist-info")}


def is_current() -> bool:
    """Whether the environment was made from today's sources for this Python and lost nothing since.

    What someone added to it by hand does no harm.
    """
    try:
        stamp = json.loads(STAMP.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return False
    return bool(
        stamp["fingerprint"] == fingerprint() and installed_distributions().issuperset(stamp["distributions"])
    )


def has_working_python() -> bool:
    """Whether the environment's own Python runs and finds its environment current."""
    try:
        answer = subprocess.run([PYTHON, "-I", __file__, "--is-current"], capture_output=True, check=False)
    except OSError:
        return False
    return answer.returncode == 0


def make() -> None:
    """Make the environment anew. The stamp comes last: a broken-off attempt is never taken for current."""
    refuse_unpinned()
    remove_environment()
    try:
        venv.EnvBuilder(symlinks=True, with_pip=True).create(ENVIRONMENT)
    except subprocess.CalledProcessError as error:
        raise CannotMake(f"ensurepip failed: {error.output!r}") from error
    # The list is whole; left to resolve, pip would ask for the hash of what a package wants with an extra.
    # Compiling all of githubkit's models would take longer than all the rest.
    pip_install("--no-compile", "--no-deps", "--require-hashes", "--requirement", str(HASHES))
    # Building without isolation takes the pinned build tools, which are installed by now.
    pip_install("--no-index", "--no-deps", "--no-build-isolation", "--editable", str(ROOT))
    stamp = {"fingerprint": fingerprint(), "distributions": sorted(installed_distributions())}
    STAMP.write_text(json.dumps(stamp, indent=1), encoding="utf-8")


def refuse_unpinned() -> None:
    """Raise CannotMake for what pyproject.toml asks for and nobody has pinned."""
    pinned = set(re.findall(r"^([a-z0-9-]+)==", HASHES.read_text(encoding="utf-8"), re.MULTILINE))
    names = {re.split(r"[^\w.-]", each)[0] for each in read_requirements()}
    unpinned = {re.sub(r"[-_.]+", "-", name).lower() for name in names} - pinned
    if unpinned:
        raise CannotMake(f"{', '.join(sorted(unpinned))} is not in scripts/hashes.txt: run scripts/pin")


def remove_environment() -> None:
    """Remove what stands in the environment's place; of a link only the link."""
    if ENVIRONMENT.is_dir() and not ENVIRONMENT.is_symlink():
        shutil.rmtree(ENVIRONMENT)
    else:
        ENVIRONMENT.unlink(missing_ok=True)


def pip_install(*arguments: str) -> None:
    """Install into the environment. When pip cannot, it has said why itself."""
    command = [str(PYTHON), "-I", "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet", "install"]
    if subprocess.run([*command, *arguments], env=clean_variables(), check=False).returncode != 0:
        raise CannotMake("pip failed, see above; it needs to reach a package index, as it is configured here")


@contextmanager
def only_one() -> Iterator[None]:
    """Let one process at a time in. The lock dies with its process."""
    with LOCK.open("w") as lock:
        try:
            fcntl.flock(lock, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            tell("another set-up is under way; waiting for it")
            fcntl.flock(lock, fcntl.LOCK_EX)
        yield


def tell(sentence: str) -> None:
    """Speak to the person, away from the output of the command that needs the environment."""
    print(f"holdfast: {sentence}", file=sys.stderr, flush=True)


def main() -> int:
    """Make the environment current, or with `--is-current` only tell by the exit code whether it is."""
    if sys.argv[1:] == ["--is-current"]:
        return 0 if is_current() else 1
    try:
        with only_one():
            if is_current() and has_working_python():
                return 0
            tell(f"making the virtual environment .venv with Python {platform.python_version()}")
            make()
    except (OSError, CannotMake) as error:
        tell(f"could not make .venv: {error}")
        return 1
    except KeyboardInterrupt:
        return 130
    tell("the virtual environment .venv is ready")
    return 0


if __name__ == "__main__":
    sys.exit(main())
