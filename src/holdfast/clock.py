"""The one door to time: what o'clock it is, and waiting that a shutdown can end."""

import threading
import time
from typing import Protocol


class Clock(Protocol):
    """Tells the time and waits."""

    def now(self) -> float:
        """Return the seconds since the epoch, as this machine believes."""
        ...

    def sleep(self, seconds: float) -> None:
        """Wait that long, or until someone asks us to stop."""
        ...


class SystemClock:
    """The machine's clock; `stop` ends every wait at once."""

    def __init__(self, stop: threading.Event | None = None) -> None:
        self._stop = stop or threading.Event()

    def now(self) -> float:
        return time.time()

    def sleep(self, seconds: float) -> None:
        self._stop.wait(max(0.0, seconds))
