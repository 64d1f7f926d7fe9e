"""The one door to time: what o'clock it is, and waiting that a shutdown can end."""

import threading
import time
from typing import Protocol

# A pause this short is GitHub's due between two writes: it is kept even when we are asked to stop.
SHORT_PAUSE_S = 2.5


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return the seconds since the epoch, as this machine believes."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long; a long wait ends when someone asks us to stop."""
        ...


class SystemClock:
    """The machine's clock; `stop` ends every long wait at once."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        if seconds <= SHORT_PAUSE_S:
            time.sleep(max(0.0, seconds))
        else:
            self._stop.wait(seconds)
