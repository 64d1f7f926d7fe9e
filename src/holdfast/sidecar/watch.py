"""Looks at spool and budget every few seconds: for the picture of the last hour, and for events."""

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.errors import HoldfastError

LOOK_EVERY_S = 5.0
# An hour.
KEPT = 720


@dataclass(frozen=True, slots=True)
class Sample:
    """How things stood at one moment; `verified` counts from the start of the process."""

    at: float
    depth: int
    oldest_age_s: float
    verified: int
    remaining: int | None
    is_low: bool
    outage: str | None


def sample_of(status: Mapping[str, Any], at: float, verified: int) -> Sample:
    """Return what a status says, in short."""
    spool, budget = status["spool"], status["budget"]
    return Sample(
        at=at,
        depth=spool["depth"],
        oldest_age_s=spool["oldest_age_s"],
        verified=verified,
        remaining=budget["last_remaining"],
        is_low=bool(budget["is_low"]),
        outage=status["last_error"],
    )


def changes_between(before: Sample | None, now: Sample) -> Iterator[tuple[str, dict[str, Any]]]:
    """Yield the events that a change from one sample to the next stands for."""
    if before is None:
        return
    if now.outage != before.outage:
        yield "outage", {"sentence": now.outage, "is_over": now.outage is None}
    if (now.remaining, now.is_low) != (before.remaining, before.is_low):
        yield "budget", {"remaining": now.remaining, "is_low": now.is_low}
    # What is drained here is told as it happens; this is what another process has drained.
    if before.depth and not now.depth and now.verified == before.verified:
        yield "drained", {"depth": 0}


class Watch:
    """Keeps the samples of the last hour."""

    def __init__(
        self,
        look: Callable[[], Awaitable[Mapping[str, Any]]],
        count_verified: Callable[[], int],
        publish: Callable[[str, Mapping[str, Any]], None],
        now: Callable[[], float],
    ) -> None:
        self._look = look
        self._count_verified = count_verified
        self._publish = publish
        self._now = now
        self.samples: deque[Sample] = deque(maxlen=KEPT)

    async def run(self) -> None:
        """Look until this is cancelled."""
        while True:
            await self.look()
            await asyncio.sleep(LOOK_EVERY_S)

    async def look(self) -> None:
        """Look once; a spool that cannot be read just now is looked at the next time."""
        try:
            status = await self._look()
        except HoldfastError:
            return
        sample = sample_of(status, self._now(), self._count_verified())
        for kind, data in changes_between(self.samples[-1] if self.samples else None, sample):
            self._publish(kind, data)
        self.samples.append(sample)
