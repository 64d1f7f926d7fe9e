"""A world with one clock, in which several actors take turns and time passes only while all of them wait.

Every actor is a thread, but only one runs at a time: whoever sleeps hands over to the one that wakes first.
So a schedule is the same each time it is played, down to the order of single requests.
"""

import threading
from collections.abc import Callable, Mapping

MOST_NAPS = 60_000


class Endless(AssertionError):
    """The actors would go on for ever."""


class _Cancelled(BaseException):
    """The play is over; unwinds an actor that still waits."""


class _Actor:
    def __init__(self, name: str, body: Callable[[], None], wakes_at: tuple[float, int]) -> None:
        self.name = name
        self.body = body
        self.wakes_at = wakes_at
        self.turn = threading.Semaphore(0)
        self.error: BaseException | None = None
        self.is_done = False


class Simulation:
    """A clock for everything in the world, and the stage on which actors `run`."""

    def __init__(self, now: float = 1_800_000_000.0) -> None:
        self.time = now
        self._naps = 0
        self._actors: list[_Actor] = []
        self._stage = threading.Semaphore(0)
        self._is_cancelled = False
        self._playing = threading.local()

    def now(self) -> float:
        """Return the seconds since the epoch."""
        return self.time

    def sleep(self, seconds: float) -> None:
        """Let the others go on for that long; outside of `run` the time just passes."""
        actor: _Actor | None = getattr(self._playing, "actor", None)
        if actor is None:
            self.time += seconds
            return
        self._naps += 1
        actor.wakes_at = (self.time + max(0.0, seconds), self._naps)
        self._stage.release()
        actor.turn.acquire()
        self._check_end()

    def run(self, bodies: Mapping[str, Callable[[], None]]) -> None:
        """Play every body to its end, together. Raises what the first of them raises."""
        self._actors = [
            _Actor(name, body, (self.time, number - len(bodies)))
            for number, (name, body) in enumerate(bodies.items())
        ]
        threads = [threading.Thread(target=self._play, args=(actor,), daemon=True) for actor in self._actors]
        for thread in threads:
            thread.start()
        try:
            self._direct()
        finally:
            self._is_cancelled = True
            for actor in self._actors:
                actor.turn.release()
            for thread in threads:
                thread.join(timeout=30)
            self._is_cancelled = False

    def _direct(self) -> None:
        while waiting := [actor for actor in self._actors if not actor.is_done]:
            actor = min(waiting, key=lambda actor: actor.wakes_at)
            self.time = max(self.time, actor.wakes_at[0])
            actor.turn.release()
            self._stage.acquire()
            if actor.error:
                raise actor.error

    def _play(self, actor: _Actor) -> None:
        self._playing.actor = actor
        actor.turn.acquire()
        try:
            if not self._is_cancelled:
                actor.body()
        except _Cancelled:
            pass
        except BaseException as error:
            actor.error = error
        finally:
            actor.is_done = True
            self._stage.release()

    def _check_end(self) -> None:
        if self._is_cancelled:
            raise _Cancelled
        if self._naps > MOST_NAPS:
            raise Endless(f"nobody has come to an end after {self._naps} waits")
