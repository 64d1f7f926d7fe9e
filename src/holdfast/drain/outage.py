"""What keeps the whole spool from draining, in words for a person, and when it is worth trying again."""

from collections.abc import Set
from dataclasses import asdict, dataclass

import orjson

from holdfast.drain.notes import OUTAGE_NOTE, read_note
from holdfast.errors import GatewayError, Refused

UNAVAILABLE = "unavailable"

_LONGEST_PAUSE_WITHOUT_ANSWER_S = 30.0
# From this many failures on GitHub is down, not stumbling.
_FAILURES_UNTIL_DOWN = 5
# How long to stay away when only a person can help. A new token is noticed at once, whatever this says.
_PAUSES_S = {"auth": 60.0, "permission": 120.0}
_LONG_PAUSE_S = 600.0

_PROBED_FIRST = frozenset({UNAVAILABLE, "auth", "not_found_or_no_access"})


@dataclass(frozen=True, slots=True)
class Outage:
    """One reason why nothing is written at present. `credentials` tells which token it befell."""

    kind: str
    reason: str
    advice: str
    since: float
    retry_at: float
    failures: int = 1
    credentials: str = ""

    @property
    def sentence(self) -> str:
        """Return what is wrong and what to do."""
        return f"{self.reason}. {self.advice}" if self.advice else self.reason

    @property
    def is_probed_first(self) -> bool:
        """Whether one small question tells that it is over, so that no write has to."""
        return self.kind in _PROBED_FIRST

    def applies(self, now: float, credentials: str) -> bool:
        """Whether it is too early to try again; a new token is worth a try at any time."""
        return self.wait_s(now) > 0 and self.credentials == credentials

    def wait_s(self, now: float) -> float:
        """Return how long to stay away; 0 if that is longer than any pause: the clock was set back."""
        wait_s = self.retry_at - now
        return wait_s if 0 < wait_s <= _LONG_PAUSE_S else 0.0

    def to_bytes(self) -> bytes:
        """Return the note's content."""
        return orjson.dumps(asdict(self))


def parse_outage(content: bytes | None) -> Outage | None:
    """Return the outage that a note holds, if there is one. Raises SpoolUnwritable for a newer format."""
    return read_note(Outage, OUTAGE_NOTE, content) if content else None


def outage_after(
    error: GatewayError, before: Outage | None, *, now: float, jitter: float, credentials: str
) -> Outage:
    """Return how to go on after `error`. `jitter` is a random number from 0 to 1.

    If GitHub does not answer, the pauses grow to half a minute; if it refuses, they are long from the start.
    """
    kind = error.kind if isinstance(error, Refused) else UNAVAILABLE
    is_same = before is not None and before.kind == kind
    failures = before.failures + 1 if before and is_same else 1
    pause_s = (
        _pause_without_answer_s(failures, jitter)
        if kind == UNAVAILABLE
        else _PAUSES_S.get(kind, _LONG_PAUSE_S)
    )
    return Outage(
        kind=kind,
        reason=str(error),
        advice=error.advice if isinstance(error, Refused) else "Nothing is lost; GitHub is asked again.",
        since=before.since if before and is_same else now,
        retry_at=now + pause_s,
        failures=failures,
        credentials=credentials,
    )


def _pause_without_answer_s(failures: int, jitter: float) -> float:
    if failures >= _FAILURES_UNTIL_DOWN:
        return _LONGEST_PAUSE_WITHOUT_ANSWER_S
    return float(2.0**failures * jitter)


@dataclass(frozen=True, slots=True)
class RateBlock:
    """A limit that leaves no room for a while, and the token and critical checkpoints it was found with.

    A plan may see room where a part of its work finds none: without this it would be tried again and again.
    """

    since: float
    until: float
    reason: str
    credentials: str
    critical: Set[str]

    def applies(self, now: float, credentials: str, critical: Set[str]) -> bool:
        """Whether it still holds: its time is not over, the token is the same, and nothing critical is new.

        It does not where the clock was set back: then nobody knows how long ago that was.
        """
        return (
            self.since <= now < self.until and self.credentials == credentials and critical <= self.critical
        )
