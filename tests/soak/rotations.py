"""`holdfast keys rotate`, killed at any moment and called again, until it comes to its end.

What is stored was in the clear, or sealed with an older key: alone, in batches, and in parts. After each kill
everything is still there for who has both keys, and in the end for who has the new one alone. It is killed
while one of its requests is under way, which is then carried out or not, or shortly after one.
"""

import json
import os
import random
import signal
import subprocess
import sys
import threading
from collections.abc import Callable
from contextlib import closing
from pathlib import Path
from typing import Any

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.emulator.exchange import Answer, Request
from holdfast.library import Holdfast
from holdfast.security.jose import make_recipient_key, make_shared_key
from holdfast.settings import Settings
from tests.fakes.traces import find_traces

CANARY = "the canary that must not sing 4711"
RUNS = 4
CHECKPOINTS = 4
MODES = ("contents", "batches", "commit")
MOST_KILLS = 50
_ALWAYS_LOW = "1000000"
_MOST_REQUESTS = 16
_LONGEST_REST_S = 0.05


class Deadly(Emulator):
    """A GitHub that kills who asks it, at one of the requests."""

    def __init__(self, options: EmulatorOptions, chance: random.Random) -> None:
        super().__init__(options)
        self._chance = chance
        self._kill: Callable[[], None] | None = None
        self._left = 0

    def aim(self, kill: Callable[[], None], requests: int) -> None:
        """Kill at this request, counted from now."""
        self._left, self._kill = requests, kill

    def handle(self, request: Request) -> Answer:
        """Answer a request, which its sender may not live to see, nor whether it was carried out."""
        self._left -= 1
        if self._left or self._kill is None:
            return super().handle(request)
        manner = self._chance.choice(["before", "after", "later"])
        if manner == "later":
            threading.Timer(self._chance.uniform(0, _LONGEST_REST_S), self._kill).start()
            return super().handle(request)
        answer = super().handle(request) if manner == "after" else Answer(500)
        self._kill()
        return answer


def play_rotation(folder: Path, seed: int) -> int:
    """Seal some runs anew, cut short over and over; return the number of kills. Raises AssertionError."""
    chance = random.Random(seed)
    mode = MODES[seed % len(MODES)]
    old: Any = chance.choice([None, make_shared_key(), make_recipient_key()])
    new = make_shared_key()
    emulator = Deadly(EmulatorOptions(root=folder / "github", repo="acme/state", token="good"), chance)
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
        _fill(environment, old, chance, mode)
        both = {
            **environment,
            "HOLDFAST_LOW_BUDGET": "0",  # a rotation leaves the last of the budget to checkpoints
            "HOLDFAST_ENCRYPTION_KEY": "\n".join(map(json.dumps, filter(None, (new, old)))),
        }
        kills = 0
        # Each life may be longer than the one before, so that it comes to its end.
        while not _rotate(both, emulator, chance.randint(1, _MOST_REQUESTS * (1 + kills))):
            kills += 1
            _check({**both, "HOLDFAST_DATA_DIR": str(folder / f"look-{kills}")})
            assert kills < MOST_KILLS, f"seed {seed}: it never comes to its end"
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


def _fill(environment: dict[str, str], key: Any, chance: random.Random, mode: str) -> None:
    sealed = {**environment, "HOLDFAST_ENCRYPTION_KEY": json.dumps(key)} if key else environment
    with closing(Holdfast(Settings.from_environment(sealed))) as holdfast:
        for number in range(1, CHECKPOINTS + 1):
            for run in range(RUNS):
                holdfast.save(f"run-{run}", _state(run, number))
            # The first answers tell that the budget is low, so that the others go up in batches.
            if number == 1 if mode == "batches" else chance.random() < 0.6:
                holdfast.drain()
        assert holdfast.drain().left == 0
        paths = [entry.file_path for entry in holdfast.checkpoints("run-0").entries]
        assert any("/batch_" in path for path in paths) == (mode == "batches"), paths


def _state(run: int, number: int) -> dict[str, Any]:
    kept = random.Random(run).randbytes(50_000).hex()
    return {
        "n": number,
        "canary": CANARY,
        "kept": kept,
        "changes": random.Random(number).randbytes(3000).hex(),
    }


def _rotate(environment: dict[str, str], emulator: Deadly, requests: int) -> bool:
    """Whether it came to its end before it was killed, which happens at this request."""
    outside = {name: value for name, value in os.environ.items() if not name.startswith("HOLDFAST_")}
    command = [sys.executable, "-m", "holdfast", "keys", "rotate", "--all"]
    process = subprocess.Popen(
        command, env=outside | environment, stdout=subprocess.PIPE, stderr=subprocess.STDOUT
    )
    emulator.aim(process.kill, requests)
    said, _ = process.communicate(timeout=120)
    if process.returncode == -signal.SIGKILL:
        return False
    assert process.returncode == 0, said.decode()
    return True


def _check(environment: dict[str, str]) -> None:
    with closing(Holdfast(Settings.from_environment(environment))) as holdfast:
        for run in range(RUNS):
            for number in range(1, CHECKPOINTS + 1):
                assert holdfast.resume(f"run-{run}", at=number).state == _state(run, number)
            assert holdfast.validate(f"run-{run}").findings == []
