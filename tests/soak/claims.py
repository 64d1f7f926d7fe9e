"""Rounds of claimers that want the same run, on a simulated clock, over a GitHub that loses and delays.

Each claimer is a machine with a clock of its own, hours off, and set now and then; the judge's servers differ
by up to a second. Every request takes a while, and others act meanwhile; claimers vanish, or freeze past the
end of their claims, also amid a save or a drain, and come back. The code is the real one, but for the
repository, the clock and who begins the renewals. Where PostgreSQL judges, it is a real one that is told the
simulated time.
"""

import heapq
import logging
import random
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, closing, contextmanager, suppress
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import structlog

from holdfast.claims.database_judge import DatabaseJudge
from holdfast.claims.decide import GRACE_S
from holdfast.claims.desk import ClaimDesk
from holdfast.claims.holding import HeldClaim
from holdfast.clock import SystemClock
from holdfast.errors import (
    Claimed,
    Conflict,
    DatabaseAway,
    Fenced,
    GatewayError,
    HoldfastError,
    Unavailable,
)
from holdfast.format.claim import Claim, parse_claim
from holdfast.format.receipt import Progress
from holdfast.format.stored_file import open_checkpoint
from holdfast.github.calls import Answer, Call, Gateway, ResultT
from holdfast.github.write_calls import CommitFiles, WriteFile
from holdfast.library import Holdfast
from holdfast.queue.postgres.claim_table import ClaimTable
from holdfast.queue.postgres.database import Database
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limiter import RateLimiter
from tests.fakes.assembly import BRANCH, NO_LIMITS, make_assembly
from tests.fakes.memory_gateway import MemoryGateway

CLAIMERS = 8
TENURES = 8
TTL_S = 30.0
LONGEST_GAP_S = 5.0
_START = 1_800_000_000.0
_SERVERS_APART_S = 1.0
_LONGEST_SKEW_S = 7200.0
_WORTH_A_TURN_S = 0.5
_OTHERS_FIRST_S = 2.0
_SHARED_MEMORY = Path("/dev/shm")


class TwoHolders(AssertionError):
    """Two claimers believe that they drive the same run."""


class _Vanished(BaseException):
    """The process was killed, wherever it was."""


@dataclass
class ClaimTally:
    """What was survived."""

    rounds: int = 0
    tenures: int = 0
    kills: int = 0
    freezes: int = 0
    faults: int = 0
    saves: int = 0
    fenced: int = 0
    set_aside: int = 0
    drains: int = 0
    longest_gap_s: float = 0.0

    def __iadd__(self, more: "ClaimTally") -> "ClaimTally":
        longest_s = max(self.longest_gap_s, more.longest_gap_s)
        for name in vars(self):
            setattr(self, name, getattr(self, name) + getattr(more, name))
        self.longest_gap_s = longest_s
        return self


class Turns:
    """Lets one thread work at a time, in the order of a simulated clock."""

    def __init__(self) -> None:
        self.now = _START
        self._queue: list[tuple[float, int, threading.Lock]] = []
        self._number = 0
        self._done = _taken_lock()
        self.late: list[tuple[float, int, Callable[[], None]]] = []

    def wait(self, seconds: float) -> None:
        """Let the others work until so much time has gone by."""
        turn = _taken_lock()
        self._number += 1
        heapq.heappush(self._queue, (self.now + seconds, self._number, turn))
        self._done.release()
        turn.acquire()

    def later(self, seconds: float, act: Callable[[], None]) -> None:
        """Have something happen by itself."""
        self._number += 1
        heapq.heappush(self.late, (self.now + seconds, self._number, act))

    def play(self, threads: list[threading.Thread], check: Callable[[], None]) -> None:
        """Let all threads work to their ends; `check` looks at the world after each turn."""
        for thread in threads:
            thread.start()
            self._done.acquire()
        while self._queue:
            moment, _, turn = heapq.heappop(self._queue)
            while self.late and self.late[0][0] <= moment:
                at, _, act = heapq.heappop(self.late)
                self.now = max(self.now, at)
                act()
                check()
            self.now = max(self.now, moment)
            check()
            turn.release()
            self._done.acquire()
            check()

    def end(self) -> None:
        """Say that a thread has come to its end."""
        self._done.release()


def _taken_lock() -> threading.Lock:
    lock = threading.Lock()
    lock.acquire()
    return lock


