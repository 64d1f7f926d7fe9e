"""The drain loop: from the spool, through a writer, to the repository."""

import random
from collections.abc import Callable, Collection, Sequence, Set
from dataclasses import dataclass, field, replace
from math import inf

from holdfast.clock import Clock
from holdfast.drain.commits import CommitWriter
from holdfast.drain.contents import ContentsWriter
from holdfast.drain.outage import NOTE, UNAVAILABLE, Trouble, parse_trouble, trouble_after
from holdfast.drain.pending import Intent, is_intent, parse_intent
from holdfast.drain.plan import (
    DrainPolicy,
    Step,
    WriteBatch,
    WriteCommit,
    WriteSingles,
    order_tickets,
    plan_drain,
)
from holdfast.errors import GatewayError, Refused, Stopped, Throttled, Unavailable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Ticket
from holdfast.format.triggers import Priority
from holdfast.github.wrappers.deadline import Patience
from holdfast.logs import log
from holdfast.queue import Spool
from holdfast.ratelimit.shared_file import Ledger

LONGEST_SLEEP_S = 300.0
# While a person must act we look this often whether there is a new token.
LONGEST_SLEEP_IN_TROUBLE_S = 5.0
RELEASE_PAUSE_S = 15.0
LONGEST_RELEASE_PAUSE_S = 900.0
# Receipts of verified checkpoints answer questions and repetitions for a while, not for ever.
KEEP_RECEIPTS = 10_000
KEEP_RECEIPTS_S = 7 * 24 * 3600.0
PURGE_EVERY_S = 3600.0

