"""Real processes that claim the same run: killed, or stopped past the end of their claims and let go on.

Each has a spool of its own and a real judge: the emulator by HTTP, or a PostgreSQL. What each believes is
written to one log, with the time before it looked, so that a process that freezes meanwhile is not blamed.
One more process does nothing but a little work over and over: when it comes to a halt, so do the others, and
that is the machine's doing.
"""

import json
import os
import random
import signal
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field, replace
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from threading import Event, Thread
from typing import Any

from holdfast.claims.holding import HeldClaim
from holdfast.errors import Claimed, Fenced, HoldfastError, UnknownRun
from holdfast.format.index import IndexEntry
from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings.kinds import Secret
from tests.soak.kills import make_settings, serve_github

CLAIMERS = 8
TENURES = 3
TTL_S = 5.0
LONGEST_GAP_S = TTL_S + 5.0
_LONGEST_ROUND_S = 180.0
_LOOK_EVERY_S = 0.1
_BEAT_S = 0.1


@dataclass
class KillTally:
    """What was survived."""

    rounds: int = 0
    tenures: int = 0
    kills: int = 0
    stops: int = 0
    saves: int = 0
    fenced: int = 0
    set_aside: int = 0
    longest_gap_s: float = 0.0
    longest_halt_s: float = 0.0
    """Of the machine itself, at any time."""
    most_lost_s: float = 0.0
    """By halts of the machine, in a gap that was too long."""


@dataclass
class Round:
    """One run that eight processes want. GitHub judges, unless there is a `database`."""

    run_id: str
    folder: Path
    github: str
    database: str
    seed: int
    tally: KillTally
    _children: dict[int, int] = field(default_factory=dict)
    _stopped: dict[int, float] = field(default_factory=dict)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.log = self.folder / f"{self.run_id}.log"
        self.log.touch()
        self._heart = 0

    def play(self) -> None:
        """Let them fight for the run until it had enough holders. Raises AssertionError."""
        self._heart = self._fork(self._beat)
        for number in range(CLAIMERS):
            self._start(number)
        ends_at = time.time() + _LONGEST_ROUND_S
        while self._tenures() < TENURES:
            assert time.time() < ends_at, f"{self.run_id}: {self._tenures()} holders in all that time"
            time.sleep(self.random.uniform(0.2, 1.5))
            self._strike()
        self._over.touch()
        for number in list(self._stopped):
            self._wake(number)
        for pid in (*self._children.values(), self._heart):
            os.waitpid(pid, 0)
        self._judge()

    @property
    def _over(self) -> Path:
        return self.folder / f"{self.run_id}.over"

    def open_machine(self, number: int) -> Holdfast:
        """Open Holdfast as a process of one machine does."""
        mode = ("contents", "commit", "batches")[number % 3]
        settings = make_settings(self.github, self.folder / str(number), mode)
        if self.database:
            settings = replace(settings, database_url=Secret(self.database))
        return Holdfast(settings)

    def _strike(self) -> None:
        for number, until in list(self._stopped.items()):
            if time.time() >= until:
                self._wake(number)
        awake = [number for number in self._children if number not in self._stopped]
        holder = next((line["by"] for line in reversed(self._read()) if line["what"] == "held"), None)
        number = holder if holder in awake and self.random.random() < 0.4 else self.random.choice(awake)
        chance = self.random.random()
        if chance < 0.3:
            os.kill(self._children[number], signal.SIGKILL)
            os.waitpid(self._children[number], 0)
            self.tally.kills += 1
            self._start(number)
        elif chance < 0.5 and len(awake) > 2:
            os.kill(self._children[number], signal.SIGSTOP)
            self._stopped[number] = time.time() + self.random.uniform(0.5, 2.5) * TTL_S
            self.tally.stops += 1

    def _wake(self, number: int) -> None:
        del self._stopped[number]
        os.kill(self._children[number], signal.SIGCONT)

    def _start(self, number: int) -> None:
        claimer = _Claimer(number, self, random.Random(self.random.random()))
        self._children[number] = self._fork(claimer.live)

    def _fork(self, work: Callable[[], None]) -> int:
        pid = os.fork()
        if pid:
            return pid
        code = 1
        try:
            work()
            code = 0
        finally:
            os._exit(code)

    def _beat(self) -> None:
        """Tell whenever a little work took long: `from` and `to` are when it should have, and has, ended."""
        while not self._over.exists():
            due = time.time() + _BEAT_S
            time.sleep(_BEAT_S / 2)
            works_until = time.thread_time() + _BEAT_S / 4
            while time.thread_time() < works_until:
                pass
            if (now := time.time()) > due:
                self.tell({"what": "halt", "from": due, "to": now})

    def tell(self, line: dict[str, Any]) -> None:
        """Add a line to the log that all write to."""
        file = os.open(self.log, os.O_WRONLY | os.O_APPEND)
        os.write(file, json.dumps(line).encode() + b"\n")
        os.close(file)

    def _read(self) -> list[dict[str, Any]]:
        return [json.loads(line) for line in self.log.read_text().splitlines()]

    def _tenures(self) -> int:
        return len({line["fence"] for line in self._read() if line["what"] == "held"})

    def _judge(self) -> None:
        lines = self._read()
        held: dict[int, list[float]] = {}
        owners: dict[int, set[int]] = {}
        for line in lines:
            if line["what"] == "held":
                held.setdefault(line["fence"], []).append(line["at"])
                owners.setdefault(line["fence"], set()).add(line["pid"])
        assert all(len(pids) == 1 for pids in owners.values()), f"a fence was given twice: {owners}"
        fences = sorted(held)
        for before, after in pairwise(fences):
            gap_s = min(held[after]) - max(held[before])
            assert gap_s > 0, f"{self.run_id}: fences {before} and {after} were held at a time, {gap_s} s"
            self._judge_gap(lines, max(held[before]), min(held[after]))
        self.tally.tenures += len(fences)
        self.tally.fenced += sum(line["what"] == "fenced" for line in lines)
        self._judge_saves([line for line in lines if line["what"] == "saved"])
        self.tally.rounds += 1

    def _judge_gap(self, lines: list[dict[str, Any]], start: float, end: float) -> None:
        halts = [line for line in lines if line["what"] == "halt"]
        lost_s = sum(max(0.0, min(halt["to"], end) - max(halt["from"], start)) for halt in halts)
        longest_s = max((halt["to"] - halt["from"] for halt in halts), default=0.0)
        self.tally.longest_halt_s = max(self.tally.longest_halt_s, longest_s)
        self.tally.longest_gap_s = max(self.tally.longest_gap_s, end - start)
        if end - start > LONGEST_GAP_S:
            self.tally.most_lost_s = max(self.tally.most_lost_s, lost_s)
        too_long = (
            f"{self.run_id}: nobody held it for {end - start:.1f} s, {lost_s:.1f} s by the machine itself"
        )
        assert end - start - lost_s <= LONGEST_GAP_S, too_long

    def _judge_saves(self, saved: list[dict[str, Any]]) -> None:
        """Drain every machine: what was accepted is stored or set aside; the newest has the highest fence."""
        self.tally.saves += len(saved)
        machines = [self.open_machine(number) for number in range(CLAIMERS)]
        try:
            for hf in machines:
                assert hf.drain().left == 0
            entries = _list(machines[0], self.run_id)
            if entries:
                newest, highest = machines[0].resume(self.run_id), max(entry.fence for entry in entries)
                assert newest.state["fence"] == highest, "an older fence is preferred"
            stored = {entry.checkpoint_id for entry in entries}
            for line in saved:
                receipt = machines[line["by"]].receipt(line["id"])
                assert receipt is not None, f"{line} is gone"
                is_refused = receipt.status is Progress.REFUSED
                assert is_refused or line["id"] in stored, f"{line}: {receipt}"
                self.tally.set_aside += is_refused
        finally:
            for hf in machines:
                hf.close()


