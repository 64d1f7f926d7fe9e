"""Acknowledgements go first: while many arrive, the worker in the same process takes its time."""

import threading
import time
from collections.abc import Callable

# So many in one commit mean that more wait for the next one.
MANY = 4
BUSY_S = 0.05
STEP_S = 0.01
# To stamp one checkpoint takes a fraction of this.
BREATH_S = 0.001
# A call to GitHub is held back for no longer, so that the spool drains under any load; four in a second are
# more than GitHub lets anyone write.
LONGEST_S = 0.25


class Courtesy:
    """Holds the worker back for a moment before each call, while requests queue up for the disk.

    It shows only where GitHub sets no pace: with the embedded one, or an Enterprise Server without limits.
    """

    def __init__(
        self,
        stop: threading.Event,
        *,
        now: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] = time.sleep,
    ) -> None:
        self._stop = stop
        self._now = now
        self._sleep = sleep
        self._busy_until = float("-inf")

    def note(self, together: int) -> None:
        """Note how many requests shared a commit."""
        if together >= MANY:
            self._busy_until = self._now() + BUSY_S

    def breathe(self) -> None:
        """Let others have a turn, while requests queue up: for between two pieces of long work."""
        if self._now() < self._busy_until and not self._stop.is_set():
            self._sleep(BREATH_S)

    def give_way(self) -> None:
        """Wait while requests queue up, for a moment at most."""
        deadline = self._now() + LONGEST_S
        while self._now() < min(self._busy_until, deadline) and not self._stop.is_set():
            self._sleep(STEP_S)
