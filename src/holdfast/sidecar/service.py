"""What all routes share: the library, the way to the disk, the worker, the counters."""

import asyncio
import threading
from collections import deque
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import ParamSpec, TypeVar

from holdfast.assembly import Assembly
from holdfast.assembly.ground import Ground
from holdfast.doctor import Diagnosis, examine
from holdfast.errors import DiskFailed
from holdfast.format.receipt import Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority
from holdfast.library import Holdfast
from holdfast.logs import log
from holdfast.metrics import Metrics
from holdfast.queue.contract import Settled
from holdfast.retention.sweep import SweepReport, try_sweep
from holdfast.sidecar.bodies import BodyReader
from holdfast.sidecar.courtesy import Courtesy
from holdfast.sidecar.drainer import Drainer, Drainers
from holdfast.sidecar.events import EventFeed
from holdfast.sidecar.group_commit import GroupCommit, Outcome
from holdfast.sidecar.memory import stay_lean
from holdfast.sidecar.problems import Problem
from holdfast.sidecar.sessions import Sessions
from holdfast.sidecar.threads import BoundedThreads, Threads
from holdfast.sidecar.watch import Watch
from holdfast.sidecar.write_back import WriteBack
from holdfast.status import overview

P = ParamSpec("P")
T = TypeVar("T")

# Drafting, status and the like: they need this machine alone, so that they end soon.
LOCAL_THREADS = 4
# What may go to GitHub, and so may wait for it as long as it likes to.
READING_THREADS = 4
# What saves a checkpoint, but may have to read another first: however many read, it has its turn.
SAVING_THREADS = 4
LONGEST_TURN_OF_A_SAVE_S = 60.0
# Part of the 8 s that a stop may take, for each kind of threads.
THREADS_GRACE_S = 0.25
# The worker tells of what it verified; of what it set aside, or of another process's work, nobody does.
FOLLOW_EVERY_S = 0.5
MOST_CLEANUPS = 20

_SETTLED = frozenset({Progress.VERIFIED, Progress.REFUSED, Progress.DISABLED})


@dataclass(frozen=True, slots=True)
class CleanUp:
    """What a clean-up has deleted, when, and why it began."""

    at: float
    because: str
    files: int
    runs: tuple[str, ...]


