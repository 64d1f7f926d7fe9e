"""Programs that fork while they save, some of them killed: nothing acknowledged is lost or doubled."""

import fcntl
import os
import random
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path

from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from tests.fakes.repository import check_files, files_of_run, read_branch
from tests.soak.forking_program import KINDS, LONGEST_LIFE_S
from tests.soak.kills import make_settings, serve_github

ROOT = Path(__file__).parents[2]
SHARE_KILLED = 0.6


@dataclass
class Forked:
    """How many programs were played, how many processes were killed, and what was acknowledged."""

    plays: int = 0
    kills: int = 0
    acknowledged: dict[str, str] = field(default_factory=dict)


def fork_often(folder: Path, plays: int, seed: int, on_play: Callable[[], None] = lambda: None) -> Forked:
    """Play programs of every kind in turn, and judge each. Raises AssertionError."""
    total = Forked()
    with serve_github(folder / "github") as url:
        for number in range(plays):
            kind, own_seed = KINDS[number % len(KINDS)], seed + number
            own = folder / f"play-{number}"
            own.mkdir()
            try:
                played = _play(kind, own, url, own_seed)
                _judge(own, url, folder / "github" / "holdfast" / "checkpoints.git", played)
            except AssertionError as error:
                raise AssertionError(f"{kind}, seed {own_seed}: {error}") from error
            total.plays += 1
            total.kills += played.kills
            total.acknowledged |= played.acknowledged
            on_play()
    return total


def _play(kind: str, folder: Path, url: str, seed: int) -> Forked:
    """Run one program, kill some of its processes, and return what it said once all of them have ended."""
    chance = random.Random(seed)
    command = [sys.executable, "-m", "tests.soak.forking_program", kind, str(folder), url, str(seed)]
    played = Forked(plays=1)
    with subprocess.Popen(
        command, cwd=ROOT, stderr=subprocess.PIPE, stdout=subprocess.DEVNULL, start_new_session=True
    ) as program:
        if chance.random() < SHARE_KILLED:
            _wait_until_at_work(folder, program)
            time.sleep(chance.uniform(0.0, 1.0))
            played.kills = _kill_some(folder, kind, program, chance)
        assert program.stderr is not None
        _, problems = program.communicate(timeout=LONGEST_LIFE_S + 30)
        _wait_for_all(folder)
    ended = f"ended with {program.returncode}: {problems.decode()[-4000:]}"
    # Whoever hangs is ended by its alarm, and says where it was: the program, or what others of it have left.
    assert program.returncode != -signal.SIGALRM, ended
    assert b"(most recent call first)" not in problems, ended
    assert played.kills or program.returncode == 0, ended
    assert b"a process failed" not in problems, problems.decode()[-2000:]
    with suppress(FileNotFoundError):
        lines = (folder / "acknowledged").read_text().splitlines()
        played.acknowledged = {line[:36]: line[37:] for line in lines}
    return played


def _wait_until_at_work(folder: Path, program: "subprocess.Popen[bytes]") -> None:
    """Wait until the program has saved something: how long it takes to start depends on the machine."""
    while program.poll() is None and not (folder / "acknowledged").exists():
        time.sleep(0.01)


def _kill_some(folder: Path, kind: str, program: "subprocess.Popen[bytes]", chance: random.Random) -> int:
    """Kill the program, one of its processes, or all of them; return how many that were."""
    with suppress(FileNotFoundError):
        processes = [int(line) for line in (folder / "processes").read_text().split()]
        # Nobody could wait for a process that is spawned just then, so that its parent does not go alone.
        victims = processes if chance.random() < 0.3 or kind == "spawn" else [chance.choice(processes)]
        for victim in victims:
            with suppress(ProcessLookupError):
                os.kill(victim, signal.SIGKILL)
        if kind == "spawn":
            os.killpg(program.pid, signal.SIGKILL)
        return len(victims)
    return 0


def _wait_for_all(folder: Path) -> None:
    """Wait until the last process has let go of the lock that each of them holds."""
    alive = os.open(folder / "alive", os.O_CREAT | os.O_RDWR)
    fcntl.flock(alive, fcntl.LOCK_EX)
    os.close(alive)


def _judge(folder: Path, url: str, repository: Path, played: Forked) -> None:
    """Assert that everything acknowledged is here or stored, once, and nothing was ever damaged."""
    with Holdfast(make_settings(url, folder / "machine", "commit")) as holdfast:
        spool = holdfast.status()["spool"]
        assert (spool["lost"], spool["salvaged"], spool["set_aside"]) == (0, 0, 0), spool
        result = holdfast.drain(timeout_s=120)
        assert result.left == 0, result.reason
        receipts = {identity: holdfast.receipt(identity) for identity in played.acknowledged}
    unknown = [identity for identity, receipt in receipts.items() if receipt is None]
    assert not unknown, f"{len(unknown)} of {len(receipts)} acknowledged are unknown: {unknown[:3]}"
    assert {each.status for each in receipts.values() if each} <= {Progress.VERIFIED}
    run_ids = (f"{folder.name}-run-a", f"{folder.name}-run-b")
    folders = [f"checkpoints/{run_id}" for run_id in run_ids]
    files = read_branch(repository, "checkpoints", *folders) if receipts else {}
    found: dict[str, str] = {}
    for run_id in run_ids:
        parsed = files_of_run(files, run_id)
        if parsed:
            check_files(files, run_id)
            del parsed["index.json"]
            stored = [each for file in parsed.values() for each in file.get("checkpoints", [file])]
            found |= {each["checkpoint_id"]: each["state_snapshot"]["said"] for each in stored}
    lost = played.acknowledged.items() - found.items()
    assert not lost, f"{len(lost)} of {len(receipts)} acknowledged are lost: {sorted(lost)[:3]}"
