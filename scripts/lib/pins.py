"""Write the constraints file from a fresh resolve of what pyproject.toml asks for, and its parts with hashes.

The constraints say versions alone, as pip takes them beside a folder to install. The other files have the
digests of every file of each release, for whatever machine: pip then installs nothing else.
"""

import json
import re
import subprocess
import sys
import tomllib
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from environment import CONSTRAINTS, HASHES, PYPROJECT, ROOT, clean_variables, read_requirements
from releases import find_digests

REQUIREMENTS = ROOT / "scripts" / "requirements.txt"
PAGES_AT_ONCE = 8
ACTION_REQUIREMENTS = ROOT / "scripts" / "action-requirements.txt"
HEADER = """\
# Every version that was tested, direct and transitive. Written by scripts/pin.
"""
HASHES_HEADER = """\
# The same versions as in constraints.txt, with the digests of all their files. Written by scripts/pin.
"""
REQUIREMENTS_HEADER = """\
# What Holdfast needs to be built and to run, direct and transitive. Written by scripts/pin.
"""
ACTION_HEADER = """\
# What a step of the GitHub Action needs, direct and transitive. Written by scripts/pin.
"""
# Only the sidecar, the emulator and the terminal use these; every job would wait for them.
NOT_FOR_THE_ACTION = frozenset(
    {
        "graphql-core",
        "httptools",
        "prometheus-client",
        "pygit2",
        "rich",
        "starlette",
        "uvicorn",
        "uvloop",
    }
)


def read_action_requirements() -> list[str]:
    """Return what the package needs, as far as a step of the action uses it."""
    dependencies = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    return [each for each in dependencies if re.split(r"[^\w-]", each)[0] not in NOT_FOR_THE_ACTION]


def read_package_requirements() -> list[str]:
    """Return what the package needs to be built and to run."""
    project = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))
    return [*project["project"]["dependencies"], *project["build-system"]["requires"]]


def resolve(requirements: list[str], *options: str) -> dict[str, str]:
    """Return the version that an empty environment would get of each distribution, by normalized name."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet", "install"]
    report = subprocess.run(
        [*command, "--dry-run", "--ignore-installed", "--report", "-", *options, *requirements],
        env=clean_variables(),
        stdout=subprocess.PIPE,
        check=True,
    )
    found = [entry["metadata"] for entry in json.loads(report.stdout)["install"]]
    return {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in found}


def write(path: Path, header: str, pins: dict[str, str]) -> None:
    """Write names and versions alone: where they came from is each machine's own matter."""
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    path.write_text(header + "".join(lines), encoding="utf-8")
    print(f"{path.name}: {len(pins)} versions pinned")


def write_hashed(path: Path, header: str, pins: dict[str, str], digests: dict[str, list[str]]) -> None:
    """Write names and versions, each with the digests of all files of that release."""
    blocks = [
        " \\\n".join([f"{name}=={version}", *(f"    --hash=sha256:{each}" for each in digests[name])])
        for name, version in sorted(pins.items())
    ]
    path.write_text(header + "".join(f"{block}\n" for block in blocks), encoding="utf-8")
    print(f"{path.name}: {len(pins)} versions pinned by hash")


def main() -> int:
    """Resolve everything, then its parts to the same versions; `--hashes` keeps the versions there are."""
    try:
        if "--hashes" not in sys.argv:
            write(CONSTRAINTS, HEADER, resolve(read_requirements()))
        lines = CONSTRAINTS.read_text(encoding="utf-8").splitlines()
        pins = dict(line.split("==") for line in lines if not line.startswith("#"))
        with ThreadPoolExecutor(PAGES_AT_ONCE) as pool:
            digests = dict(zip(pins, pool.map(find_digests, pins.keys(), pins.values()), strict=True))
        write_hashed(HASHES, HASHES_HEADER, pins, digests)
        for path, header, wanted in (
            (REQUIREMENTS, REQUIREMENTS_HEADER, read_package_requirements()),
            (ACTION_REQUIREMENTS, ACTION_HEADER, read_action_requirements()),
        ):
            write_hashed(path, header, resolve(wanted, "--constraint", str(CONSTRAINTS)), digests)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
