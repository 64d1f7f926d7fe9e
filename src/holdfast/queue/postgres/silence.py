"""A server that says nothing: for how long that is borne, and who asks it again.

A server that froze looks alive from here. Its kernel goes on acknowledging packets, so that no limit of TCP's
ends the wait, and what limits a statement there stands still with it. What is watched here is not how long a
statement takes, but for how long nothing of it came or went: large bodies and long lists may take their time.
"""

import time
from collections.abc import Callable, Generator
from typing import Any, NamedTuple, TypeVar

import psycopg
from psycopg.abc import PQGen
from psycopg.waiting import Ready

from holdfast.queue.postgres import statements

RV = TypeVar("RV")

# A server that has just been found silent is not asked again for so long by everyone who comes.
HOLD_OFF_S = 1.0
_MARGIN_S = 2.0
_SLOW_S = 0.5


class SilenceLimits(NamedTuple):
    """For how long a server may say nothing: usually, and amid work on many rows."""

    usual_s: float
    long_s: float


# More than a server that lives lets a statement wait for a lock, or work.
SILENCE_LIMITS = SilenceLimits(
    statements.LOCK_TIMEOUT_S + _MARGIN_S, statements.STATEMENT_TIMEOUT_S + _MARGIN_S
)


class ServerSilent(psycopg.OperationalError):
    """Nothing came from the server for too long. What it was asked to do may be done, or still be."""


class Hearing:
    """What this process has last heard of a server, or that it has heard nothing."""

    def __init__(self, limits: SilenceLimits, now: Callable[[], float] = time.monotonic) -> None:
        self._limits = limits
        self._now = now
        self._failure = ""
        self._held_off_until = float("-inf")

    def limit_s(self, *, is_long: bool) -> float:
        """Return how long it may say nothing: no longer than usually where others heard nothing either."""
        return self._limits.long_s if is_long and not self._failure else self._limits.usual_s

    def check(self, most_s: float) -> None:
        """Return to one who may then ask for `most_s`. Raises OperationalError to others meanwhile."""
        if not self._failure:
            return
        if self._now() < self._held_off_until:
            raise psycopg.OperationalError(self._failure)
        self._held_off_until = self._now() + most_s

    def note_failure(self, error: psycopg.Error, took_s: float = 0.0) -> None:
        """Note that it failed to answer. One that fails at once costs no time, and is asked again at once."""
        if took_s >= _SLOW_S or isinstance(error, ServerSilent):
            self._failure = str(error)
            self._held_off_until = self._now() + HOLD_OFF_S

    def note_connection(self) -> None:
        """Note that it took a connection: who has that finds out alone whether it still says nothing."""
        self._held_off_until = self._now() + self._limits.usual_s

    def note_answer(self) -> None:
        """Note that it says something."""
        self._failure = ""


class WatchedConnection(psycopg.Connection[Any]):
    """A connection that is closed once its server was silent for too long."""

    hearing = Hearing(SILENCE_LIMITS)
    is_long = False
    """Whether what is asked may keep the server busy for long before it says anything."""

    def wait(self, gen: PQGen[RV], *arguments: Any, **named: Any) -> RV:
        """Return what comes of `gen`, as the driver does. Raises ServerSilent."""
        try:
            return super().wait(self._watch(gen), *arguments, **named)
        except ServerSilent as error:
            self.hearing.note_failure(error)
            self.close()
            raise

    def _watch(self, gen: PQGen[RV]) -> "Generator[Any, Any, RV]":
        heard_at = time.monotonic()
        try:
            wanted = next(gen)
            while True:
                # The driver comes back ten times a second, also with nothing: from 3.2.13 on.
                ready = yield wanted
                if ready:
                    heard_at = time.monotonic()
                    if ready & Ready.R:
                        self.hearing.note_answer()
                else:
                    self._check(time.monotonic() - heard_at)
                wanted = gen.send(ready)
        except StopIteration as end:
            result: RV = end.value
            return result

    def _check(self, silent_s: float) -> None:
        limit_s = self.hearing.limit_s(is_long=self.is_long)
        if silent_s >= limit_s:
            raise ServerSilent(f"it has said nothing for {limit_s:g} s")
