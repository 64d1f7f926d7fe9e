"""Checkpoints that come after their run was taken over: set aside, with the reason, and never lost."""

from collections.abc import Callable
from dataclasses import dataclass

from holdfast.drain.stamping import StampedItem
from holdfast.errors import Fenced
from holdfast.format.index import highest_fence
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.logs import log
from holdfast.queue import Queue

Admit = Callable[[RunSnapshot, list[StampedItem]], list[StampedItem]]
"""Tells which checkpoints may become part of a run, in the order given."""


def admit_all(_view: RunSnapshot, stamped: list[StampedItem]) -> list[StampedItem]:
    """Return all of them: nobody claims anything."""
    return stamped


@dataclass(frozen=True, slots=True)
class FenceGate:
    """Lets only those checkpoints pass whose fence is not outdated. One without a fence always passes.

    `check` raises Fenced if the run was taken over elsewhere. It asks the judge, so it is asked only where a
    checkpoint has a fence.
    """

    spool: Queue
    check: Callable[[str, int], None]

    def __call__(self, view: RunSnapshot, stamped: list[StampedItem]) -> list[StampedItem]:
        """Return those that may be written; the others are set aside."""
        fences = [each.envelope.header.fence for each in stamped if each.envelope.header.fence]
        if not fences:
            return stamped
        refusals = {fence: self._refuse(view, fence) for fence in set(fences)}
        return [each for each in stamped if self._admits(each, refusals)]

    def _refuse(self, view: RunSnapshot, fence: int) -> Fenced | None:
        stored = highest_fence(view.index.all_entries)
        if fence < stored:
            reason = f"checkpoints with fence {stored} are stored already"
            return Fenced(view.run_id, reason, fence=fence, current=stored)
        try:
            self.check(view.run_id, fence)
        except Fenced as error:
            return error
        return None

    def _admits(self, each: StampedItem, refusals: dict[int, Fenced | None]) -> bool:
        refusal = refusals.get(each.envelope.header.fence or 0)
        if refusal is None or each.envelope.checkpoint_id is None:
            return True
        self.spool.set_aside(each.item, f"{refusal}. Its state is kept here: holdfast spool export")
        log.error("checkpoint_fenced", checkpoint_id=each.item.checkpoint_id, cause=str(refusal))
        return False