class LocalClock(SystemClock):
    """The clock of one machine: as quick as the true one, and wrong; it may be set."""

    def __init__(self, turns: Turns, skew_s: float) -> None:
        super().__init__()
        self.turns = turns
        self.skew_s = skew_s
        self.owed_s = 0.0

    def now(self) -> float:
        return self.turns.now + self.skew_s

    def monotonic(self) -> float:
        return self.turns.now - _START

    def sleep(self, seconds: float) -> None:
        if threading.current_thread() is threading.main_thread():
            self.turns.now += seconds
            return
        # A pause comes in many small steps, and each turn takes a while in earnest.
        self.owed_s += seconds
        if self.owed_s >= _WORTH_A_TURN_S:
            self.pass_on()

    def pass_on(self) -> None:
        """Let the time go by that was slept."""
        owed_s, self.owed_s = self.owed_s, 0.0
        self.turns.wait(owed_s)


class RememberedBudget(RateLimiter):
    """The budget of a machine with one process at a time: a file for it took half of the time of a round."""

    @property
    def budget(self) -> Budget:
        return self._change(lambda budget, now: (budget.at(now),) * 2)

    def _change(
        self, change: Callable[[Budget, float], tuple[Budget, ResultT]], *, is_synced: bool = False
    ) -> ResultT:
        self._budget, result = change(self._budget, self._clock.now())
        return result

    def close(self) -> None:
        """Nothing is left to store."""


@dataclass
class FaultyWay:
    """One machine's way to the repository: answers have dates, take a while, and may be lost."""

    repository: MemoryGateway
    turns: Turns
    clock: LocalClock
    random: random.Random
    tally: ClaimTally
    may_vanish: Callable[[], None]
    watch: Callable[[Call[Any]], None] = lambda _: None
    observe: Callable[[Answer], None] = lambda _: None
    fault_rate: list[float] = field(default_factory=lambda: [0.2])

    def observed_by(self, observe: Callable[[Answer], None]) -> Gateway:
        return FaultyWay(
            self.repository,
            self.turns,
            self.clock,
            self.random,
            self.tally,
            self.may_vanish,
            self.watch,
            observe,
            self.fault_rate,
        )

    def perform(self, call: Call[ResultT]) -> ResultT:
        if threading.current_thread() is threading.main_thread():
            self.watch(call)
            return self.repository.perform(call)  # after a round
        self.let_pass(0.02, 0.3)
        self.watch(call)
        fault = self._choose(call)
        if fault:
            self.tally.faults += 1
        if fault == "refused":
            raise Unavailable(call.subject, "502")
        if fault == "moved":
            raise Conflict(call.subject, "the branch has moved", "head_moved")
        if fault == "late":
            self.turns.later(self.random.uniform(0, 2 * TTL_S), lambda: self._try(call))
            self.let_pass(0.5, 2.0)
            raise Unavailable(call.subject, "no answer")
        date = formatdate(self.judge_now(), usegmt=True)
        result, error = None, None
        try:
            result = self.repository.perform(call)
        except GatewayError as refusal:
            error = refusal
        self.let_pass(0.02, 0.3)
        if fault == "frozen":
            self.tally.freezes += 1
            self.let_pass(TTL_S, 2 * TTL_S)
        if fault == "lost":
            raise Unavailable(call.subject, "the answer was lost")
        self.observe(Answer(call, 200, {"date": date}, self.clock.now()))
        if error:
            raise error
        return result  # type: ignore[return-value]

    def judge_now(self) -> float:
        """Return the time as one of the judge's servers has it."""
        return self.turns.now + self.random.uniform(-0.5, 0.5) * _SERVERS_APART_S

    def _choose(self, call: Call[Any]) -> str:
        if self.random.random() > self.fault_rate[0]:
            return ""
        faults = ["refused", "refused", "frozen"]
        if isinstance(call, WriteFile):
            faults += ["lost", "lost", "late", "late", "moved"]
        fault = self.random.choice(faults)
        return "" if fault == "frozen" and self.random.random() > 0.15 else fault

    def _try(self, call: Call[Any]) -> None:
        with suppress(GatewayError):  # whoever sent it has stopped waiting
            self.repository.perform(call)

    def let_pass(self, least_s: float, most_s: float) -> None:
        self.clock.owed_s += self.random.uniform(least_s, most_s)
        self.clock.pass_on()
        self.may_vanish()


