"""`claim.json`: who drives a run at the moment, and until when."""

from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.moments import epoch, format_moment
from holdfast.format.versions import FORMAT_VERSION, refuse_newer

NOTE = "claim/"
"""Begins the names of the notes that a spool keeps of claims; the run follows."""

TOO_LATE = "it came too late: "
"""Begins the reason why a checkpoint with an outdated fence was set aside."""


@dataclass(frozen=True, slots=True)
class Claim:
    """The right to drive a run, as it is stored. Moments are GitHub's, in seconds since the epoch.

    The token itself is known to its holder alone. A claim that was released keeps its fence: the next one
    must have a higher one.
    """

    run_id: str
    fence: int
    owner: str
    token_sha256: str
    ttl_s: float
    taken_at: float
    expires_at: float
    is_released: bool = False

    def to_bytes(self) -> bytes:
        """Return the file's content."""
        document: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "run_id": self.run_id,
            "fence": self.fence,
            "owner": self.owner,
            "token_sha256": self.token_sha256,
            "ttl_s": self.ttl_s,
            "taken_at": format_moment(self.taken_at),
            "expires_at": format_moment(self.expires_at),
            "released": self.is_released,
        }
        return orjson.dumps(document) + b"\n"


def fence_of_note(note: bytes | None) -> int:
    """Return the fence of the claim that a spool's note tells of; 0 if there is none."""
    return int(orjson.loads(note)["fence"]) if note else 0


def parse_claim(content: bytes, path: str, run_id: str) -> Claim:
    """Return the claim that a file holds. Raises IntegrityFailure, NewerFormat if it is a later one."""
    try:
        document = orjson.loads(content)
        refuse_newer(document, path)
        claim = Claim(
            run_id=str(document["run_id"]),
            fence=int(document["fence"]),
            owner=str(document["owner"]),
            token_sha256=str(document["token_sha256"]),
            ttl_s=float(document["ttl_s"]),
            taken_at=epoch(document["taken_at"]),
            expires_at=epoch(document["expires_at"]),
            is_released=bool(document["released"]),
        )
    except (ValueError, KeyError, TypeError) as error:
        raise IntegrityFailure(path, f"it is not a claim: {error!r}") from error
    if claim.run_id != run_id:
        raise IntegrityFailure(path, f"it is the claim of run {claim.run_id!r}")
    if claim.fence < 1 or not claim.expires_at:
        raise IntegrityFailure(path, "it is not a claim: its fence or its expires_at is none")
    return claim