_ASKED_FIRST = frozenset({UNAVAILABLE, "auth", "not_found_or_no_access"})
"""Where a small question tells whether a trouble is over, so that no write has to."""

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

    spool: Spool
    contents: ContentsWriter
    commits: CommitWriter
    ledger: Ledger
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
    _ignores_trouble: bool = False
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
        asks for a drain by hand may have mended what was wrong: then a known trouble is tried again at once.
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
        self._ignores_trouble = not is_paced
        if not is_paced:
            self._no_room = None
        self.ledger.begin_run()
        now = self.clock.now()
        if now - self._purged_at > PURGE_EVERY_S:
            self._purged_at = now
            self.spool.purge_receipts(older_than=now - KEEP_RECEIPTS_S, keep=KEEP_RECEIPTS)

    def _sleep(self, seconds: float) -> None:
        """Wait a while; then the loop looks at the clock again, not at GitHub."""
        longest = LONGEST_SLEEP_IN_TROUBLE_S if self._trouble() else LONGEST_SLEEP_S
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
        trouble = self._trouble()
        is_news = self._ignores_trouble or (trouble and trouble.credentials != self.credentials())
        self._ignores_trouble = False
        if trouble and trouble.retry_at > now and not is_news:
            return trouble.retry_at - now, trouble.sentence
        self.contents.sweep()
        pending = self.spool.pending()
        if not pending:
            return None, ""
        if (no_room := self._no_room) and self._holds_still(no_room, pending):
            return no_room.until - now, no_room.reason
        if trouble and trouble.kind in _ASKED_FIRST:
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
            due = [each for each in due if each.run_id not in self._unsettled and each not in step.tickets]
        policy = self.policy if self.commits.is_usable else replace(self.policy, mode="contents")
        policy = policy if self._is_paced else replace(policy, longest_pause_s=0)
        budget = self.ledger.budget
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

    def _holds_still(self, no_room: _NoRoom, pending: Sequence[Ticket]) -> bool:
        """Tell whether nothing has come that may find room: time, a new token, a critical checkpoint."""
        is_same = no_room.credentials == self.credentials() and _critical(pending) <= no_room.critical
        return is_same and self.clock.now() < no_room.until

    def _due(self, pending: Sequence[Ticket], now: float) -> list[Ticket]:
        """Return what may be written now. A run waits as a whole, so that its order stays."""
        due = {ticket.checkpoint_id for ticket in self.spool.pending(now)}
        held = {ticket.run_id for ticket in pending if ticket.checkpoint_id not in due}
        return [ticket for ticket in pending if ticket.run_id not in held]

    def _unfinished(self, due: Sequence[Ticket]) -> list[Step]:
        """Return what was begun before, as it was planned then: finishing it first is what avoids doubles."""
        steps: list[Step] = []
        waiting = {ticket.checkpoint_id for ticket in self.spool.pending()}
        ordered = order_tickets(due)
        for intent in self._intents():
            tickets = tuple(ticket for ticket in ordered if ticket.checkpoint_id in intent.checkpoint_ids)
            if tickets:
                steps.append((WriteBatch if intent.is_batch else WriteSingles)(intent.run_id, tickets))
            elif waiting.isdisjoint(intent.checkpoint_ids):
                self.spool.forget(intent.name)
        return steps

    def _intents(self) -> list[Intent]:
        return [parse_intent(content) for name, content in self.spool.notes().items() if is_intent(name)]

    def _carry_out(self, step: Step) -> tuple[float, str] | None:
        """Write one step. Returns None if the pass may go on, else how long to wait and why.

        Until the step is settled, nothing else of its runs is written: their order stays, and an intent is
        not lost to another write.
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
            self._release(step.tickets, error)
        return None

    def _write(self, step: Step) -> dict[str, Delivery]:
        if isinstance(step, WriteCommit):
            return self.commits.write(step.tickets)
        return self._write_run(step.run_id, step.tickets, is_batch=isinstance(step, WriteBatch))

    def _write_run(self, run_id: str, tickets: Sequence[Ticket], *, is_batch: bool) -> dict[str, Delivery]:
        begun = next((intent for intent in self._intents() if intent.run_id == run_id), None)
        ids = tuple(ticket.checkpoint_id for ticket in tickets)
        if begun and not set(ids) <= set(begun.checkpoint_ids):
            self.contents.abandon(begun)
            begun = None
        return self.contents.write(begun or Intent(run_id, ids, is_batch), tickets)

    def _as_numbered_now(self, step: Step) -> Step:
        """Return the step with the numbers that its checkpoints have got while it was being written."""
        now = {ticket.checkpoint_id: ticket for ticket in self.spool.pending()}
        return replace(step, tickets=tuple(now.get(each.checkpoint_id, each) for each in step.tickets))

    def _acknowledge(self, step: Step, deliveries: dict[str, Delivery]) -> None:
        if not deliveries:
            return
        self.contents.spare(delivery.file_path for delivery in deliveries.values())
        self.spool.acknowledge(deliveries)
        self._forget_intents(step)
        self._set_trouble(None)
        self._verified += len(deliveries)
        self._written |= _runs_of(step)
        log.info("checkpoints_verified", checkpoints=len(deliveries))
        left = self.spool.status(self.clock.now()).depth if self._listeners else 0
        for listener in self._listeners:
            listener(self._verified, left)

    def _refuse(self, step: Step, error: Refused) -> tuple[float, str] | None:
        """Set aside the one checkpoint that GitHub will not take, so that the others can go on."""
        culprits = [ticket for ticket in step.tickets if self._path_of(ticket) == error.path]
        is_part = self.layout.is_part(error.path)
        if is_part and len(step.tickets) == 1:
            culprits = list(step.tickets)
        if not culprits and (is_part or not isinstance(step, WriteSingles)):
            return self._isolate(step)
        if not culprits:
            return self._stay_away(error)  # not of the checkpoint's content: a setting, a proxy, a redirect
        if len(culprits) == len(step.tickets):
            self._abandon_intents(step)
        for ticket in culprits:
            reason = f"{error.reason}. {error.advice}"
            self.spool.set_aside(ticket, reason)
            log.error(
                "checkpoint_set_aside", checkpoint_id=ticket.checkpoint_id, kind=error.kind, path=error.path
            )
        return None

    def _isolate(self, step: Step) -> tuple[float, str] | None:
        """Write what was refused together in halves, until the culprit is alone and can be set aside."""
        self._abandon_intents(step)
        for half in _halves(step):
            if self._unsettled.isdisjoint(_runs_of(half)) and (wait := self._carry_out(half)):
                return wait
        return None

    def _abandon_intents(self, step: Step) -> None:
        runs = _runs_of(step)
        for intent in self._intents():
            if intent.run_id in runs:
                self.contents.abandon(intent)
        self._unsettled -= runs

    def _forget_intents(self, step: Step) -> None:
        runs = _runs_of(step)
        self.spool.forget(*(Intent(run_id, (), is_batch=False).name for run_id in runs))
        self._unsettled -= runs

    def _path_of(self, ticket: Ticket) -> str:
        return self.layout.checkpoint_path(ticket.run_id, ticket.sequence, ticket.trigger)

    def _wait_for_room(self, error: Throttled) -> tuple[float, str]:
        wait_s = max(error.retry_after_s, 0.05)
        log.warning("drain_throttled", kind=error.kind, wait_s=round(wait_s, 1), cause=error.reason)
        if error.kind != "own_budget":
            self._set_trouble(None)  # GitHub is there again, and says so
        # A plan may see room where a part of its work finds none: without this it would try again and again.
        self._no_room = _NoRoom(
            self.clock.now() + wait_s, error.reason, self.credentials(), _critical(self.spool.pending())
        )
        return wait_s, error.reason

    def _stay_away(self, error: GatewayError) -> tuple[float, str]:
        now = self.clock.now()
        trouble = trouble_after(
            error, self._trouble(), now=now, jitter=self.jitter(), credentials=self.credentials()
        )
        self._set_trouble(trouble)
        log.error("drain_halted", kind=trouble.kind, cause=trouble.reason, advice=trouble.advice)
        return trouble.retry_at - now, trouble.sentence

    def _release(self, tickets: Sequence[Ticket], error: GatewayError) -> None:
        """Keep in the spool what could not be stored just now, and go on with the other runs."""
        hold = self.spool.hold(tickets[0].checkpoint_id)
        pause_s = min(RELEASE_PAUSE_S * 2.0 ** (hold.attempts if hold else 0), LONGEST_RELEASE_PAUSE_S)
        self.spool.release(tickets, str(error), not_before=self.clock.now() + pause_s)
        log.error("checkpoints_released", checkpoints=len(tickets), cause=str(error))

    def _trouble(self) -> Trouble | None:
        return parse_trouble(self.spool.notes().get(NOTE))

    def _set_trouble(self, trouble: Trouble | None) -> None:
        if trouble:
            self.spool.note(NOTE, trouble.to_bytes())
        elif NOTE in self.spool.notes():
            self.spool.forget(NOTE)


def _first_look(steps: Sequence[Step]) -> Sequence[Step]:
    """Return the part of a large plan whose answer tells how many calls are left."""
    if sum(len(step.tickets) for step in steps) <= _FEW:
        return steps
    first = steps[0]
    return [replace(first, tickets=first.tickets[:1]) if isinstance(first, WriteSingles) else first]


def _halves(step: Step) -> list[Step]:
    """Return the step as two; one checkpoint by itself becomes a file of its own."""
    middle = (len(step.tickets) + 1) // 2
    halves = [half for half in (step.tickets[:middle], step.tickets[middle:]) if half]
    return [
        replace(step, tickets=half) if len(half) > 1 else WriteSingles(half[0].run_id, half)
        for half in halves
    ]


def _critical(tickets: Sequence[Ticket]) -> set[str]:
    return {ticket.checkpoint_id for ticket in tickets if ticket.priority is Priority.CRITICAL}


def _runs_of(step: Step) -> set[str]:
    return {ticket.run_id for ticket in step.tickets}