@dataclass
class FaultyTable(ClaimTable):
    """One machine's way to the shared database: slow, cut off, and sometimes not known to have stored it."""

    inner: ClaimTable
    way: FaultyWay
    tell: Callable[[Any], None]

    def read(self, run_id: str) -> tuple[bytes, float]:
        self._fail("refused")
        record, _ = self.inner.read(run_id)
        return record, self.way.judge_now()

    def change(
        self, run_id: str, decide: Callable[[bytes, float], tuple[bytes, ResultT]]
    ) -> tuple[ResultT, float]:
        self._fail("refused")
        now = self.way.judge_now()
        result, _ = self.inner.change(run_id, lambda record, _: decide(record, now))
        self.tell(result)
        self._fail("lost")
        return result, now

    def _fail(self, fault: str) -> None:
        if threading.current_thread() is threading.main_thread():
            return  # after a round: nobody else would let it go on
        self.way.let_pass(0.01, 0.2)
        chance = self.way.random.random() if self.way.fault_rate[0] else 0.5
        if chance < 0.02:
            self.way.tally.freezes += 1
            self.way.let_pass(TTL_S, 2 * TTL_S)
        if chance > 0.92:
            self.way.tally.faults += 1
            raise DatabaseAway("PostgreSQL", fault)


@dataclass
class Claimer:
    """One machine, on which a process wants the run again and again."""

    number: int
    folder: Path
    stage: "Stage"
    held: HeldClaim | None = None
    accepted: list[str] = field(default_factory=list)
    least_fence: int = 0
    hf: Holdfast = field(init=False)

    def __post_init__(self) -> None:
        stage = self.stage
        self.random = random.Random(f"{stage.seed}/{self.number}")
        self.clock = LocalClock(stage.turns, self._skew())
        self.way = FaultyWay(
            stage.repository,
            stage.turns,
            self.clock,
            self.random,
            stage.tally,
            self._may_vanish,
            self._watch,
            fault_rate=[0.0 if self.is_well else 0.2],
        )
        self.mode = self.random.choice(("contents", "commit"))
        self.rate_limiter = RememberedBudget(NO_LIMITS, self.clock)
        self.start()

    def start(self) -> None:
        """Begin as a new process."""
        assembly = make_assembly(self.folder, self.way, self.clock, write_mode=self.mode)
        assembly.rate_limiter = self.rate_limiter
        if self.stage.table:
            judge = DatabaseJudge(
                FaultyTable(self.stage.table, self.way, self.stage.see), self.clock, lambda _: 0
            )
            assembly.claims = ClaimDesk(judge, assembly.known_claims)
        self.hf = Holdfast(assembly.settings, assembly=assembly)
        put = self.hf._put_admitted

        def put_later(*drafts: Any, **how: Any) -> Any:
            if self.random.random() < 0.03:  # frozen after it has looked whether it may save
                self._freeze()
            return put(*drafts, **how)

        self.hf._put_admitted = put_later  # type: ignore[method-assign]

    def close(self) -> None:
        """End the process that it is by now."""
        self.hf.close()

    @property
    def is_well(self) -> bool:
        """Whether nothing ever happens to this machine, which asks for the run only if nobody else takes it.

        No judge can help machines whose own requests are lost: without it the others' bad luck would count.
        """
        return self.number == 0

    def _skew(self) -> float:
        return self.random.uniform(-_LONGEST_SKEW_S, _LONGEST_SKEW_S)

    def _freeze(self) -> None:
        if self.is_well:
            return
        self.stage.tally.freezes += 1
        self.stage.turns.wait(self.random.uniform(TTL_S, 3 * TTL_S))

    def live(self) -> None:
        """Want the run until the round is over; after a kill, begin as a new process."""
        try:
            self.stage.turns.wait(self.random.uniform(0, 1))
            while not self.stage.is_over():
                try:
                    self._want()
                except _Vanished:
                    self._drop()
                    self.hf.close()
                    self.start()
                    self.stage.tally.kills += 1
                    self.stage.turns.wait(self.random.uniform(0.5, 3))
            self._let_go()
        except Exception as error:  # nobody else would learn of what is raised in a thread
            self.stage.failures.append(error)
        finally:
            self.stage.turns.end()

    def _want(self) -> None:
        if self.is_well and self.stage.free_for_s() < _OTHERS_FIRST_S:
            self.stage.turns.wait(0.5)
            return
        try:
            taken = self.hf.take_claim(self.stage.run_id, owner=self.name, ttl_s=TTL_S)
        except Claimed as error:
            wait_s = self.random.uniform(1.0, 4.0)
            if error.left_s < wait_s and self.random.random() < 0.5:
                wait_s = error.left_s  # there at the very moment
            self.stage.turns.wait(max(0.0, wait_s))
            return
        except HoldfastError:
            self.stage.turns.wait(0.3)
            return
        desk = self.hf._assembly.home(self.stage.run_id).claims
        self.held = self.hf._held[self.stage.run_id] = HeldClaim(desk, taken)
        self.stage.begin(self.held)
        self._drive(self.held)

    def _drive(self, held: HeldClaim) -> None:
        for _ in range(self.random.randint(1, 6)):
            self._save(held)
            self.stage.turns.wait(self.random.uniform(0.1, TTL_S / 3))
            self._may_vanish()
            if self.random.random() < 0.06:  # frozen, and back when the claim has long run out
                self._freeze()
                self._save(held)
            if self.random.random() < 0.05:
                self.clock.skew_s = self._skew()
                if not self.is_well:
                    self.way.fault_rate[0] = self.random.choice((0.05, 0.2, 0.2, 0.7))
            if self.random.random() < 0.2:
                self._drain()
            try:
                held.renew()
            except Fenced:
                self._save(held)
                break
            except HoldfastError:
                pass
        self._let_go()

    def _drain(self) -> None:
        self.stage.tally.drains += 1
        self.least_fence = self.stage.fence_of_others(self.name)
        self.hf.drain()

    def _watch(self, call: Call[Any]) -> None:
        """See what is about to be written: nothing of a run that another machine took before the drain.

        But for what had been written by then: its file may get another number when the write is finished.
        """
        files = call.additions if isinstance(call, CommitFiles) else {}
        if isinstance(call, WriteFile):
            files = {call.path: call.content}
        for path, content in files.items():
            if f"{self.stage.run_id}/cp_" in path:
                envelope = open_checkpoint(content, path)
                fence = envelope.header.fence or 0
                is_late = fence < self.least_fence and not self.stage.holds(envelope.checkpoint_id)
                assert not is_late, f"fence {fence} is written after {self.least_fence}"

    @property
    def name(self) -> str:
        return f"claimer {self.number}"

    def _save(self, held: HeldClaim) -> None:
        was_held = held.is_held
        state = {"fence": held.fence, "by": self.number}
        try:
            receipt = self.hf.save(self.stage.run_id, state)
        except Fenced:
            assert not was_held
            self.stage.tally.fenced += 1
        else:
            assert was_held
            self.stage.tally.saves += 1
            self.accepted.append(receipt.checkpoint_id)

    def _let_go(self) -> None:
        if self.held:
            self.held.release()
        self._drop()

    def _drop(self) -> None:
        self.held = None
        self.hf._held.clear()

    def _may_vanish(self) -> None:
        is_playing = threading.current_thread() is not threading.main_thread()
        if self.random.random() < 0.005 and is_playing and not self.is_well:
            raise _Vanished


