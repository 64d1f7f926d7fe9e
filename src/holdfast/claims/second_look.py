"""A fence that no claim has, as it seems, is looked at twice: GitHub may show an old claim for a moment."""

from collections.abc import Callable
from dataclasses import dataclass

import orjson

from holdfast.format.claim import Claim
from holdfast.queue import Queue

SECOND_LOOK_AFTER_S = 30.0
"""No GitHub was ever seen to show for longer what it was before a write."""

_NOTE = "doubt/"
# A fence that was in doubt and never came again: its checkpoint was deleted, or went elsewhere.
_KEEP_S = 7 * 24 * 3600.0


@dataclass(frozen=True, slots=True)
class Doubts:
    """Since when the judge has shown an older claim than that of a checkpoint, as notes beside the queue.

    A drain is often a process of its own, so that its memory would end before the second look.
    """

    spool: Queue
    now: Callable[[], float]

    def has_lasted(self, current: Claim, fence: int) -> bool:
        """Whether an earlier look, long enough ago, has shown the same claim. The first one is remembered."""
        name = _name(current.run_id, fence)
        if first := self.spool.notes().get(name):
            shown, since = orjson.loads(first)
            if shown == current.fence and since <= self.now():
                return bool(self.now() - since >= SECOND_LOOK_AFTER_S)
        self.spool.note(name, orjson.dumps((current.fence, self.now())))
        return False

    def settle(self, run_id: str, fence: int) -> None:
        """Forget a doubt, as the judge has shown the claim with this fence."""
        if (name := _name(run_id, fence)) in self.spool.notes():
            self.spool.forget(name)

    def forget_old(self) -> None:
        """Drop what was looked at once, long ago."""
        began = {name: orjson.loads(note)[1] for name, note in self.spool.notes().items() if _is_ours(name)}
        if old := [name for name, since in began.items() if since < self.now() - _KEEP_S]:
            self.spool.forget(*old)


def _name(run_id: str, fence: int) -> str:
    return f"{_NOTE}{run_id}/{fence}"


def _is_ours(name: str) -> bool:
    return name.startswith(_NOTE)
