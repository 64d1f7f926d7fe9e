"""Runs that only one process drives at a time."""

import os
import socket
from typing import TYPE_CHECKING

from holdfast.claims.decide import DEFAULT_TTL_S
from holdfast.library.open_library import parse_run_name
from holdfast.library.saving import Saving

if TYPE_CHECKING:
    from holdfast.claims.desk import ClaimDesk, TakenClaim
    from holdfast.claims.holding import HeldClaim
    from holdfast.claims.lease import ClaimLease


FENCE_VARIABLE = "HOLDFAST_FENCE"
"""The variable by which the commands of a job learn the fence of the claim that the job holds."""


class Claiming(Saving):
    """Claims: the right to drive a run, with GitHub as the judge, or the shared database."""

    def claim(self, run_id: str, *, owner: str | None = None, ttl_s: float = DEFAULT_TTL_S) -> "HeldClaim":
        """Be the only one that drives a run, until the claim is released: use it with `with`.

        It renews itself in the background, twice in `ttl_s`; meanwhile what is saved here for the run carries
        its fence. `owner` is shown to others; this machine and process unless given. Raises Claimed while
        someone else holds the run, GatewayError (Throttled with the time to wait) when GitHub cannot judge.
        """
        from holdfast.claims.holding import HeldClaim

        taken = self.take_claim(run_id, owner=owner, ttl_s=ttl_s)

        def end(claim: "HeldClaim") -> None:
            if self._held.get(claim.run_id) is claim:
                del self._held[claim.run_id]

        held = HeldClaim(self._desk(run_id), taken, on_end=end)
        self._held[held.run_id] = held
        return held.start()

    def take_claim(
        self, run_id: str, *, owner: str | None = None, ttl_s: float = DEFAULT_TTL_S
    ) -> "TakenClaim":
        """Take a claim that nobody renews but its caller, with `renew_claim`. Raises like `claim`."""
        desk = self._desk(run_id)
        name = owner if owner is not None else f"{socket.gethostname()}:{os.getpid()}"
        # Both are stored as they are, also in the message of a commit.
        for field, text in (("run_id", run_id), ("owner", name)):
            self._assembly.redactor.check_name(field, text)
        return desk.take(run_id, name, ttl_s)

    def renew_claim(self, run_id: str, token: str, *, ttl_s: float | None = None) -> "ClaimLease":
        """Let a claim last longer. Raises Fenced if it is not the token's any more, GatewayError."""
        return self._desk(run_id).renew(run_id, token, ttl_s)

    def release_claim(self, run_id: str, token: str) -> bool:
        """End a claim; return whether it was the token's until now. Raises GatewayError."""
        return self._desk(run_id).release(run_id, token)

    def carry_fence(self, run_id: str, fence: int) -> None:
        """Let what is saved here for a run carry the fence of a claim that is renewed elsewhere."""
        self._fences[run_id] = fence

    def _desk(self, run_id: str) -> "ClaimDesk":
        return self._assembly.home(parse_run_name(run_id)).claims

    def close(self) -> None:
        """Release what is still claimed, and close every file and connection."""
        for held in list(self._held.values()):
            held.release()
        super().close()
