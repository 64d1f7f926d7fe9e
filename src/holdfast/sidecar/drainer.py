"""The worker inside the sidecar: a thread that drains until it is told to stop, whatever happens."""

import threading
import time
from collections.abc import Callable, Sequence
from math import inf

from holdfast.clock import SHORT_PAUSE_S
from holdfast.drain.worker import Worker
from holdfast.errors import DatabaseAway, DiskFailed, HoldfastError, SpoolBusy, Stopped
from holdfast.logs import log

# Another process may have spooled something, or may have stopped draining.
LOOK_EVERY_S = 5.0
LONGEST_PAUSE_S = 30.0


class Drainers:
    """One drainer for each shard, or the only one."""

    def __init__(self, drainers: Sequence["Drainer"]) -> None:
        self._drainers = drainers

    def start(self) -> None:
        """Begin."""
        for drainer in self._drainers:
            drainer.start()

    @property
    def is_alive(self) -> bool:
        """Whether every thread runs."""
        return all(drainer.is_alive for drainer in self._drainers)

    def wake(self, *, is_urgent: bool) -> None:
        """Tell that there is a new checkpoint; an urgent one ends a pause of a drain under way, too."""
        for drainer in self._drainers:
            drainer.wake(is_urgent=is_urgent)

    def join(self, timeout_s: float) -> bool:
        """Wait for the end of all, once `stop` is set; return whether it has come."""
        ends_at = time.monotonic() + timeout_s
        for drainer in self._drainers:
            drainer.join(max(0.0, ends_at - time.monotonic()))
        return not any(drainer.is_alive for drainer in self._drainers)


class Drainer:
    """Drains the spool in a thread of its own. No failure ends it, but for a disk that failed.

    `on_verified` is told how many checkpoints were verified, `on_drained` that the spool is empty again, and
    `on_disk_failed` that we must end.
    """

    def __init__(
        self,
        worker: Worker,
        stop: threading.Event,
        *,
        on_verified: Callable[[int], None],
        on_drained: Callable[[], None],
        on_disk_failed: Callable[[DiskFailed], None],
    ) -> None:
        self._stop = stop
        self._news = threading.Event()
        self._urgent = threading.Event()
        self._worker = worker
        self._worker.on_progress(self._tell)
        self._on_verified = on_verified
        self._on_drained = on_drained
        self._on_disk_failed = on_disk_failed
        self._told = 0
        self._left_to = ""
        self._thread = threading.Thread(target=self._run, name="holdfast-drainer", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    @property
    def is_alive(self) -> bool:
        """Whether the thread runs."""
        return self._thread.is_alive()

    def wake(self, *, is_urgent: bool) -> None:
        """Tell that there is a new checkpoint; an urgent one ends a pause of a drain under way, too."""
        self._news.set()
        if is_urgent:
            self._urgent.set()

    def join(self, timeout_s: float) -> bool:
        """Wait for the end, once `stop` is set; return whether it has come."""
        self.wake(is_urgent=True)
        self._thread.join(timeout_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        failures = 0
        while not self._stop.is_set():
            self._news.clear()
            try:
                self._drain()
                failures, self._left_to = 0, ""
            except Stopped:
                return
            except DiskFailed as error:
                self._on_disk_failed(error)
                return
            except SpoolBusy as error:
                self._stand_by(error)
            except DatabaseAway as error:
                log.info("drain_waits_for_database", cause=str(error))
                self._stop.wait(LOOK_EVERY_S)
            except Exception as error:
                failures += 1
                pause_s = min(LONGEST_PAUSE_S, 2.0 ** min(failures, 10))
                # An error of ours says what to do; any other is a flaw, to be found by its traceback.
                tell = log.error if isinstance(error, HoldfastError) else log.exception
                tell("drain_failed", cause=str(error), pause_s=pause_s)
                self._stop.wait(pause_s)
            else:
                self._rest()

    def _drain(self) -> None:
        """Drain until nothing is left."""
        self._told = 0
        spool = self._worker.spool
        if not spool.status(0.0).depth:
            return
        self._worker.drain(timeout_s=inf, is_paced=True, wait=self._wait)
        if not spool.status(0.0).depth:
            self._on_drained()

    def _stand_by(self, error: SpoolBusy) -> None:
        """Leave it to the one that drains, and look again when that one may have ended."""
        if str(error) != self._left_to:
            self._left_to = str(error)
            log.info("drain_left_to_other", cause=self._left_to)
        self._stop.wait(LOOK_EVERY_S if error.retry_in_s is None else error.retry_in_s)

    def _wait(self, seconds: float) -> None:
        """Wait between two passes; something urgent ends a long wait: a critical checkpoint, a stop."""
        if seconds <= SHORT_PAUSE_S:
            self._worker.deadline.wait(seconds)
        else:
            self._urgent.wait(seconds)
            self._urgent.clear()

    def _rest(self) -> None:
        if not self._stop.is_set():
            self._news.wait(LOOK_EVERY_S)

    def _tell(self, verified: int, _left: int) -> None:
        self._on_verified(verified - self._told)
        self._told = verified
