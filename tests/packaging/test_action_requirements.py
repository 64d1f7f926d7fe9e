"""The action installs the tested versions, and everything that a step of it imports."""

import json
import os
import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]

# Loads all that the commands of a step load, as if nothing else were installed than what is named first.
PROGRAM = """
import json, sys
from importlib import import_module, metadata

installed, modules = json.loads(sys.argv[1])
owners = metadata.packages_distributions()

class OnlyThese:
    @staticmethod
    def find_spec(name, path=None, target=None):
        names = {owner.lower().replace("_", "-").replace(".", "-") for owner in owners.get(name, [])}
        if names and not names & {*installed, "holdfast"}:
            raise ModuleNotFoundError(f"{name} is not installed with the action")

sys.meta_path.insert(0, OnlyThese)
for name in modules:
    import_module(name)
"""
MODULES = (
    "holdfast.action.entry",
    "holdfast.library",
    "holdfast.drain.worker",
    "holdfast.repository.reader",
    "holdfast.retention",
    "holdfast.presentation.sweeps",
    "holdfast.github.client",
    "holdfast.drain.commits",
    "holdfast.drain.contents",
)


def read_pins(name: str) -> dict[str, str]:
    lines = (ROOT / "scripts" / name).read_text(encoding="utf-8").splitlines()
    return dict(line.removesuffix(" \\").split("==") for line in lines if line[:1].isalnum())


def test_the_action_has_the_versions_that_were_tested() -> None:
    assert read_pins("action-requirements.txt").items() <= read_pins("constraints.txt").items()


def test_the_action_has_everything_that_it_imports() -> None:
    asked = json.dumps([list(read_pins("action-requirements.txt")), MODULES])

    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM, asked],
        env={"PATH": os.environ["PATH"], "PYTHONPATH": str(ROOT / "src")},
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )

    assert answer.returncode == 0, answer.stderr


def test_a_line_names_no_place_to_fetch_from() -> None:
    lines = (ROOT / "scripts" / "action-requirements.txt").read_text(encoding="utf-8").splitlines()

    allowed = r"[a-z0-9-]+==[0-9][a-z0-9.]* \\|    --hash=sha256:[0-9a-f]{64}( \\)?"
    assert all(re.fullmatch(allowed, line) for line in lines[1:])
