"""`holdfast keys rotate`, killed at any moment and called again, until it comes to its end.

What is stored was in the clear, or sealed with an older key: alone, in batches, and in parts. After each kill
everything is still there for who has both keys, and in the end for who has the new one alone.
"""

import json
import os
import random
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.library import Holdfast
from holdfast.security.jose import make_recipient_key, make_shared_key
from holdfast.settings import Settings
from tests.fakes.traces import find_traces

CANARY = "the canary that must not sing 4711"
RUNS = 4
CHECKPOINTS = 4
MODES = ("contents", "batches", "commit")
LONGEST_LIFE_S = 6.0
_ALWAYS_LOW = "1000000"


def play_rotation(folder: Path, seed: int, on_kill: Callable[[], None] = lambda: None) -> int:
    """Seal some runs anew, cut short over and over; return the number of kills. Raises AssertionError."""
    chance = random.Random(seed)
    mode = MODES[seed % len(MODES)]
    old: Any = chance.choice([None, make_shared_key(), make_recipient_key()])
    new = make_shared_key()
    emulator = Emulator(EmulatorOptions(root=folder / "github", repo="acme/state", token="good"))
    with EmulatorServer(emulator) as server:
        environment = {
            "HOLDFAST_REPO": "acme/state",
            "HOLDFAST_TOKEN": "good",
            "HOLDFAST_API_URL": server.url,
            "HOLDFAST_WRITE_MODE": "commit" if mode == "commit" else "contents",
            "HOLDFAST_LOW_BUDGET": _ALWAYS_LOW if mode == "batches" else "0",
            "HOLDFAST_INCREMENTAL": chance.choice(["on", "off"]),
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
            "HOLDFAST_LOG_LEVEL": "error",
            "HOLDFAST_DATA_DIR": str(folder / "data"),
        }
        _fill(environment, old, chance)
        both = {
            **environment,
            "HOLDFAST_LOW_BUDGET": "0",  # a rotation leaves the last of the budget to checkpoints
            "HOLDFAST_ENCRYPTION_KEY": "\n".join(map(json.dumps, filter(None, (new, old)))),
        }
        kills = 0
        # Each life may be longer than the one before, so that it comes to its end on a busy machine as well.
        while not _rotate(both, chance.uniform(0.2, LONGEST_LIFE_S) * (1 + kills / 4)):
            kills += 1
            on_kill()
            _check({**both, "HOLDFAST_DATA_DIR": str(folder / f"look-{kills}")})
            assert kills < 50, f"seed {seed}: it never comes to its end"
        # What is sealed with the new key alone opens, and nothing else is left after a clean-up.
        _check(
            {
                **environment,
                "HOLDFAST_ENCRYPTION_KEY": json.dumps(new),
                "HOLDFAST_DATA_DIR": str(folder / "new"),
            }
        )
        assert find_traces(folder / "data", CANARY) == [], f"seed {seed}: the local copy still tells"
    return kills


def _fill(environment: dict[str, str], key: Any, chance: random.Random) -> None:
    sealed = {**environment, "HOLDFAST_ENCRYPTION_KEY": json.dumps(key)} if key else environment
    with closing(Holdfast(Settings.from_environment(sealed))) as holdfast:
        for number in range(1, CHECKPOINTS + 1):
            for run in range(RUNS):
                holdfast.save(f"run-{run}", _state(run, number))
            if chance.random() < 0.6:
                holdfast.drain()
        assert holdfast.drain().left == 0


def _state(run: int, number: int) -> dict[str, Any]:
    kept = random.Random(run).randbytes(50_000).hex()
    return {
        "n": number,
        "canary": CANARY,
        "kept": kept,
        "changes": random.Random(number).randbytes(3000).hex(),
    }


def _rotate(environment: dict[str, str], life_s: float) -> bool:
    """Return whether it came to its end before its life was over."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast", "keys", "rotate", "--all"]
    process = subprocess.Popen(
        command, env=outside | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    try:
        said, _ = process.communicate(timeout=life_s)
    except subprocess.TimeoutExpired:
        process.kill()
        process.communicate()
        return False
    assert process.returncode == 0, said.decode()
    return True


def _check(environment: dict[str, str]) -> None:
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        for run in range(RUNS):
            for number in range(1, CHECKPOINTS + 1):
                assert holdfast.resume(f"run-{run}", at=number).state == _state(run, number)
            assert holdfast.validate(f"run-{run}").findings == []
