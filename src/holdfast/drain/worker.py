"""The drain loop: from the spool, through a writer, to the repository."""

import random
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf

from holdfast.clock import Clock
from holdfast.drain.commits import CommitWriter
from holdfast.drain.contents import ContentsWriter
from holdfast.drain.outage import NOTE, UNAVAILABLE, Outage, outage_after, parse_outage
from holdfast.drain.pending import PendingWrite, is_pending_write, parse_pending_write
from holdfast.drain.plan import (
    BatchStep,
    CommitStep,
    DrainPolicy,
    SinglesStep,
    Step,
    order_items,
    plan_drain,
)
from holdfast.errors import GatewayError, Refused, Stopped, Throttled, Unavailable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, QueueItem
from holdfast.format.triggers import Priority
from holdfast.github.wrappers.deadline import Patience
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.ratelimit.shared_file import RateLimiter

LONGEST_SLEEP_S = 300.0
# While a person must act we look this often whether there is a new token.
LONGEST_SLEEP_IN_OUTAGE_S = 5.0
RELEASE_PAUSE_S = 15.0
LONGEST_RELEASE_PAUSE_S = 900.0
# Receipts of verified checkpoints answer questions and repetitions for a while, not for ever.
KEEP_RECEIPTS = 10_000
KEEP_RECEIPTS_S = 7 * 24 * 3600.0
PURGE_EVERY_S = 3600.0

_ASKED_FIRST = frozenset({UNAVAILABLE, "auth", "not_found_or_no_access"})
"""Where a small question tells whether a outage is over, so that no write has to."""

# With fewer than these it does not matter how many calls the hour has left.
_FEW = 10

# GitHub refuses this one content, or this one file; every other checkpoint may go on.
_ITEM_REFUSALS = frozenset({"secret_detected", "rules", "invalid"})


@dataclass(frozen=True, slots=True)
class DrainResult:
    """What a drain did: how many checkpoints it verified, how many are left, why, and until when."""

    verified: int
    left: int
    reason: str = ""
    retry_in_s: float = 0.0


@dataclass(frozen=True, slots=True)
class _NoRoom:
    """Until when a limit leaves no room and why, and with which token and critical ones that was found."""

    until: float
    reason: str
    credentials: str
    critical: Set[str]


