"""A claim as its holder knows it, and what a judge of claims can be asked."""

from dataclasses import dataclass
from typing import Protocol

from holdfast.claims.decide import HOLDER_MARGIN_S, Wish
from holdfast.claims.server_time import DateReading
from holdfast.format.claim import Claim


@dataclass(frozen=True, slots=True)
class ClaimLease:
    """A claim that was seen to be stored, and when that was by the judge's time.

    `blob_sha` is the file that holds it, where it lies in one.
    """

    claim: Claim
    reading: DateReading
    blob_sha: str = ""

    @property
    def is_alive(self) -> bool:
        """Whether nobody else can have taken the run, however wrong this machine's clock is."""
        return self.reading.latest() + HOLDER_MARGIN_S < self.claim.expires_at


class Judge(Protocol):
    """Who decides which process drives a run. Every method raises when the judge cannot be reached."""

    def take(self, wish: Wish) -> ClaimLease:
        """Return the claim that is now ours. Raises Claimed."""
        ...

    def renew(
        self, run_id: str, token_sha256: str, ttl_s: float, known: ClaimLease | None = None
    ) -> ClaimLease:
        """Return the claim with a new end. Raises Fenced if it is not ours any more.

        `known` is how it was last seen, which spares reading it.
        """
        ...

    def release(self, run_id: str, token_sha256: str, known: ClaimLease | None = None) -> Claim | None:
        """End the claim; return it as it is stored then, None if it was not ours any more."""
        ...

    def look(self, run_id: str) -> Claim | None:
        """Return the newest claim of a run, whether or not it has ended; None if there never was one."""
        ...

    def check_idle(self, run_id: str) -> None:
        """Raise Claimed while someone drives the run, by the judge's own time."""
        ...
