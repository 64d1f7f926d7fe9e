"""Processes under load that die by SIGKILL at any moment, over and over, and start again.

One submits, one drains, and GitHub is a third; whoever was answered has told us so through a pipe.
"""

import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from uuid import uuid4

from holdfast.errors import SpoolBusy
from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings import Settings
from tests.fakes.repository import check_files, files_of_run, read_branch

RUNS = ("run-a", "run-b")
SUBMITS_PER_LIFE = 12
LONGEST_LIFE_S = 60
MODES = ("contents", "batches", "commit")
# More calls than any token has, so that the budget is always low.
ALWAYS_LOW = "1000000"

_SERVER = """
import sys
from pathlib import Path
from holdfast.emulator import EmulatorOptions, serve
serve(EmulatorOptions(root=Path(sys.argv[1])), on_ready=lambda url: print(url, flush=True))
"""


@dataclass
class Survived:
    """How many kills there were, and how many checkpoints were acknowledged meanwhile."""

    kills: int = 0
    acknowledged: dict[str, str] = field(default_factory=dict)


def kill_often(folder: Path, kills: int, seed: int, on_kill: Callable[[], None] = lambda: None) -> Survived:
    """Kill processes at work in `folder`, then finish their work and judge it. Raises AssertionError."""
    chance = random.Random(seed)
    survived = Survived()
    with serve_github(folder / "github") as url:
        with Holdfast(make_settings(url, folder / "machine", "contents")) as holdfast:
            holdfast.drain()  # asks nothing, but loads everything, so that children are at work at once
        _Pair(url, folder / "machine", chance, survived).suffer(kills, on_kill)
        with Holdfast(make_settings(url, folder / "machine", "contents")) as holdfast:
            result = holdfast.drain(timeout_s=60)
            assert result.left == 0, f"{result.left} could not be written: {result.reason}"
            receipts = [holdfast.receipt(identity) for identity in survived.acknowledged]
    assert {receipt.status if receipt else None for receipt in receipts} <= {Progress.VERIFIED}
    _judge(folder / "github" / "holdfast" / "checkpoints.git", survived)
    return survived


def _judge(repository: Path, survived: Survived) -> None:
    """Assert that each acknowledged checkpoint is stored once, with what was submitted."""
    found: dict[str, str] = {}
    if not survived.acknowledged:
        return
    files = read_branch(repository)
    for run_id in RUNS:
        parsed = files_of_run(files, run_id)
        if not parsed:
            continue
        check_files(files, run_id)
        files_of_checkpoints = [file for name, file in parsed.items() if not name.startswith("index")]
        stored = [each for file in files_of_checkpoints for each in file.get("checkpoints", [file])]
        found |= {each["checkpoint_id"]: each["state_snapshot"]["said"] for each in stored}
    lost = survived.acknowledged.items() - found.items()
    assert not lost, f"{len(lost)} acknowledged checkpoints are lost or altered: {sorted(lost)[:3]}"


class _Pair:
    """A submitting and a draining process on one data folder, of which one is killed at a time."""

    def __init__(self, url: str, folder: Path, chance: random.Random, survived: Survived) -> None:
        self._url = url
        self._folder = folder
        self._chance = chance
        self._survived = survived
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._reader, False)
        self._unread = b""

    def suffer(self, kills: int, on_kill: Callable[[], None]) -> None:
        """Start both, and kill one of them, and start it again, `kills` times."""
        bodies = (self._submit, self._drain)
        alive = [self._fork(body) for body in bodies]
        try:
            for _ in range(kills):
                time.sleep(self._chance.uniform(0.0, 0.25))
                victim = self._chance.randrange(len(bodies))
                _kill(alive[victim])
                self._survived.kills += 1
                alive[victim] = self._fork(bodies[victim])
                self._hear()
                on_kill()
            for process in alive:
                _kill(process)
            self._hear()
        finally:
            for process in alive:
                with suppress(ProcessLookupError, ChildProcessError):
                    os.kill(process, signal.SIGKILL)
                    os.waitpid(process, 0)
            os.close(self._reader)
            os.close(self._writer)

    def _fork(self, body: Callable[[random.Random], None]) -> int:
        chance = random.Random(self._chance.random())
        process = os.fork()
        if process == 0:
            signal.alarm(LONGEST_LIFE_S)
            try:
                body(chance)
                signal.pause()
            except Exception as error:
                os.write(2, f"a process failed: {error!r}\n".encode())
            finally:
                os._exit(1)
        return process

    def _submit(self, chance: random.Random) -> None:
        with Holdfast(make_settings(self._url, self._folder, "contents")) as holdfast:
            for _ in range(SUBMITS_PER_LIFE):
                identity, said = str(uuid4()), chance.randbytes(8).hex()
                holdfast.save(chance.choice(RUNS), {"said": said}, checkpoint_id=identity)
                os.write(self._writer, f"{identity} {said}\n".encode())
                time.sleep(chance.uniform(0.0, 0.03))

    def _drain(self, chance: random.Random) -> None:
        with Holdfast(make_settings(self._url, self._folder, chance.choice(MODES))) as holdfast:
            while True:
                with suppress(SpoolBusy):
                    holdfast.drain(timeout_s=5)
                time.sleep(0.005)

    def _hear(self) -> None:
        """Note who says that it was acknowledged."""
        with suppress(BlockingIOError):
            while chunk := os.read(self._reader, 65536):
                self._unread += chunk
        *lines, self._unread = self._unread.split(b"\n")
        self._survived.acknowledged |= {line[:36].decode(): line[37:].decode() for line in lines}


def _kill(process: int) -> None:
    with suppress(ProcessLookupError):
        os.kill(process, signal.SIGKILL)
    _, status = os.waitpid(process, 0)
    assert os.WIFSIGNALED(status), "a process ended before it was killed"
    assert os.WTERMSIG(status) == signal.SIGKILL, "a process hung"


@contextmanager
def serve_github(root: Path) -> Iterator[str]:
    """Serve a GitHub over git repositories in `root` from a process of its own; yield its address."""
    server = subprocess.Popen([sys.executable, "-c", _SERVER, str(root)], stdout=subprocess.PIPE, text=True)
    assert server.stdout is not None
    try:
        yield server.stdout.readline().strip()
    finally:
        server.terminate()
        server.wait(timeout=60)
        server.stdout.close()


def make_settings(url: str, folder: Path, mode: str) -> Settings:
    """Return settings for the emulator at `url`, without a budget that would slow it down."""
    return Settings.from_environment(
        {
            "HOLDFAST_REPO": "holdfast/checkpoints",
            "HOLDFAST_API_URL": url,
            "HOLDFAST_TOKEN": "token",
            "HOLDFAST_DATA_DIR": str(folder),
            "HOLDFAST_WRITE_INTERVAL_S": "0",
            "HOLDFAST_CONTENT_PER_MINUTE": "0",
            "HOLDFAST_CONTENT_PER_HOUR": "0",
            "HOLDFAST_LOW_BUDGET": ALWAYS_LOW if mode == "batches" else "",
            "HOLDFAST_WRITE_MODE": "commit" if mode == "commit" else "contents",
        }
    )
