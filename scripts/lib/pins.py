"""Write the constraints file from a fresh resolve of what pyproject.toml asks for, and the action's part."""

import json
import re
import subprocess
import sys
import tomllib
from pathlib import Path

from environment import CONSTRAINTS, PYPROJECT, ROOT, clean_variables, read_requirements

ACTION_REQUIREMENTS = ROOT / "scripts" / "action-requirements.txt"
HEADER = """\
# Every version that was tested, direct and transitive. Written by scripts/pin.
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
    }
)


def read_action_requirements() -> list[str]:
    """Return what the package needs, as far as a step of the action uses it."""
    dependencies = tomllib.loads(PYPROJECT.read_text(encoding="utf-8"))["project"]["dependencies"]
    return [each for each in dependencies if re.split(r"[^\w-]", each)[0] not in NOT_FOR_THE_ACTION]


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


def main() -> int:
    """Resolve everything, then the action's part of it to the same versions."""
    try:
        write(CONSTRAINTS, HEADER, resolve(read_requirements()))
        pins = resolve(read_action_requirements(), "--constraint", str(CONSTRAINTS))
        write(ACTION_REQUIREMENTS, ACTION_HEADER, pins)
    except subprocess.CalledProcessError as error:
        return error.returncode
    return 0


if __name__ == "__main__":
    sys.exit(main())
