"""What was asked and answered, for tests and benchmarks to look at."""

import threading
from collections import Counter, deque
from collections.abc import Callable
from dataclasses import dataclass

from holdfast.emulator.exchange import Ending

ENTRIES_KEPT = 100_000


@dataclass(frozen=True)
class JournalEntry:
    """One request and how it was answered; `ending` tells whether the answer left the server whole.

    `caller` is whose limits it used up.
    """

    time: float
    method: str
    path: str
    status: int
    resource: str
    is_content: bool
    bytes_in: int
    bytes_out: int
    ending: Ending
    caller: str


class Journal:
    """The newest requests in order, and counts of all of them."""

    def __init__(
        self, kept: int = ENTRIES_KEPT, listener: Callable[[JournalEntry], None] | None = None
    ) -> None:
        self._entries: deque[JournalEntry] = deque(maxlen=kept)
        self._by_status: Counter[int] = Counter()
        self._lock = threading.Lock()
        #: Called with each entry, for instance to print it.
        self.listener = listener

    def add(self, entry: JournalEntry) -> None:
        """Note one request."""
        with self._lock:
            self._entries.append(entry)
            self._by_status[entry.status] += 1
        if self.listener is not None:
            self.listener(entry)

    @property
    def entries(self) -> list[JournalEntry]:
        """The requests since the last `clear`, oldest first; at most the number that is kept."""
        with self._lock:
            return list(self._entries)

    @property
    def by_status(self) -> dict[int, int]:
        """How many answers had each status, since the last `clear`."""
        with self._lock:
            return dict(self._by_status)

    def __len__(self) -> int:
        with self._lock:
            return sum(self._by_status.values())

    def clear(self) -> None:
        """Forget everything."""
        with self._lock:
            self._entries.clear()
            self._by_status.clear()