@dataclass
class _Claimer:
    """The work of one process."""

    number: int
    round: Round
    random: random.Random

    def live(self) -> None:
        with self.round.open_machine(self.number) as hf:
            while not self.round._over.exists():
                try:
                    self._want(hf)
                except Claimed as error:
                    time.sleep(max(0.05, min(error.left_s, self.random.uniform(0.5, 1.5))))
                except HoldfastError:
                    time.sleep(0.5)

    def _want(self, hf: Holdfast) -> None:
        claim = hf.claim(self.round.run_id, owner=f"claimer {self.number}", ttl_s=TTL_S)
        with claim as held, self._looking(held):
            for _ in range(self.random.randint(2, 8)):
                try:
                    receipt = hf.save(self.round.run_id, {"fence": held.fence, "by": self.number})
                except Fenced:
                    self._tell("fenced", held)
                    return
                self._tell("saved", held, id=receipt.checkpoint_id)
                time.sleep(self.random.uniform(0.1, 0.8))
            if self.random.random() < 0.7:
                with suppress(HoldfastError):
                    hf.drain()

    @contextmanager
    def _looking(self, held: HeldClaim) -> Iterator[None]:
        """Look all the time whether the run is held, also while a save or a drain takes long."""
        is_over = Event()

        def look() -> None:
            while True:
                at = time.time()
                if held.is_held:
                    self._tell("held", held, at=at)
                if is_over.wait(_LOOK_EVERY_S):
                    return

        thread = Thread(target=look, daemon=True)
        thread.start()
        try:
            yield
        finally:
            is_over.set()
            thread.join()

    def _tell(self, what: str, held: HeldClaim, **more: Any) -> None:
        self.round.tell({"what": what, "by": self.number, "pid": os.getpid(), "fence": held.fence, **more})


def _list(hf: Holdfast, run_id: str) -> Sequence[IndexEntry]:
    try:
        return hf.checkpoints(run_id).entries
    except UnknownRun:  # all that was saved came too late
        return ()


def kill_claimers(
    rounds: int, seed: int, show: Callable[[str], None] = lambda _: None, *, database: str = ""
) -> KillTally:
    """Play so many rounds with real processes. Raises AssertionError."""
    tally = KillTally()
    with TemporaryDirectory() as name, serve_github(Path(name) / "github") as github:
        for number in range(rounds):
            Round(f"kills-{seed}-{number}", Path(name), github, database, seed + number, tally).play()
            show(f"{number + 1} of {rounds} rounds of claimers with kills")
    return tally
