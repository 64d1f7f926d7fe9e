"""The spool and its way to GitHub: draining, waiting, setting free, moving to another machine."""

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.errors import SpoolBusy, Stopped
from holdfast.format.receipt import Progress, Receipt
from holdfast.library.reading import Reading
from holdfast.sharding.answers import DrainTerms, drain_shards

if TYPE_CHECKING:
    from holdfast.drain.worker import DrainResult
    from holdfast.queue.transfer import Manifest

BUSY_POLL_S = 0.1


class Draining(Reading):
    """What waits on this disk, and how it gets to GitHub."""

    def drain(self, *, timeout_s: float = 0.0, tidies: bool = True) -> "DrainResult":
        """Write what is spooled to the repository; wait for limits to reset for `timeout_s` at most.

        If that ends a run and it `tidies`, the repository is cleaned up as well. Raises SpoolBusy when
        another process is draining.
        """
        return self._drain(timeout_s, tidies=tidies)

    def wait(self, checkpoint_id: str, *, timeout_s: float, tidies: bool = True) -> Receipt | None:
        """Drain until this checkpoint is verified or refused, or wait for the process that drains.

        Returns how far it has come after `timeout_s` at the latest, and earlier if no wait that fits in it
        would help; None if it is not known here. If that ends a run and it `tidies`, the repository is
        cleaned up as well.
        """
        clock, stop = self._assembly.clock, self._assembly.stop
        deadline = clock.now() + timeout_s

        def is_done() -> bool:
            return clock.now() >= deadline or self._is_settled(checkpoint_id)

        while not (stop.is_set() or is_done()):
            try:
                self._drain(deadline - clock.now(), is_done=is_done, tidies=tidies)
                break
            except SpoolBusy:
                clock.sleep(BUSY_POLL_S)
            except Stopped:
                break
        return self.receipt(checkpoint_id)

    def _drain(
        self, timeout_s: float, *, is_done: Callable[[], bool] = lambda: False, tidies: bool
    ) -> "DrainResult":
        shards = self._assembly.shards
        if len(shards) == 1:
            return shards[0].worker.drain(timeout_s=timeout_s, is_done=is_done, tidies=tidies)
        ends_at = self._assembly.clock.now() + timeout_s
        return drain_shards(shards, DrainTerms(ends_at, is_done, tidies))

    def status(self) -> dict[str, Any]:
        """Return the spool, the budget and the last error, without asking GitHub or making anything."""
        from holdfast.status import overview

        return overview(self._assembly)

    def export_spool(self, folder: Path) -> "Manifest":
        """Write every unsent checkpoint to `folder`, as a file each. The spool stays as it is."""
        from holdfast.queue.transfer import export_spool

        return export_spool(self._assembly.spool, folder)

    def restore(self, checkpoint_ids: Iterable[str] | None = None, *, redact: bool = False) -> list[str]:
        """Put set-aside checkpoints back into the line, all of them unless some are named; return their ids.

        With `redact`, credentials are taken out first, and only those are put back in which there were some.
        Raises UnknownRun for one that is not known, SpoolDamaged for one whose bytes are damaged.
        """
        spool = self._assembly.spool
        ids = checkpoint_ids or [entry.item.checkpoint_id for entry in spool.set_aside_entries()]
        if redact:
            from holdfast.drain.cleansing import restore_redacted

            return restore_redacted(spool, ids, self._assembly.secrets)
        return [spool.restore(checkpoint_id).checkpoint_id for checkpoint_id in ids]

    def _is_settled(self, checkpoint_id: str) -> bool:
        receipt = self.receipt(checkpoint_id)
        return receipt is None or receipt.status in (Progress.VERIFIED, Progress.REFUSED)
