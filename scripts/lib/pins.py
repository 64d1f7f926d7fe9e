"""Write the constraints file from a fresh resolve of what pyproject.toml asks for."""

import json
import re
import subprocess
import sys

from environment import CONSTRAINTS, clean_variables, read_requirements

HEADER = """\
# Every version that was tested, direct and transitive. Written by scripts/pin.
"""


def resolve(requirements: list[str]) -> dict[str, str]:
    """Return the version that an empty environment would get of each distribution, by normalized name."""
    command = [sys.executable, "-m", "pip", "--disable-pip-version-check", "--quiet", "--quiet", "install"]
    report = subprocess.run(
        [*command, "--dry-run", "--ignore-installed", "--report", "-", *requirements],
        env=clean_variables(),
        stdout=subprocess.PIPE,
        check=True,
    )
    found = [entry["metadata"] for entry in json.loads(report.stdout)["install"]]
    return {re.sub(r"[-_.]+", "-", each["name"]).lower(): each["version"] for each in found}


def main() -> int:
    """Resolve, then write names and versions alone: where they came from is each machine's own matter."""
    try:
        pins = resolve(read_requirements())
    except subprocess.CalledProcessError as error:
        return error.returncode
    lines = [f"{name}=={version}\n" for name, version in sorted(pins.items())]
    CONSTRAINTS.write_text(HEADER + "".join(lines), encoding="utf-8")
    print(f"{len(pins)} versions pinned")
    return 0


if __name__ == "__main__":
    sys.exit(main())
