"""Carries out the steps of one pass, and settles in the queue what became of their checkpoints.

What was written is acknowledged, what GitHub will not take is quarantined, what failed for its run alone is
released until later. What stands in the way of everything is handed back to who planned the steps.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace

from holdfast.clock import Clock
from holdfast.drain.chunks import BatchStep, CommitStep, Step
from holdfast.drain.commits import CommitWriter
from holdfast.drain.contents import ContentsWriter
from holdfast.drain.pending import PendingWrite, pending_write_name, pending_writes
from holdfast.drain.refusals import Divide, Isolate, Quarantine, judge_refusal
from holdfast.errors import (
    ClaimNotShown,
    GatewayError,
    HoldfastError,
    IntegrityFailure,
    Refused,
    Throttled,
    Unavailable,
)
from holdfast.format.paths import Layout
from holdfast.format.receipt import Delivery, Progress, QueueItem
from holdfast.github.wrappers.right_of_way import RightOfWay
from holdfast.logs import log
from holdfast.queue import Queue
from holdfast.queue.contract import LONGEST_BACKOFF_S
from holdfast.tracing import traces

RELEASE_PAUSE_S = 15.0


@dataclass
class StepWriter:
    """Carries out steps; `verified`, `written_runs` and `has_ended_run` tell what came of them.

    `unsettled` runs have a step that is not settled yet. Until it is, nothing else of them is written: their
    order stays, and a pending write is not lost to another one.
    """

    spool: Queue
    contents: ContentsWriter
    commits: CommitWriter
    layout: Layout
    clock: Clock
    on_verified: Callable[[int], None]
    """Is told, after each step, how many checkpoints were verified so far."""
    on_settled: Callable[[Sequence[QueueItem], Progress], None] = lambda _items, _progress: None
    """Is told which checkpoints were verified or refused."""
    on_run_ended: Callable[[], None] = lambda: None
    """Is told that checkpoints were verified which end a run."""
    way: RightOfWay = field(default_factory=RightOfWay)
    verified: int = 0
    written_runs: set[str] = field(default_factory=set)
    has_ended_run: bool = False
    unsettled: set[str] = field(default_factory=set)
    _tried: set[str] = field(default_factory=set)

    def carry_out_all(self, steps: Sequence[Step], is_over: Callable[[], bool]) -> GatewayError | None:
        """Carry out steps until `is_over`; return what stands in the way of the rest, if anything does."""
        for step in steps:
            if is_over():
                break
            if self.unsettled.isdisjoint(step.run_ids) and (error := self._carry_out(step)):
                return error
        return None

    def untouched(self, items: Sequence[QueueItem]) -> list[QueueItem]:
        """Return those of the items that no step was about yet, and whose runs may have another."""
        return [
            item
            for item in items
            if item.checkpoint_id not in self._tried and item.run_id not in self.unsettled
        ]

    def _carry_out(self, step: Step) -> GatewayError | None:
        if not traces.is_on:
            return self._write_and_settle(step)
        from holdfast.drain.spans import trace_step

        with trace_step(step, self.spool, self.clock):
            return self._write_and_settle(step)

    def _write_and_settle(self, step: Step) -> GatewayError | None:
        self.unsettled |= step.run_ids
        self._tried.update(item.checkpoint_id for item in step.items)
        try:
            with self.way.use():
                deliveries = self._write(step)
        except (Throttled, Unavailable) as error:
            return error.with_traceback(None)
        except Refused as error:
            return self._settle_refused(self._as_numbered_now(step), error.with_traceback(None))
        except ClaimNotShown as error:
            return self._isolate(step, error.run_id, error.with_traceback(None))
        except GatewayError as error:
            self._release(step.items, error)
            return None
        except IntegrityFailure as error:
            # Its folder cannot be understood, as when a newer Holdfast has written to it.
            return self._isolate(step, self.layout.parse_path(error.path)[0], error.with_traceback(None))
        self._acknowledge(step, deliveries)
        return None

    def _write(self, step: Step) -> dict[str, Delivery]:
        if isinstance(step, CommitStep):
            return self.commits.write(step.items)
        begun = next((write for write in self._pending_writes() if write.run_id == step.run_id), None)
        ids = tuple(item.checkpoint_id for item in step.items)
        if begun and not set(ids) <= set(begun.checkpoint_ids):
            self.contents.orphans.abandon(begun)
            begun = None
        is_batch = isinstance(step, BatchStep)
        return self.contents.write(begun or PendingWrite(step.run_id, ids, is_batch), step.items)

    def _acknowledge(self, step: Step, deliveries: dict[str, Delivery]) -> None:
        if not deliveries:
            return
        self.contents.orphans.spare(delivery.file_path for delivery in deliveries.values())
        self.spool.acknowledge(deliveries)
        self.spool.forget(*map(pending_write_name, step.run_ids))
        self.unsettled -= step.run_ids
        self.verified += len(deliveries)
        self.written_runs |= step.run_ids
        log.info("checkpoints_verified", checkpoints=len(deliveries))
        if traces.is_on:
            traces.tell(**{"holdfast.commit": next(iter(deliveries.values())).commit_sha})
        self.on_settled([item for item in step.items if item.checkpoint_id in deliveries], Progress.VERIFIED)
        self.on_verified(self.verified)
        if any(delivery.ends_run for delivery in deliveries.values()):
            self.has_ended_run = True
            self.on_run_ended()

    def _as_numbered_now(self, step: Step) -> Step:
        """Return the step with the numbers that its checkpoints have got while it was being written."""
        now = {item.checkpoint_id: item for item in self.spool.pending()}
        return replace(step, items=tuple(now.get(each.checkpoint_id, each) for each in step.items))

    def _settle_refused(self, step: Step, error: Refused) -> GatewayError | None:
        """Find what GitHub will not take, by halves if need be, and quarantine it, so that the rest go on."""
        match judge_refusal(step, error, self.layout):
            case Quarantine(items):
                if len(items) == len(step.items):
                    self._abandon_pending_writes(step)
                self._quarantine(items, error)
                return None
            case Divide(halves):
                self._abandon_pending_writes(step)
                return self.carry_out_all(halves, is_over=lambda: False)
            case Isolate(run_id):
                return self._isolate(step, run_id, error)
            case _:
                return error

    def _isolate(self, step: Step, run_id: str, error: HoldfastError) -> GatewayError | None:
        """Let the one run wait that has something in its way, and carry out the step for the others."""
        own = tuple(item for item in step.items if item.run_id == run_id)
        self._release(own or step.items, error)
        rest = tuple(item for item in step.items if item.run_id != run_id) if own else ()
        if not rest:
            return None
        self.unsettled -= {item.run_id for item in rest}
        return self.carry_out_all([replace(step, items=rest)], is_over=lambda: False)

    def _quarantine(self, items: Sequence[QueueItem], error: Refused) -> None:
        self.on_settled(items, Progress.REFUSED)
        for item in items:
            self.spool.set_aside(item, f"{error.reason}. {error.advice}")
            log.error(
                "checkpoint_set_aside", checkpoint_id=item.checkpoint_id, kind=error.kind, path=error.path
            )

    def _release(self, items: Sequence[QueueItem], error: HoldfastError) -> None:
        """Keep in the queue what could not be stored just now, with a backoff that doubles each time."""
        backoff = self.spool.backoff(items[0].checkpoint_id)
        pause_s = min(RELEASE_PAUSE_S * 2.0 ** (backoff.attempts if backoff else 0), LONGEST_BACKOFF_S)
        reason = f"{error}. {error.advice}" if isinstance(error, Refused) else str(error)
        self.spool.release(items, reason, not_before=self.clock.now() + pause_s)
        log.error("checkpoints_released", checkpoints=len(items), cause=str(error))

    def _abandon_pending_writes(self, step: Step) -> None:
        for write in self._pending_writes():
            if write.run_id in step.run_ids:
                self.contents.orphans.abandon(write)
        self.unsettled -= step.run_ids

    def _pending_writes(self) -> list[PendingWrite]:
        return pending_writes(self.spool.notes())
