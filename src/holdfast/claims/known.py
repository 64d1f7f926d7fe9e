"""What this machine knows of claims, kept as notes beside the queue: a save never waits for the judge."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, replace

import orjson

from holdfast.claims.decide import is_living, lost, made_up, not_shown
from holdfast.claims.lease import ClaimLease
from holdfast.claims.second_look import Doubts
from holdfast.errors import DatabaseAway, Fenced
from holdfast.format.claim import NOTE, Claim
from holdfast.queue import Queue

# For this long after its end a note of a claim is worth keeping; the repository knows its fence, too.
_KEEP_S = 24 * 3600.0


@dataclass(frozen=True, slots=True)
class KnownClaim:
    """The newest claim of a run that was heard of here. `is_ours` if it was taken through this queue.

    When it ends is known only of those: others are renewed elsewhere.
    """

    run_id: str
    fence: int
    is_ours: bool
    owner: str = ""
    expires_at: float | None = None
    is_released: bool = False
    heard_at: float = 0.0

    def excludes(self, fence: int, now: float) -> bool:
        """Whether this is the fence of no claim: while this one lasts, nobody is given a higher one."""
        is_in_force = self.is_ours and not self.is_released and now < (self.expires_at or 0.0)
        return is_in_force and fence > self.fence

    def check(self, fence: int, now: float) -> None:
        """Raise Fenced if the holder with this fence does not drive the run any more."""
        if fence < self.fence:
            whose = (
                f"{self.owner!r} has taken it over, with" if self.owner else "there is a newer claim, with"
            )
            raise Fenced(self.run_id, f"{whose} fence {self.fence}", fence=fence, current=self.fence)
        if fence > self.fence:
            return
        if self.is_released:
            raise Fenced(self.run_id, "its claim was released", fence=fence, current=self.fence)
        if self.is_ours and self.expires_at is not None and now >= self.expires_at:
            reason = "its claim has run out; renew it, or claim the run again"
            raise Fenced(self.run_id, reason, fence=fence, current=self.fence)


class KnownClaims:
    """The claims that this machine knows. `now` tells GitHub's time, as far as it is known here."""

    def __init__(self, spool: Queue, now: Callable[[], float]) -> None:
        self._spool = spool
        self.now = now
        self._doubts = Doubts(spool, now)

    def learn_own(self, lease: ClaimLease) -> None:
        """Remember a claim that was taken or renewed here. The judge's clock may be another than `now`."""
        left_s = lease.claim.expires_at - lease.reading.latest()
        self.learn(replace(lease.claim, expires_at=self.now() + left_s), is_ours=True)

    def learn(self, claim: Claim, *, is_ours: bool) -> None:
        """Remember a claim that the judge has told of."""
        known = KnownClaim(
            claim.run_id, claim.fence, is_ours, claim.owner, claim.expires_at, claim.is_released
        )
        self._note(known)

    def admit(self, run_id: str, fence: int) -> None:
        """Raise Fenced if a checkpoint with this fence comes too late, as far as that is known here.

        A fence that is heard of for the first time is remembered; not if it was made up, as that would lock
        out the holder. It may also be that our claim was released elsewhere, so that this is left to `check`.
        """
        known = self.find(run_id)
        if known is not None:
            known.check(fence, self.now())
            if known.excludes(fence, self.now()):
                return
        if known is None or fence > known.fence:
            self.forget_ended()
            self._note(KnownClaim(run_id, fence, is_ours=False))

    def check(self, run_id: str, fence: int, look: Callable[[str], Claim | None]) -> None:
        """Raise Fenced if the run was taken over on another machine, or no claim has the fence.

        `look` asks the judge. What was saved here before the run was taken over here is the new holder's
        past, and stays. Raises ClaimNotShown if no claim has the fence by the first look: GitHub may show an
        old one for a moment.
        """
        current = look(run_id)
        if current is None:
            return
        if fence == current.fence:
            self._doubts.settle(run_id, fence)
            return
        known = self.find(run_id)
        if fence > current.fence:
            is_late = known is not None and known.is_ours and known.fence >= fence
            if is_late or not is_living(current, self.now()):
                return  # the judge's answer is from before a claim that was taken since
            if known and known.fence == fence:
                self._spool.forget(NOTE + run_id)  # a save has left it: it would keep the holder out
            if not self._doubts.has_lasted(current, fence):
                raise not_shown(current, fence)
            raise made_up(current, fence)
        if known and known.is_ours and known.fence == current.fence:
            return
        self.learn(current, is_ours=False)
        raise lost(run_id, current, fence)

    def find(self, run_id: str) -> KnownClaim | None:
        """Return what is known of the newest claim of a run."""
        return _parse(self._spool.notes().get(NOTE + run_id))

    def left_s(self, run_id: str) -> float:
        """Return for how much longer the newest claim of a run lasts; 0 if that is not known."""
        known = self.find(run_id)
        return known.expires_at - self.now() if known and known.expires_at else 0.0

    def seen_fence(self, run_id: str) -> int:
        """Return the highest fence that was heard of here; 0 if there is none, or the database is away."""
        with suppress(DatabaseAway):
            if known := self.find(run_id):
                return known.fence
        return 0

    def forget_ended(self) -> None:
        """Drop the notes of claims that ended long ago."""
        self._doubts.forget_old()
        ended_by = self.now() - _KEEP_S
        known = {name: _parse(note) for name, note in self._spool.notes().items() if name.startswith(NOTE)}
        ended = [name for name, each in known.items() if each and _has_ended(each, ended_by)]
        if ended:
            self._spool.forget(*ended)

    def _note(self, known: KnownClaim) -> None:
        before = self.find(known.run_id)
        if before and before.fence > known.fence:
            return  # told late: whoever learned of it was frozen meanwhile
        heard = replace(known, heard_at=self.now())
        self._spool.note(NOTE + known.run_id, orjson.dumps(asdict(heard)))


def _has_ended(known: KnownClaim, moment: float) -> bool:
    # Of a claim whose end nobody here knows, every checkpoint with its fence tells anew.
    return (known.heard_at if known.expires_at is None else known.expires_at) < moment


def _parse(note: bytes | None) -> KnownClaim | None:
    if note is None:
        return None
    members = orjson.loads(note)
    return KnownClaim(**{name: members[name] for name in KnownClaim.__slots__ if name in members})
