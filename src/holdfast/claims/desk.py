"""Where claims are taken, renewed and released: each answer of the judge is remembered on this machine."""

import hashlib
import secrets
from dataclasses import dataclass

from holdfast.claims.decide import LONGEST_TTL_S, SHORTEST_TTL_S, Wish
from holdfast.claims.known import KnownClaims
from holdfast.claims.lease import ClaimLease, Judge
from holdfast.errors import InvalidCheckpoint
from holdfast.format.claim import Claim
from holdfast.logs import log

_MOST_OWNER = 256


@dataclass(frozen=True, slots=True)
class TakenClaim:
    """A claim that was just taken, and the token that only its holder knows."""

    token: str
    lease: ClaimLease

    @property
    def claim(self) -> Claim:
        """Return it as it is stored."""
        return self.lease.claim


@dataclass(frozen=True)
class ClaimDesk:
    """Takes, renews and releases claims, and tells which fences are outdated."""

    judge: Judge
    known: KnownClaims

    def take(self, run_id: str, owner: str, ttl_s: float) -> TakenClaim:
        """Return a claim that is ours until it ends. Raises Claimed, InvalidCheckpoint, GatewayError."""
        token = secrets.token_urlsafe(24)
        wish = Wish(
            run_id, check_owner_name(owner), digest(token), check_ttl(ttl_s), self.known.seen_fence(run_id)
        )
        lease = self.judge.take(wish)
        self.known.learn_own(lease)
        self.known.forget_ended()
        return TakenClaim(token, lease)

    def renew(
        self, run_id: str, token: str, ttl_s: float | None = None, known: ClaimLease | None = None
    ) -> ClaimLease:
        """Return the claim with a new end. Raises Fenced if it is not ours any more, GatewayError."""
        if ttl_s is None:
            claim = known.claim if known else self.judge.look(run_id)
            ttl_s = claim.ttl_s if claim else SHORTEST_TTL_S
        lease = self.judge.renew(run_id, digest(token), check_ttl(ttl_s), known)
        self.known.learn_own(lease)
        return lease

    def release(self, run_id: str, token: str, known: ClaimLease | None = None) -> bool:
        """End a claim; return whether it was ours until now. Raises GatewayError."""
        claim = self.judge.release(run_id, digest(token), known)
        if claim is None:
            log.warning("claim_lost", run_id=run_id, cause="someone else had taken the run over")
            return False
        self.known.learn(claim, is_ours=True)
        return True

    def check_idle(self, run_id: str) -> None:
        """Raise Claimed while someone drives the run, as the judge says now."""
        self.judge.check_idle(run_id)

    def check(self, run_id: str, fence: int) -> None:
        """Raise Fenced if the run was taken over on another machine, as the judge says now."""
        self.known.check(run_id, fence, self.judge.look)


def digest(token: str) -> str:
    """Return what is stored of a token. Raises InvalidCheckpoint."""
    if not isinstance(token, str):
        raise InvalidCheckpoint("token", "it is not a text, as the one that came with the claim is")
    return hashlib.sha256(token.encode(errors="surrogatepass")).hexdigest()


def check_ttl(ttl_s: float) -> float:
    """Return for how long a claim may last. Raises InvalidCheckpoint."""
    if isinstance(ttl_s, bool) or not isinstance(ttl_s, int | float):
        raise InvalidCheckpoint("ttl_s", f"{ttl_s!r} is not a number of seconds")
    if not SHORTEST_TTL_S <= ttl_s <= LONGEST_TTL_S:
        raise InvalidCheckpoint(
            "ttl_s", f"{ttl_s!r} is not between {SHORTEST_TTL_S:g} and {LONGEST_TTL_S:g} s"
        )
    return float(ttl_s)


def check_owner_name(owner: str) -> str:
    """Return who wants a claim. Raises InvalidCheckpoint."""
    if not isinstance(owner, str) or not owner.strip() or len(owner) > _MOST_OWNER or not owner.isprintable():
        raise InvalidCheckpoint("owner", f"{owner!r} is no name of 1 to {_MOST_OWNER} characters")
    return owner
