"""What only the emulator needs is loaded only where it runs."""

import subprocess
import sys

import pytest

PROGRAM = """
import sys

class Refuse:
    @staticmethod
    def find_spec(name, path=None, target=None):
        if name in ("pygit2", "_pygit2", "graphql"):
            raise ModuleNotFoundError(f"{name} is for the emulator alone")

sys.meta_path.insert(0, Refuse)
"""
DOORS = """
import importlib, pkgutil, holdfast

own = ("holdfast.emulator", "holdfast.__main__", "holdfast.action.__main__", "holdfast.cli.demo")
for module in pkgutil.walk_packages(holdfast.__path__, "holdfast."):
    if not module.name.startswith(own):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            if "emulator alone" in str(error):
                raise
"""
STATUS = """
import os, tempfile
from holdfast.cli import main

os.environ |= {"HOLDFAST_REPO": "you/checkpoints", "HOLDFAST_TOKEN": "t"}
os.environ["HOLDFAST_DATA_DIR"] = tempfile.mkdtemp()
sys.exit(main(["status"]))
"""


@pytest.mark.parametrize("program", [DOORS, STATUS], ids=["every module", "a command"])
def test_everything_but_the_emulator_does_without(program: str) -> None:
    answer = subprocess.run(
        [sys.executable, "-c", PROGRAM + program], capture_output=True, text=True, check=False, timeout=100
    )

    assert answer.returncode == 0, answer.stderr
