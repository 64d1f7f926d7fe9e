"""The worker: one pass from the queue, through a writer, to the repository, and the loop around it."""

import random
from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass, field, replace
from math import inf

from holdfast.clock import Deadline
from holdfast.drain.chunks import DrainPolicy, Step, critical_ids, due_items
from holdfast.drain.commits import CommitWriter
from holdfast.drain.contents import ContentsWriter
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import Outage, RateBlock, outage_after, parse_outage
from holdfast.drain.pending import pending_writes, plan_unfinished
from holdfast.drain.plan import DrainPlan, first_look, plan_drain
from holdfast.drain.settling import RELEASE_PAUSE_S, StepWriter
from holdfast.errors import GatewayError, Stopped, Throttled, Unavailable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Progress, QueueItem
from holdfast.github.wrappers.right_of_way import RightOfWay
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.queue.rows import tell_newer
from holdfast.ratelimit.limiter import RateLimiter

LONGEST_SLEEP_S = 300.0
# While a person must act we look this often whether there is a new token.
LONGEST_SLEEP_IN_OUTAGE_S = 5.0
# Receipts of verified checkpoints answer questions and repetitions for a while, not for ever.
KEEP_RECEIPTS = 10_000
KEEP_RECEIPTS_S = 7 * 24 * 3600.0
PURGE_EVERY_S = 3600.0


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What a drain did: how many checkpoints it verified, how many are left, why, and until when."""

    verified: int
    left: int
    reason: str = ""
    retry_in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class DrainState:
    """What one pass leaves to the next: what the drain has done so far, and what is known of GitHub."""

    verified: int = 0
    written_runs: frozenset[str] = frozenset()
    has_ended_run: bool = False
    block: RateBlock | None = None
    has_looked: bool = False
    """A server may never tell how many calls are left, so that one look must do."""
    ignores_outage: bool = False

    def at_start(self, *, is_paced: bool) -> "DrainState":
        """Return what a new drain begins with.

        Who asks for one by hand may have mended what was wrong: then everything is tried again at once.
        """
        block = self.block if is_paced else None
        return DrainState(block=block, has_looked=self.has_looked, ignores_outage=not is_paced)


@dataclass(frozen=True, slots=True)
class PassResult:
    """How a pass ended: `wait_s` seconds until the next one is of use and why, None if nothing is left."""

    state: DrainState
    wait_s: float | None
    reason: str = ""


@dataclass
class Worker:
    """Moves checkpoints from the spool into the repository. One at a time drains a spool."""

    spool: Queue
    contents: ContentsWriter
    commits: CommitWriter
    rate_limiter: RateLimiter
    policy: DrainPolicy
    layout: Layout
    deadline: Deadline
    """Ends a drain. The writers' way to GitHub shares it: they repeat nothing after it."""
    credentials: Callable[[], str]
    """A fingerprint of the token in use: a new one is reason to try again at once."""
    probe: Callable[[], object] = lambda: None
    """Asks GitHub one small question, once; raises what still stands in the way."""
    jitter: Callable[[], float] = random.random
    after_drain: Callable[[Collection[str]], None] = lambda _: None
    """Is told at the end of a drain which runs it has written to."""
    clean_up: Callable[[], None] = lambda: None
    """Is called instead at the end of a drain that has stored the end of a run, whoever saved that."""
    on_run_ended: Callable[[], None] = lambda: None
    """Is told of such an end as soon as it is verified, for who cannot wait for the drain's."""
    on_settled: Callable[[Sequence[QueueItem], Progress], None] = lambda _items, _progress: None
    """Is told which checkpoints were verified or refused, as soon as that is so."""
    sort_out: Callable[[Sequence[QueueItem]], tuple[Sequence[QueueItem], str]] = lambda pending: (pending, "")
    """Returns what is to be written here of all that is pending, and why the rest is not yet."""
    way: RightOfWay = field(default_factory=RightOfWay)
    """Lets a sweep of this process come between two steps."""
    _state: DrainState = DrainState()
    _purged_at: float = -inf
    _listeners: list[Callable[[int, int], None]] = field(default_factory=list)

    def on_progress(self, listener: Callable[[int, int], None]) -> None:
        """Have `listener` told how many are verified and how many are left, after each step."""
        self._listeners.append(listener)

    def drain(
        self,
        *,
        timeout_s: float = 0.0,
        is_paced: bool = False,
        is_done: Callable[[], bool] = lambda: False,
        wait: Callable[[float], None] | None = None,
        tidies: bool = True,
    ) -> DrainResult:
        """Write what is spooled. Waits for limits, outages and persons for `timeout_s` in all, no longer.

        Unless that is 0, no answer is waited for longer either, but for a short grace; after that a call
        without an answer is not repeated, and nothing is pruned. Less than 0 is a time that is over.
        If `is_paced`, a busy hour's checkpoints are collected for a while, for a worker that never ends.
        `is_done` ends it earlier; `wait` waits between two passes; unless it `tidies`, nothing is pruned or
        cleaned up. Raises SpoolBusy when another process is draining this spool.
        """
        waits_until = self._now() + timeout_s
        ends_at = waits_until if timeout_s else inf
        with self.spool.drainer(), self.deadline.until(ends_at):
            self.rate_limiter.begin_run()
            self._purge_receipts()
            start = self._state.at_start(is_paced=is_paced)
            result = self._loop(
                start, waits_until, is_paced=is_paced, is_done=is_done, wait=wait or self.deadline.wait
            )
            self._state = result.state
        with self.deadline.until(ends_at):
            if tidies and not self.deadline.expired():
                self._tidy(result.state)
        left = self.spool.status(self._now()).depth
        newer = self.spool.newer_runs()
        reason = result.reason or (tell_newer(newer) if newer else "")
        return DrainResult(result.state.verified, left, reason, result.wait_s or 0.0)

    def _tidy(self, state: DrainState) -> None:
        if state.has_ended_run:
            self.clean_up()
        elif state.written_runs:
            self.after_drain(state.written_runs)

    def _loop(
        self,
        state: DrainState,
        waits_until: float,
        *,
        is_paced: bool,
        is_done: Callable[[], bool],
        wait: Callable[[float], None],
    ) -> PassResult:
        """Pass after pass, until nothing is left, waiting is of no use, or we are to end."""

        def is_over() -> bool:
            return self.deadline.is_stopping() or is_done()

        result = PassResult(state, wait_s=None)
        while not is_over():
            result = self.once(result.state, is_paced=is_paced, is_over=is_over)
            if result.wait_s is None or (result.wait_s > 0 and self._now() + result.wait_s > waits_until):
                break
            if result.wait_s > 0:
                longest_s = LONGEST_SLEEP_IN_OUTAGE_S if self._outage() else LONGEST_SLEEP_S
                wait(min(result.wait_s, longest_s))
        return result

    def once(
        self, state: DrainState, *, is_paced: bool = False, is_over: Callable[[], bool] = lambda: False
    ) -> PassResult:
        """Look at what is spooled, plan once and carry that out, unless something stands in the way.

        After `is_over` no further step is begun.
        """

        def tell(verified: int) -> None:
            self._set_outage(None)
            left = self.spool.status(self._now()).depth if self._listeners else 0
            for listener in self._listeners:
                listener(state.verified + verified, left)

        steps = StepWriter(self.spool, self.contents, self.commits, self.layout, self.deadline.clock, tell)
        steps.on_settled, steps.on_run_ended, steps.way = self.on_settled, self.on_run_ended, self.way
        try:
            result = self._pass(state, steps, is_paced=is_paced, is_over=is_over)
        except Stopped as error:
            cause = error.__cause__
            if self.deadline.is_stopping() or not isinstance(cause, Unavailable):
                raise
            result = self._halted(state, cause)
        after = replace(
            result.state,
            verified=state.verified + steps.verified,
            written_runs=state.written_runs | steps.written_runs,
            has_ended_run=state.has_ended_run or steps.has_ended_run,
            ignores_outage=False,
        )
        return replace(result, state=after)

    def _pass(
        self, state: DrainState, steps: StepWriter, *, is_paced: bool, is_over: Callable[[], bool]
    ) -> PassResult:
        now, outage = self._now(), self._outage()
        if outage and not state.ignores_outage and outage.applies(now, self.credentials()):
            return PassResult(state, outage.wait_s(now), outage.sentence)
        self.contents.orphans.sweep()
        waiting = self.spool.pending()
        pending, unplaced = self.sort_out(waiting)
        if not pending:
            return self._end_without_work(state, unplaced, has_handed_on=bool(waiting))
        if (block := state.block) and block.applies(now, self.credentials(), critical_ids(pending)):
            return PassResult(state, block.until - now, block.reason)
        if outage and outage.is_probed_first and (error := self._probe()):
            return self._halted(state, error)
        due = due_items(pending, self.spool.pending(now))
        if not due:
            return PassResult(state, RELEASE_PAUSE_S, self._why_released(pending))
        if error := steps.carry_out_all(self._unfinished(due), is_over=lambda: False):
            return self._halted(state, error)
        plan = self._plan(state, steps.untouched(due), now, is_paced=is_paced)
        state = replace(state, has_looked=True)
        if error := steps.carry_out_all(plan.steps, is_over):
            return self._halted(state, error)
        return PassResult(state, plan.wait_s, plan.reason)

    def _end_without_work(self, state: DrainState, unplaced: str, *, has_handed_on: bool) -> PassResult:
        """Return how a pass ends that finds nothing to write here; `unplaced` says why there may be more."""
        if unplaced:
            return self._stay_away(state, Unavailable("", unplaced))
        if has_handed_on:
            self._set_outage(None)  # every shard has told which runs it holds
        return PassResult(state, None)

    def _why_released(self, pending: Sequence[QueueItem]) -> str:
        """Return why what is left, all of which has a backoff, could not be stored just now."""
        backoffs = map(self.spool.backoff, (item.checkpoint_id for item in pending))
        reason = next((backoff.reason for backoff in backoffs if backoff and backoff.reason), "")
        told = f": {reason}" if reason else ""
        return f"what is left could not be stored just now and is tried again soon{told}"

    def _probe(self) -> GatewayError | None:
        """Return what still stands in the way, if anything does."""
        try:
            self.probe()
        except GatewayError as error:
            return error
        return None

    def _unfinished(self, due: Sequence[QueueItem]) -> Sequence[Step]:
        """Return how to finish what was begun before; notes about checkpoints that have left are dropped."""
        waiting = {item.checkpoint_id for item in self.spool.pending()}
        unfinished = plan_unfinished(pending_writes(self.spool.notes()), due, waiting)
        if unfinished.obsolete:
            self.spool.forget(*(write.name for write in unfinished.obsolete))
        return unfinished.steps

    def _plan(self, state: DrainState, due: Sequence[QueueItem], now: float, *, is_paced: bool) -> DrainPlan:
        """Return what to write now; if nobody knows how many calls are left, only the part that tells it."""
        policy = self.policy if self.commits.is_usable else replace(self.policy, mode="contents")
        policy = policy if is_paced else replace(policy, longest_pause_s=0)
        budget = self.rate_limiter.budget
        plan = plan_drain(due, budget, now, policy)
        if state.has_looked or budget.remaining(policy.resource, now) is not None:
            return plan
        return replace(plan, steps=first_look(plan.steps))

    def _halted(self, state: DrainState, error: GatewayError) -> PassResult:
        """Return how the pass ends where `error` stands in the way of everything."""
        if isinstance(error, Throttled):
            return self._wait_for_room(state, error)
        return self._stay_away(state, error)

    def _wait_for_room(self, state: DrainState, error: Throttled) -> PassResult:
        wait_s = max(error.retry_after_s, 0.05)
        log.warning("drain_throttled", kind=error.kind, wait_s=round(wait_s, 1), cause=error.reason)
        if error.kind != "own_budget":
            self._set_outage(None)  # GitHub is there again, and says so
        critical = critical_ids(self.spool.pending())
        now = self._now()
        block = RateBlock(now, now + wait_s, error.reason, self.credentials(), critical)
        return PassResult(replace(state, block=block), wait_s, error.reason)

    def _stay_away(self, state: DrainState, error: GatewayError) -> PassResult:
        now = self._now()
        outage = outage_after(
            error, self._outage(), now=now, jitter=self.jitter(), credentials=self.credentials()
        )
        self._set_outage(outage)
        log.error("drain_halted", kind=outage.kind, cause=outage.reason, advice=outage.advice)
        return PassResult(state, outage.retry_at - now, outage.sentence)

    def _outage(self) -> Outage | None:
        return parse_outage(self.spool.notes().get(OUTAGE_NOTE))

    def _set_outage(self, outage: Outage | None) -> None:
        if outage:
            self.spool.note(OUTAGE_NOTE, outage.to_bytes())
        elif OUTAGE_NOTE in self.spool.notes():
            self.spool.forget(OUTAGE_NOTE)

    def _purge_receipts(self) -> None:
        now = self._now()
        if now - self._purged_at > PURGE_EVERY_S:
            self._purged_at = now
            self.spool.purge_receipts(older_than=now - KEEP_RECEIPTS_S, keep=KEEP_RECEIPTS)

    def _now(self) -> float:
        return self.deadline.clock.now()