class Stage:
    """The world of one soak: a repository, a clock, and the claimers."""

    def __init__(self, seed: int, folder: Path, table: ClaimTable | None = None) -> None:
        self.seed = seed
        self.table = table
        self.run_id = ""
        self.turns = Turns()
        self.tally = ClaimTally()
        self.repository = MemoryGateway()
        self.repository.write_as_someone_else(BRANCH, {"README.md": b""})
        self.claimers = [Claimer(number, folder / str(number), self) for number in range(CLAIMERS)]
        self.failures: list[Exception] = []
        self._fences: list[int] = []
        self._free_since: float | None = None
        self._seen = ""
        self._claim: Claim | None = None
        self._latest_fence = 0

    def play(self, number: int) -> None:
        """Play one round. Raises AssertionError."""
        self.run_id = f"round-{number}"
        self._fences = []
        self._free_since = self.turns.now
        self._seen, self._claim, self._latest_fence = "", None, 0
        for claimer in self.claimers:
            claimer.least_fence = 0
        self.turns.late.clear()
        threads = [threading.Thread(target=claimer.live, daemon=True) for claimer in self.claimers]

        def check() -> None:
            try:
                self._check()
            except AssertionError as error:
                self.failures.append(error)

        self.turns.play(threads, check)
        if self.failures:
            raise self.failures[0]
        self.tally.rounds += 1

    def begin(self, held: HeldClaim) -> None:
        """See a new holder: its fence was never given before."""
        assert held.fence not in self._fences, "a fence was given twice"
        self._fences.append(held.fence)
        self.tally.tenures += 1

    def is_over(self) -> bool:
        return len(self._fences) >= TENURES or bool(self.failures)

    def holds(self, checkpoint_id: str) -> bool:
        """Whether the repository has a file with this checkpoint of the run."""
        files = self.repository.files(BRANCH)
        return any(
            open_checkpoint(content, path).checkpoint_id == checkpoint_id
            for path, content in files.items()
            if f"{self.run_id}/cp_" in path
        )

    def free_for_s(self) -> float:
        """Return for how long anybody could have taken the run by now."""
        return 0.0 if self._free_since is None else self.turns.now - self._free_since

    def fence_of_others(self, name: str) -> int:
        """Return the fence of the newest claim, unless the machine with this name has it."""
        return self._claim.fence if self._claim and self._claim.owner != name else 0

    def store(self) -> None:
        """Drain every machine, and look at what became of what was accepted."""
        for claimer in self.claimers:
            self.turns.now += 3600.0  # whatever was to wait has waited
            claimer.least_fence = self.fence_of_others(claimer.name)
            claimer.hf.drain()
        newest = self.claimers[0].hf.resume(self.run_id)
        entries = self.claimers[0].hf.checkpoints(self.run_id).entries
        highest = max(entry.fence for entry in entries)
        assert newest.state["fence"] == highest, "an older fence is preferred"
        stored = {entry.checkpoint_id for entry in entries}
        for claimer in self.claimers:
            for checkpoint_id in claimer.accepted:
                receipt = claimer.hf.receipt(checkpoint_id)
                assert receipt is not None, "an accepted checkpoint is gone"
                is_refused = receipt.status is Progress.REFUSED
                assert is_refused or checkpoint_id in stored
                self.tally.set_aside += is_refused

    def forget(self) -> None:
        """Begin the next round with empty spools."""
        for claimer in self.claimers:
            spool = claimer.hf._assembly.spool
            spool.discard(claimer.accepted)
            claimer.accepted.clear()

    def _check(self) -> None:
        holders = [(by.number, by.held.fence) for by in self.claimers if by.held and by.held.is_held]
        if len(holders) > 1:
            raise TwoHolders(f"{self.run_id}: these claimers have these fences: {holders}")
        claim = self._stored()
        is_free = claim is None or claim.is_released or self.turns.now > claim.expires_at + GRACE_S
        if not is_free or self.is_over():
            self._free_since = None
        elif self._free_since is None:
            self._free_since = self.turns.now
        else:
            gap_s = self.turns.now - self._free_since
            self.tally.longest_gap_s = max(self.tally.longest_gap_s, gap_s)
            assert gap_s <= LONGEST_GAP_S, f"{self.run_id}: nobody has held it for {gap_s:.1f} s"

    def _stored(self) -> Claim | None:
        """Return the newest claim as its judge has it; the newest checkpoint must not be of an older one."""
        head = self.repository.branches[BRANCH]
        if head != self._seen:  # looking at every file takes longer than all else
            self._seen = head
            files = self.repository.files(BRANCH)
            folder = f"checkpoints/{self.run_id}/"
            if latest := files.get(folder + "latest.json"):
                fence = open_checkpoint(latest, "latest.json").header.fence or 0
                assert fence >= self._latest_fence, "an older fence came back"
                self._latest_fence = fence
            if content := files.get(folder + "claim.json"):
                self._claim = parse_claim(content, "claim.json", self.run_id)
        return self._claim

    def see(self, claim: Claim) -> None:
        """See what the database has stored."""
        self._claim = claim


