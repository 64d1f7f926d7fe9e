"""The shared database as the judge: the same decisions, under a lock on the run's row, by its clock."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING

from holdfast.claims.decide import Wish, decide_release, decide_renewal, decide_take, refuse_living
from holdfast.claims.lease import ClaimLease
from holdfast.claims.server_time import DateReading
from holdfast.clock import Clock, Stopwatch
from holdfast.errors import DatabaseAway, Unavailable
from holdfast.format.claim import Claim, parse_claim

if TYPE_CHECKING:
    from holdfast.queue.postgres.claim_table import ClaimTable

Decide = Callable[[Claim | None, float], Claim]


@dataclass(frozen=True)
class DatabaseJudge:
    """Keeps claims in PostgreSQL, where several machines share a queue: they cost no request to GitHub.

    `highest_fence` tells what the stored checkpoints of a run carry that was never claimed here.
    """

    table: "ClaimTable"
    clock: Clock
    highest_fence: Callable[[str], int]

    def take(self, wish: Wish) -> ClaimLease:
        """Return the claim that is now ours. Raises Claimed, Unavailable if the database is away."""
        highest = 0 if self.look(wish.run_id) else self.highest_fence(wish.run_id)
        return self._change(
            wish.run_id, lambda stored, now: decide_take(stored, wish, now, highest_fence=highest)
        )

    def renew(
        self, run_id: str, token_sha256: str, ttl_s: float, known: ClaimLease | None = None
    ) -> ClaimLease:
        """Return the claim with a new end. Raises Fenced, Unavailable."""
        del known  # the row is read where it is locked
        return self._change(
            run_id, lambda stored, now: decide_renewal(stored, run_id, token_sha256, now, ttl_s)
        )

    def release(self, run_id: str, token_sha256: str, known: ClaimLease | None = None) -> Claim | None:
        """End the claim. Raises Unavailable."""
        del known
        found = self.look(run_id)
        if found is None or found.token_sha256 != token_sha256:
            return None
        ended = self._change(
            run_id, lambda stored, now: decide_release(stored, token_sha256, now) or stored or found
        )
        return ended.claim if ended.claim.token_sha256 == token_sha256 else None

    def look(self, run_id: str) -> Claim | None:
        """Return the newest claim of a run. Raises Unavailable."""
        return self._read(run_id)[0]

    def check_idle(self, run_id: str) -> None:
        """Raise Claimed while someone drives the run, Unavailable."""
        refuse_living(*self._read(run_id))

    def _read(self, run_id: str) -> tuple[Claim | None, float]:
        """Return the newest claim of a run, and what time it is in the database. Raises Unavailable."""
        try:
            record, now = self.table.read(run_id)
        except DatabaseAway as error:
            raise _away(error) from error
        return _parse(record, run_id), now

    def _change(self, run_id: str, decide: Decide) -> ClaimLease:
        asked = Stopwatch(self.clock)

        def change(record: bytes, now: float) -> tuple[bytes, Claim]:
            claim = decide(_parse(record, run_id), now)
            return claim.to_bytes(), claim

        try:
            claim, now = self.table.change(run_id, change)
        except DatabaseAway as error:
            raise _away(error) from error
        return ClaimLease(claim, DateReading(now, asked, Stopwatch(self.clock)))


def _parse(record: bytes, run_id: str) -> Claim | None:
    return parse_claim(record, "holdfast_claim", run_id) if record else None


def _away(error: DatabaseAway) -> Unavailable:
    return Unavailable("", f"who drives a run is decided in the database, and it is away: {error}")