class Service:
    """One repository, opened to be served. `stop` ends it; `failure` says if it had to end."""

    def __init__(
        self,
        holdfast: Holdfast,
        assembly: Ground,
        metrics: Metrics,
        courtesy: Courtesy,
        *,
        stop: threading.Event,
    ) -> None:
        self.holdfast = holdfast
        self.assembly = assembly
        self.metrics = metrics
        self.stop = stop
        self._courtesy = courtesy
        self.failure: DiskFailed | None = None
        self.bodies = BodyReader(assembly.settings.max_body_bytes, is_setting=True)
        self.intake = GroupCommit(holdfast.submit_all, on_committed=self._committed)
        self._write_back = WriteBack(assembly.spool.write_back, on_disk_failed=self.fail)
        self.drainer = Drainers(
            [
                Drainer(
                    shard.worker,
                    stop,
                    on_verified=self._verified,
                    on_drained=self._drained,
                    on_disk_failed=self.fail,
                )
                for shard in assembly.shards
            ]
        )
        self._local = Threads(LOCAL_THREADS, "holdfast-local")
        self._examiner = Threads(1, "holdfast-examiner")
        self._readers = BoundedThreads(READING_THREADS, "holdfast-reader")
        self._savers = BoundedThreads(
            SAVING_THREADS, "holdfast-saver", longest_turn_s=LONGEST_TURN_OF_A_SAVE_S
        )
        self.events = EventFeed()
        settings = assembly.settings
        has_token = settings.api_token is not None or settings.api_token_file is not None
        self.sessions = Sessions(assembly.api_tokens, is_needed=has_token)
        self.watch = Watch(
            look=lambda: self.call_local(overview, assembly, in_short=True),
            count_verified=lambda: self._verified_count,
            publish=self.events.publish,
            now=assembly.clock.now,
        )
        self.cleanups: deque[CleanUp] = deque(maxlen=MOST_CLEANUPS)
        """The last clean-ups of this process, the newest first."""
        self._verified_count = 0
        self._background: list[asyncio.Task[None]] = []
        holdfast.on_spooled = self._spooled
        for shard in assembly.shards:
            shard.worker.on_settled = self._settled
            # Not in the drainer's thread: what is spooled does not wait for a clean-up.
            shard.worker.on_run_ended = partial(self._run_ended, shard)
            shard.worker.clean_up = lambda: None
        self._news = asyncio.Event()
        self._loop: asyncio.AbstractEventLoop | None = None
        self._tidying: asyncio.Task[None] | None = None
        self._diagnosis: asyncio.Task[Diagnosis] | None = None
        self._untidy: set[Assembly] = set()

    def start(self) -> None:
        """Begin; to be called where the event loop runs."""
        self._loop = asyncio.get_running_loop()
        self.events.start()
        self._background = [
            self._loop.create_task(each) for each in (self.watch.run(), stay_lean(self.call_local))
        ]
        self.intake.start()
        self._write_back.start()
        self.drainer.start()
        self.assembly.spool.listen(lambda is_urgent: self.drainer.wake(is_urgent=is_urgent), self._heard)
        for shard in self.assembly.shards:
            if schedule := shard.schedule:
                threading.Thread(target=schedule.run, name="holdfast-sweeper", daemon=True).start()

    def close(self) -> bool:
        """Put what has arrived to the disk, and let go of the threads; return whether all of them ended.

        The drainer is joined by its owner. A read that hangs cannot be ended, only left behind.
        """
        self.intake.close()
        threads = (self._write_back, self._local, self._examiner, self._savers, self._readers)
        have_ended = [each.close(THREADS_GRACE_S) for each in threads]
        return all(have_ended)

    @property
    def is_stopping(self) -> bool:
        """Whether nothing more is accepted."""
        return self.stop.is_set()

    async def call(self, work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Return what `work` returns, which may wait for GitHub. Raises Problem while too many do."""
        return await self._readers.run(lambda: work(*args, **keywords))

    async def call_saving(self, work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Return what `work` returns, which saves, and may wait for GitHub: no reader stands in its way."""
        return await self._savers.run(lambda: work(*args, **keywords))

    async def call_local(self, work: Callable[P, T], *args: P.args, **keywords: P.kwargs) -> T:
        """Return what `work` returns, which takes a while but never waits for GitHub."""
        return await self._local.run(lambda: work(*args, **keywords))

    async def diagnose(self) -> Diagnosis:
        """Return what a diagnosis finds; who asks while one is under way gets its answer.

        It has a thread of its own: GitHub may hang, and whoever reads from it wait for a turn.
        """
        if self._diagnosis is None or self._diagnosis.done():
            examination = self._examiner.run(lambda: examine(self.assembly))
            self._diagnosis = asyncio.ensure_future(examination)
        return await asyncio.shield(self._diagnosis)

    async def follow(self, receipt: Receipt, *, timeout_s: float) -> Receipt:
        """Return the receipt once it is verified or refused, or as it stands after `timeout_s`."""
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout_s
        while receipt.status not in _SETTLED and not self.is_stopping:
            left_s = deadline - loop.time()
            if left_s <= 0:
                break
            await _wait_for(self._news, min(left_s, FOLLOW_EVERY_S))
            known = await self.call_local(self.holdfast.receipt, receipt.checkpoint_id)
            receipt = known or receipt
        return receipt

    def _run_ended(self, shard: Assembly) -> None:
        """Have the repository cleaned up, from any thread: the end of a run is stored."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._begin_tidying, shard)

    def _begin_tidying(self, shard: Assembly) -> None:
        """Clean up by the rules; if that is under way, once more when it is done."""
        self._untidy.add(shard)
        if self._tidying is None or self._tidying.done():
            self._tidying = asyncio.create_task(self._tidy())

    async def _tidy(self) -> None:
        while self._untidy and not self.is_stopping:
            shard = self._untidy.pop()
            try:
                report = await self.call(try_sweep, shard.sweeper)
            except Problem as error:
                log.warning("cleanup_postponed", cause=error.detail)
            else:
                self.note_cleanup(report, "a run had ended")

    def note_cleanup(self, report: SweepReport | None, because: str) -> None:
        """Remember what a clean-up did, so that people can see it."""
        if report and report.commits:
            files = sum(len(run.delete) for run in report.done)
            runs = tuple(run.run_id for run in report.done if run.delete)
            self.cleanups.appendleft(CleanUp(self.assembly.clock.now(), because, files, runs))

    def announce(self) -> None:
        """Wake whoever follows a checkpoint, from any thread."""
        if self._loop is not None and not self._loop.is_closed():
            self._loop.call_soon_threadsafe(self._pulse)

    def fail(self, error: DiskFailed) -> None:
        """End: what the disk says after a failed sync cannot be trusted, only a new process can be."""
        if self.failure is None:
            self.failure = error
            log.error("disk_failed", cause=str(error), advice="The sidecar ends; start it again.")
            threading.Thread(target=self.stop.set, daemon=True).start()

    def _pulse(self) -> None:
        news, self._news = self._news, asyncio.Event()
        news.set()

    def _committed(self, outcomes: Sequence[Outcome], priorities: Sequence[Priority]) -> None:
        self._courtesy.note(len(outcomes))
        self._write_back.note(len(outcomes))
        for outcome in outcomes:
            if isinstance(outcome, DiskFailed):
                self.fail(outcome)
                return
        receipts = [outcome for outcome in outcomes if isinstance(outcome, Receipt)]
        if receipts:
            self.drainer.wake(is_urgent=Priority.CRITICAL in priorities)
        # One event for each run: under load a commit holds many checkpoints of few runs.
        for receipt in {receipt.run_id: receipt for receipt in receipts}.values():
            self._tell("spooled", receipt.run_id, receipt.checkpoint_id, receipt.sequence_number)

    def _spooled(self, receipt: Receipt) -> None:
        """Tell of a checkpoint that came by itself, as decisions do."""
        self._tell("spooled", receipt.run_id, receipt.checkpoint_id, receipt.sequence_number)
        self.drainer.wake(is_urgent=False)

    def _drained(self) -> None:
        if not any(shard.spool.status(0.0).depth for shard in self.assembly.shards):
            self.events.publish("drained", {"depth": 0})

    def _settled(self, items: Sequence[QueueItem], progress: Progress) -> None:
        if progress is Progress.VERIFIED:
            now = self.assembly.clock.now()
            for item in items:
                self.metrics.verified_after_seconds.observe(max(0.0, now - item.arrived_at))
        for item in {item.run_id: item for item in items}.values():
            self._tell(progress.value, item.run_id, item.checkpoint_id, item.sequence)

    def _heard(self, settled: Sequence[Settled]) -> None:
        """Tell of what another process has settled in the queue that we share."""
        for each in settled:
            self._tell(each.progress.value, each.run_id, each.checkpoint_id, each.sequence)
        self.announce()

    def _tell(self, kind: str, run_id: str, checkpoint_id: str, sequence: int) -> None:
        newest = {"run_id": run_id, "checkpoint_id": checkpoint_id, "sequence_number": sequence}
        self.events.publish(kind, newest)

    def _verified(self, checkpoints: int) -> None:
        self.metrics.verified.inc(checkpoints)
        self._verified_count += checkpoints
        self.announce()


async def _wait_for(event: asyncio.Event, seconds: float) -> None:
    try:
        async with asyncio.timeout(seconds):
            await event.wait()
    except TimeoutError:
        return
