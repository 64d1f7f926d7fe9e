"""Saving in the background, again and again, while the work takes its time."""

import threading
from collections.abc import Callable

Pause = Callable[[threading.Event, float], bool]


class Autosave:
    """Calls `save` every `interval_s` seconds from a thread of its own, between `open` and `close`.

    `pause` waits for the event, that long at most, and returns whether it is set.
    """

    def __init__(
        self, save: Callable[[], None], interval_s: float | None, pause: Pause = threading.Event.wait
    ) -> None:
        self._save = save
        self._interval_s = interval_s
        self._pause = pause
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None

    def open(self) -> None:
        """Begin, unless there is no interval."""
        if self._interval_s is None:
            return
        self._thread = threading.Thread(
            target=self._repeat, args=(self._interval_s,), name="holdfast-autosave", daemon=True
        )
        self._thread.start()

    def close(self) -> None:
        """End; what is just being saved is saved to the end."""
        self._stop.set()
        if self._thread is not None:
            self._thread.join()

    def _repeat(self, interval_s: float) -> None:
        while not self._pause(self._stop, interval_s):
            self._save()