@contextmanager
def open_stage(seed: int, table: ClaimTable | None = None) -> Iterator[Stage]:
    """Set the stage, in memory if the machine has some to spare."""
    place = _SHARED_MEMORY if _SHARED_MEMORY.is_dir() else None
    with TemporaryDirectory(prefix="holdfast-claims-", dir=place) as folder, ExitStack() as stack:
        stage = Stage(seed, Path(folder), table)
        for claimer in stage.claimers:
            stack.callback(claimer.close)
        yield stage


@contextmanager
def _open_table(url: str, seed: int) -> Iterator[ClaimTable | None]:
    if not url:
        yield None
        return
    with closing(Database(url)) as database:
        yield ClaimTable(database, f"soak-{seed}")


def play_claims(rounds: int, seed: int, database: str = "") -> ClaimTally:
    """Play so many rounds, with GitHub as the judge, or a `database`.

    Raises AssertionError if two hold a run at a time, or nobody does for too long.
    """
    with _open_table(database, seed) as table, open_stage(seed, table) as stage:
        for number in range(rounds):
            stage.play(number)
            if number % 5 == 0:
                stage.store()
            stage.forget()
        return stage.tally


def try_claims(seed: int, rounds: int, database: str = "") -> tuple[ClaimTally, str]:
    """Play a share of many rounds; return what was survived, and how it failed."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    try:
        return play_claims(rounds, seed, database), ""
    except Exception as error:
        return ClaimTally(), f"{type(error).__name__}: {error}"
