"""Who of one process writes next: a sweep that was overtaken once has the drain wait for a moment."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager

LONGEST_WAIT_S = 5.0  # less than a sidecar has for its end


class RightOfWay:
    """The drain writes whenever it likes, unless a sweep has taken the way: then the plan of that holds.

    Neither waits for the other for longer than `longest_s`. After that GitHub decides who was first.
    """

    def __init__(self, longest_s: float = LONGEST_WAIT_S) -> None:
        self._longest_s = longest_s
        self._writing = threading.Lock()
        self._is_free = threading.Event()
        self._is_free.set()
        self._yields_until = 0.0

    @property
    def is_taken(self) -> bool:
        """Whether writers have to wait."""
        return not self._is_free.is_set()

    @contextmanager
    def use(self) -> Iterator[None]:
        """Write, as soon as nobody has taken the way."""
        self._is_free.wait(max(0.0, self._yields_until - time.monotonic()))
        with self._writing:
            yield

    @contextmanager
    def take(self) -> Iterator[None]:
        """Have writers wait; what is being written comes to its end first."""
        self._yields_until = time.monotonic() + self._longest_s
        self._is_free.clear()
        try:
            if self._writing.acquire(timeout=self._longest_s):
                self._writing.release()
            yield
        finally:
            self._is_free.set()
