"""Checkpoints that come after their run was taken over: set aside, with the reason, and never lost."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.drain.stamping import StampedItem
from holdfast.errors import ClaimNotShown, Fenced
from holdfast.format.claim import TOO_LATE
from holdfast.format.index import highest_fence
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.logs import log
from holdfast.queue import Queue

Admit = Callable[[RunSnapshot, list[StampedItem]], list[StampedItem]]
"""Tells which checkpoints may become part of a run, in the order given."""


def admit_all(_snapshot: RunSnapshot, stamped: list[StampedItem]) -> list[StampedItem]:
    """Return all of them: nobody claims anything."""
    return stamped


@dataclass(frozen=True, slots=True)
class FenceGate:
    """Lets only those checkpoints pass whose fence is not outdated. One without a fence always passes.

    `check` raises Fenced if the run was taken over elsewhere, ClaimNotShown if that is not settled. It asks
    the judge, so it is asked only where a checkpoint has a fence.
    """

    spool: Queue
    check: Callable[[str, int], None]

    def __call__(self, snapshot: RunSnapshot, stamped: list[StampedItem]) -> list[StampedItem]:
        """Return those that may be written, and those that are stored already; the others are set aside.

        Raises ClaimNotShown if one must wait, once all were looked at: then the run waits, in its order.
        """
        if not any(each.envelope.header.fence for each in stamped):
            return stamped
        highest = highest_fence(snapshot.index.all_entries)
        admitted = []
        refusals: dict[int, Fenced | ClaimNotShown | None] = {}
        doubt: ClaimNotShown | None = None
        for each in stamped:
            fence = each.envelope.header.fence or 0
            if fence and not snapshot.index.has_id(each.item.checkpoint_id):
                if fence not in refusals:
                    refusals[fence] = self._refuse(snapshot.run_id, fence, highest)
                refusal = refusals[fence]
                if isinstance(refusal, ClaimNotShown):
                    doubt = doubt or refusal
                    continue
                if refusal:
                    self._set_aside(each, refusal)
                    continue
                if fence > highest:  # those that come after it with an older one came too late
                    highest = fence
                    refusals.clear()
            admitted.append(each)
        if doubt:
            raise doubt
        return admitted

    def _refuse(self, run_id: str, fence: int, highest: int) -> Fenced | ClaimNotShown | None:
        if fence < highest:
            reason = f"a checkpoint with fence {highest} was saved before it"
            return Fenced(run_id, reason, fence=fence, current=highest)
        try:
            self.check(run_id, fence)
        except (Fenced, ClaimNotShown) as error:
            return error
        return None

    def _set_aside(self, each: StampedItem, refusal: Fenced) -> None:
        self.spool.set_aside(each.item, f"{TOO_LATE}{refusal}. Its state is kept here: holdfast spool export")
        log.error("checkpoint_fenced", checkpoint_id=each.item.checkpoint_id, cause=str(refusal))
