"""Who holds a run, who may take it, and what is outdated: nothing but decisions.

Every `now` is the judge's time in seconds since the epoch, and not later than it really is.
"""

from dataclasses import replace
from typing import NamedTuple

from holdfast.errors import Claimed, ClaimNotShown, DecisionRefused, Fenced
from holdfast.format.claim import Claim
from holdfast.format.paths import MAX_SEQUENCE

DEFAULT_TTL_S = 300.0
"""How long a claim lasts unless it is renewed: at two renewals in that time, 24 writes an hour."""

SHORTEST_TTL_S = 5.0
LONGEST_TTL_S = 24 * 3600.0

GRACE_S = 1.0
"""How long after its end a claim is left to its holder: servers of one service differ by that at most."""

HOLDER_MARGIN_S = 1.0
"""How much earlier its holder lets go: GitHub's `Date` has whole seconds, so it may be almost one behind."""

RENEWALS_IN_TTL = 2


class Wish(NamedTuple):
    """Someone asks for a run: `token_sha256` is the digest of what only they will know.

    Their machine has seen `seen_fence`, so that theirs must be higher.
    """

    run_id: str
    owner: str
    token_sha256: str
    ttl_s: float
    seen_fence: int = 0


def is_living(claim: Claim | None, now: float) -> bool:
    """Whether someone holds the run."""
    return claim is not None and not claim.is_released and now < claim.expires_at + GRACE_S


def refuse_living(claim: Claim | None, now: float) -> None:
    """Raise Claimed while someone holds the run."""
    if claim and is_living(claim, now):
        left_s = claim.expires_at + GRACE_S - now
        raise Claimed(claim.run_id, claim.owner, claim.expires_at, left_s=left_s)


def decide_take(stored: Claim | None, wish: Wish, now: float, *, highest_fence: int = 0) -> Claim:
    """Return the claim that is to be stored. Raises Claimed while someone else holds it, DecisionRefused.

    Our own claim is found there if the answer to an earlier attempt was lost: it stays as it is, unless much
    of its time has run out by then.
    `highest_fence` is what the checkpoints of the run carry, for a run whose claim was lost.
    """
    if stored and stored.token_sha256 == wish.token_sha256 and not stored.is_released:
        is_fresh = stored.expires_at - now > wish.ttl_s / 2
        return stored if is_fresh else replace(stored, expires_at=now + wish.ttl_s)
    refuse_living(stored, now)
    fence = max(stored.fence if stored else 0, highest_fence, wish.seen_fence) + 1
    if fence > MAX_SEQUENCE:  # someone has made one up: what carried a higher one could not be stored
        reason = (
            f"run {wish.run_id!r} has a checkpoint with the highest fence there is; fork it, and claim that"
        )
        raise DecisionRefused("fences_used_up", reason)
    return Claim(
        run_id=wish.run_id,
        fence=fence,
        owner=wish.owner,
        token_sha256=wish.token_sha256,
        ttl_s=wish.ttl_s,
        taken_at=now,
        expires_at=now + wish.ttl_s,
    )


def decide_renewal(stored: Claim | None, run_id: str, token_sha256: str, now: float, ttl_s: float) -> Claim:
    """Return the claim with a new end. Raises Fenced unless the token is that of the newest claim.

    One whose time has run out may be renewed as long as nobody else has taken the run. Its end is never put
    forward unless it is to last for another time: its holder may not get the answer, and rely on the old one.
    """
    if stored is None or stored.token_sha256 != token_sha256 or stored.is_released:
        raise lost(run_id, stored)
    expires_at = now + ttl_s
    if ttl_s == stored.ttl_s:
        expires_at = max(expires_at, stored.expires_at)
    return replace(stored, ttl_s=ttl_s, expires_at=expires_at)


def decide_release(stored: Claim | None, token_sha256: str, now: float) -> Claim | None:
    """Return the claim as it is to be stored at its end; None if it is not ours any more, or released."""
    if stored is None or stored.token_sha256 != token_sha256 or stored.is_released:
        return None
    return replace(stored, expires_at=min(stored.expires_at, now), is_released=True)


def lost(run_id: str, stored: Claim | None, fence: int = 0) -> Fenced:
    """Return the error of whoever drives a run that is not theirs any more."""
    if stored is None:
        return Fenced(run_id, "its claim is gone; claim the run again", fence=fence)
    if stored.is_released:
        reason = f"the claim with fence {stored.fence} was released; claim the run again"
    else:
        reason = f"{stored.owner!r} has taken it over, with fence {stored.fence}"
    return Fenced(run_id, reason, fence=fence, current=stored.fence)


def made_up(current: Claim, fence: int) -> Fenced:
    """Return the error of whoever names a fence that was given to nobody."""
    reason = f"no claim has that fence: {current.owner!r} drives it, with fence {current.fence}"
    return Fenced(current.run_id, reason, fence=fence, current=current.fence)


def not_shown(current: Claim, fence: int) -> ClaimNotShown:
    """Return the error where a fence was given to nobody, unless the judge shows what was before."""
    shown = f"{current.owner!r} drives it, with fence {current.fence}"
    return ClaimNotShown(current.run_id, f"no claim with fence {fence} is shown yet: {shown}")
