"""Keeps the spool's log short while many save, so that no save has to wait until it is written back."""

import threading
from collections.abc import Callable

from holdfast.errors import DiskFailed, HoldfastError
from holdfast.logs import log

# Fewer in one commit leave a short log, which the commits themselves write back now and then.
MANY = 4
# Each time is two syncs of the disk; under load the log grows by a few megabytes meanwhile.
EVERY_S = 0.2


class WriteBack:
    """Writes the log back in a thread of its own, as often as many were committed together."""

    def __init__(
        self, write_back: Callable[[], None], *, on_disk_failed: Callable[[DiskFailed], None]
    ) -> None:
        self._write_back = write_back
        self._on_disk_failed = on_disk_failed
        self._is_due = threading.Event()
        self._end = threading.Event()
        self._thread = threading.Thread(target=self._run, name="holdfast-write-back", daemon=True)

    def start(self) -> None:
        """Begin."""
        self._thread.start()

    def note(self, committed: int) -> None:
        """Tell how many were committed together."""
        if committed >= MANY:
            self._is_due.set()

    def close(self, grace_s: float) -> bool:
        """Begin nothing more; return whether what was under way ended within `grace_s`."""
        self._end.set()
        self._is_due.set()
        self._thread.join(grace_s)
        return not self._thread.is_alive()

    def _run(self) -> None:
        while self._is_due.wait() and not self._end.is_set():
            self._is_due.clear()
            try:
                self._write_back()
            except DiskFailed as error:
                self._on_disk_failed(error)
                return
            except HoldfastError as error:
                # Nothing is lost by it: the next commit says what is wrong, if it still is.
                log.warning("log_not_written_back", cause=str(error))
            self._end.wait(EVERY_S)
