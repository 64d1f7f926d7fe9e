"""RE2's patterns, in a process that may be forked at any moment.

RE2 searches without Python's own lock, and holds locks of its own meanwhile. A process that is forked just
then gets them locked, and waits for ever at its first search: so a fork waits until the searches under way
have ended, and those that come meanwhile wait for the fork.
"""

import os
import threading
from typing import Any


class ForkGate:
    """Lets any number of threads in, but none while the process is being forked."""

    def __init__(self) -> None:
        self._lock = threading.RLock()
        self._changed = threading.Condition(self._lock)
        self._is_closed = False
        self._inside: dict[int, int] = {}
        """How often each thread is inside: a signal handler may come in once more."""

    def __enter__(self) -> None:
        thread = threading.get_ident()
        with self._lock:
            while self._is_closed and thread not in self._inside:
                self._changed.wait()
            self._inside[thread] = self._inside.get(thread, 0) + 1

    def __exit__(self, *_: object) -> None:
        thread = threading.get_ident()
        with self._lock:
            self._inside[thread] -= 1
            if not self._inside[thread]:
                del self._inside[thread]
                if self._is_closed:
                    self._changed.notify_all()

    def close(self) -> None:
        """Let nobody in any more, and wait until the others have left."""
        self._lock.acquire()
        own = {threading.get_ident()}
        while self._inside.keys() - own:
            self._is_closed = True
            self._changed.wait()

    def open(self) -> None:
        """Let everybody in again."""
        self._is_closed = False
        self._changed.notify_all()
        self._lock.release()


_gate = ForkGate()
os.register_at_fork(before=_gate.close, after_in_parent=_gate.open, after_in_child=_gate.open)


class Pattern:
    """A compiled pattern over bytes."""

    def __init__(self, pattern: str) -> None:
        import re2

        with _gate:
            options = re2.Options()
            options.encoding = re2.Options.Encoding.LATIN1
            self._compiled: Any = re2.compile(pattern.encode(), options)
            self.groups: int = self._compiled.groups

    def search(self, text: bytes | memoryview, start: int = 0, end: int | None = None) -> Any:
        """Return the first match between two places; None if there is none."""
        with _gate:
            return self._compiled.search(text, start, end)

    def match(self, text: bytes | memoryview, start: int = 0) -> Any:
        """Return the match that begins right at a place; None if there is none."""
        with _gate:
            return self._compiled.match(text, start)

    def finditer(self, text: bytes | memoryview, start: int = 0, end: int | None = None) -> list[Any]:
        """Return all matches, searched for at once: nobody is inside between two of them."""
        with _gate:
            return list(self._compiled.finditer(text, start, end))