@dataclass
class Worker:
    """Moves checkpoints from the spool into the repository. One at a time drains a spool."""

    spool: Queue
    contents: ContentsWriter
    commits: CommitWriter
    rate_limiter: RateLimiter
    policy: DrainPolicy
    layout: Layout
    clock: Clock
    is_stopping: Callable[[], bool]
    credentials: Callable[[], str]
    """A fingerprint of the token in use: a new one is reason to try again at once."""
    probe: Callable[[], object] = lambda: None
    """Asks GitHub one small question, once; raises what still stands in the way."""
    jitter: Callable[[], float] = random.random
    after_drain: Callable[[Collection[str]], None] = lambda _: None
    """Is told at the end of a drain which runs it has written to."""
    patience: Patience = field(default_factory=Patience)
    """Is told the deadline of a drain; whoever shares it repeats nothing after that."""
    _verified: int = 0
    _is_paced: bool = False
    _has_looked: bool = False
    _no_room: _NoRoom | None = None
    _ignores_outage: bool = False
    _purged_at: float = float("-inf")
    _unsettled: set[str] = field(default_factory=set)
    _written: set[str] = field(default_factory=set)
    _listeners: list[Callable[[int, int], None]] = field(default_factory=list)

    def on_progress(self, listener: Callable[[int, int], None]) -> None:
        """Have `listener` told how many are verified and how many are left, after each step."""
        self._listeners.append(listener)

    def drain(self, *, patience_s: float = 0.0, is_paced: bool = False) -> DrainResult:
        """Write what is spooled. Waits for limits, outages and persons for `patience_s` in all, no longer.

        Unless that is 0, a call without an answer is not repeated after that either, and nothing is pruned.
        If `is_paced`, a busy hour's checkpoints are collected for a while, for a worker that never ends. Who
        asks for a drain by hand may have mended what was wrong: then a known outage is tried again at once.
        Raises SpoolBusy when another process is draining this spool.
        """
        wait_s, reason = None, ""
        with self.spool.drainer():
            self._begin(is_paced=is_paced)
            deadline = self.clock.now() + patience_s
            end = deadline if patience_s > 0 else inf
            while not self.is_stopping():
                with self.patience.until(end):
                    wait_s, reason = self._pass_in_time()
                if wait_s is None or (wait_s > 0 and self.clock.now() + wait_s > deadline):
                    break
                if wait_s > 0:
                    self._sleep(wait_s)
        if self._written and not self.is_stopping() and self.clock.now() < end:
            with self.patience.until(end):
                self.after_drain(self._written)
        return DrainResult(self._verified, len(self.spool.pending()), reason, wait_s or 0.0)

    def _begin(self, *, is_paced: bool) -> None:
        self._verified = 0
        self._written.clear()
        self._is_paced = is_paced
        self._ignores_outage = not is_paced
        if not is_paced:
            self._no_room = None
        self.rate_limiter.begin_run()
        now = self.clock.now()
        if now - self._purged_at > PURGE_EVERY_S:
            self._purged_at = now
            self.spool.purge_receipts(older_than=now - KEEP_RECEIPTS_S, keep=KEEP_RECEIPTS)

    def _sleep(self, seconds: float) -> None:
        """Wait a while; then the loop looks at the clock again, not at GitHub."""
        longest = LONGEST_SLEEP_IN_OUTAGE_S if self._outage() else LONGEST_SLEEP_S
        self.clock.sleep(min(seconds, longest))

    def _pass_in_time(self) -> tuple[float | None, str]:
        """Plan once and carry it out, but for what has no answer after the deadline."""
        try:
            return self._pass()
        except Stopped as error:
            is_late = self.clock.now() >= self.patience.deadline and not self.is_stopping()
            if not is_late or not isinstance(error.__cause__, Unavailable):
                raise
            return self._stay_away(error.__cause__)

    def _pass(self) -> tuple[float | None, str]:
        """Plan once and carry it out. Returns how long to wait, or None when nothing is left, and why."""
        now = self.clock.now()
        outage = self._outage()
        is_news = self._ignores_outage or (outage and outage.credentials != self.credentials())
        self._ignores_outage = False
        if outage and outage.retry_at > now and not is_news:
            return outage.retry_at - now, outage.sentence
        self.contents.sweep()
        pending = self.spool.pending()
        if not pending:
            return None, ""
        if (no_room := self._no_room) and self._holds_still(no_room, pending):
            return no_room.until - now, no_room.reason
        if outage and outage.kind in _ASKED_FIRST:
            try:
                self.probe()
            except Throttled as error:
                return self._wait_for_room(error)
            except GatewayError as error:
                return self._stay_away(error)
        due = self._due(pending, now)
        if not due:
            return RELEASE_PAUSE_S, "what is left could not be stored just now and is tried again soon"
        self._unsettled.clear()
        for step in self._unfinished(due):
            if wait := self._carry_out(step):
                return wait
            due = [each for each in due if each.run_id not in self._unsettled and each not in step.items]
        policy = self.policy if self.commits.is_usable else replace(self.policy, mode="contents")
        policy = policy if self._is_paced else replace(policy, longest_pause_s=0)
        budget = self.rate_limiter.budget
        plan = plan_drain(due, budget, now, policy)
        # A server may never tell how many calls are left, so that one look must do.
        is_known = self._has_looked or budget.remaining(policy.resource, now) is not None
        self._has_looked = True
        for step in plan.steps if is_known else _first_look(plan.steps):
            if self.is_stopping():
                break
            if self._unsettled.isdisjoint(_runs_of(step)) and (wait := self._carry_out(step)):
                return wait
        return plan.wait_s if not plan.steps else 0.0, plan.reason

    def _holds_still(self, no_room: _NoRoom, pending: Sequence[QueueItem]) -> bool:
        """Tell whether nothing has come that may find room: time, a new token, a critical checkpoint."""
        is_same = no_room.credentials == self.credentials() and _critical(pending) <= no_room.critical
        return is_same and self.clock.now() < no_room.until

    def _due(self, pending: Sequence[QueueItem], now: float) -> list[QueueItem]:
        """Return what may be written now. A run waits as a whole, so that its order stays."""
        due = {item.checkpoint_id for item in self.spool.pending(now)}
        held = {item.run_id for item in pending if item.checkpoint_id not in due}
        return [item for item in pending if item.run_id not in held]

    def _unfinished(self, due: Sequence[QueueItem]) -> list[Step]:
        """Return what was begun before, as it was planned then: finishing it first is what avoids doubles."""
        steps: list[Step] = []
        waiting = {item.checkpoint_id for item in self.spool.pending()}
        ordered = order_items(due)
        for pending_write in self._pending_writes():
            items = tuple(item for item in ordered if item.checkpoint_id in pending_write.checkpoint_ids)
            if items:
                steps.append(
                    (BatchStep if pending_write.is_batch else SinglesStep)(pending_write.run_id, items)
                )
            elif waiting.isdisjoint(pending_write.checkpoint_ids):
                self.spool.forget(pending_write.name)
        return steps

    def _pending_writes(self) -> list[PendingWrite]:
        return [
            parse_pending_write(content)
            for name, content in self.spool.notes().items()
            if is_pending_write(name)
        ]

    def _carry_out(self, step: Step) -> tuple[float, str] | None:
        """Write one step. Returns None if the pass may go on, else how long to wait and why.

        Until the step is settled, nothing else of its runs is written: their order stays, and a pending
        write is not lost to another one.
        """
        self._unsettled |= _runs_of(step)
        try:
            self._acknowledge(step, self._write(step))
        except Throttled as error:
            return self._wait_for_room(error)
        except Refused as error:
            if error.kind in _ITEM_REFUSALS:
                return self._refuse(self._as_numbered_now(step), error)
            return self._stay_away(error)
        except Unavailable as error:
            return self._stay_away(error)
        except GatewayError as error:
            self._release(step.items, error)
        return None

    def _write(self, step: Step) -> dict[str, Delivery]:
        if isinstance(step, CommitStep):
            return self.commits.write(step.items)
        return self._write_run(step.run_id, step.items, is_batch=isinstance(step, BatchStep))

    def _write_run(self, run_id: str, items: Sequence[QueueItem], *, is_batch: bool) -> dict[str, Delivery]:
        begun = next(
            (pending_write for pending_write in self._pending_writes() if pending_write.run_id == run_id),
            None,
        )
        ids = tuple(item.checkpoint_id for item in items)
        if begun and not set(ids) <= set(begun.checkpoint_ids):
            self.contents.abandon(begun)
            begun = None
        return self.contents.write(begun or PendingWrite(run_id, ids, is_batch), items)

    def _as_numbered_now(self, step: Step) -> Step:
        """Return the step with the numbers that its checkpoints have got while it was being written."""
        now = {item.checkpoint_id: item for item in self.spool.pending()}
        return replace(step, items=tuple(now.get(each.checkpoint_id, each) for each in step.items))

    def _acknowledge(self, step: Step, deliveries: dict[str, Delivery]) -> None:
        if not deliveries:
            return
        self.contents.spare(delivery.file_path for delivery in deliveries.values())
        self.spool.acknowledge(deliveries)
        self._forget_pending_writes(step)
        self._set_outage(None)
        self._verified += len(deliveries)
        self._written |= _runs_of(step)
        log.info("checkpoints_verified", checkpoints=len(deliveries))
        left = self.spool.status(self.clock.now()).depth if self._listeners else 0
        for listener in self._listeners:
            listener(self._verified, left)

    def _refuse(self, step: Step, error: Refused) -> tuple[float, str] | None:
        """Set aside the one checkpoint that GitHub will not take, so that the others can go on."""
        culprits = [item for item in step.items if self._path_of(item) == error.path]
        is_part = self.layout.is_part(error.path)
        if is_part and len(step.items) == 1:
            culprits = list(step.items)
        if not culprits and (is_part or not isinstance(step, SinglesStep)):
            return self._isolate(step)
        if not culprits:
            return self._stay_away(error)  # not of the checkpoint's content: a setting, a proxy, a redirect
        if len(culprits) == len(step.items):
            self._abandon_pending_writes(step)
        for item in culprits:
            reason = f"{error.reason}. {error.advice}"
            self.spool.set_aside(item, reason)
            log.error(
                "checkpoint_set_aside", checkpoint_id=item.checkpoint_id, kind=error.kind, path=error.path
            )
        return None

    def _isolate(self, step: Step) -> tuple[float, str] | None:
        """Write what was refused together in halves, until the culprit is alone and can be set aside."""
        self._abandon_pending_writes(step)
        for half in _halves(step):
            if self._unsettled.isdisjoint(_runs_of(half)) and (wait := self._carry_out(half)):
                return wait
        return None

    def _abandon_pending_writes(self, step: Step) -> None:
        runs = _runs_of(step)
        for pending_write in self._pending_writes():
            if pending_write.run_id in runs:
                self.contents.abandon(pending_write)
        self._unsettled -= runs

    def _forget_pending_writes(self, step: Step) -> None:
        runs = _runs_of(step)
        self.spool.forget(*(PendingWrite(run_id, (), is_batch=False).name for run_id in runs))
        self._unsettled -= runs

    def _path_of(self, item: QueueItem) -> str:
        return self.layout.checkpoint_path(item.run_id, item.sequence, item.trigger)

    def _wait_for_room(self, error: Throttled) -> tuple[float, str]:
        wait_s = max(error.retry_after_s, 0.05)
        log.warning("drain_throttled", kind=error.kind, wait_s=round(wait_s, 1), cause=error.reason)
        if error.kind != "own_budget":
            self._set_outage(None)  # GitHub is there again, and says so
        # A plan may see room where a part of its work finds none: without this it would try again and again.
        self._no_room = _NoRoom(
            self.clock.now() + wait_s, error.reason, self.credentials(), _critical(self.spool.pending())
        )
        return wait_s, error.reason

    def _stay_away(self, error: GatewayError) -> tuple[float, str]:
        now = self.clock.now()
        outage = outage_after(
            error, self._outage(), now=now, jitter=self.jitter(), credentials=self.credentials()
        )
        self._set_outage(outage)
        log.error("drain_halted", kind=outage.kind, cause=outage.reason, advice=outage.advice)
        return outage.retry_at - now, outage.sentence

    def _release(self, items: Sequence[QueueItem], error: GatewayError) -> None:
        """Keep in the spool what could not be stored just now, and go on with the other runs."""
        backoff = self.spool.backoff(items[0].checkpoint_id)
        pause_s = min(RELEASE_PAUSE_S * 2.0 ** (backoff.attempts if backoff else 0), LONGEST_RELEASE_PAUSE_S)
        self.spool.release(items, str(error), not_before=self.clock.now() + pause_s)
        log.error("checkpoints_released", checkpoints=len(items), cause=str(error))

    def _outage(self) -> Outage | None:
        return parse_outage(self.spool.notes().get(NOTE))

    def _set_outage(self, outage: Outage | None) -> None:
        if outage:
            self.spool.note(NOTE, outage.to_bytes())
        elif NOTE in self.spool.notes():
            self.spool.forget(NOTE)


def _first_look(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the part of a large plan whose answer tells how many calls are left."""
    if sum(len(step.items) for step in steps) <= _FEW:
        return steps
    first = steps[0]
    return [replace(first, items=first.items[:1]) if isinstance(first, SinglesStep) else first]


def _halves(step: Step) -> list[Step]:
    """Return the step as two; one checkpoint by itself becomes a file of its own."""
    middle = (len(step.items) + 1) // 2
    halves = [half for half in (step.items[:middle], step.items[middle:]) if half]
    return [
        replace(step, items=half) if len(half) > 1 else SinglesStep(half[0].run_id, half) for half in halves
    ]


def _critical(items: Sequence[QueueItem]) -> set[str]:
    return {item.checkpoint_id for item in items if item.priority is Priority.CRITICAL}


def _runs_of(step: Step) -> set[str]:
    return {item.run_id for item in step.items}
