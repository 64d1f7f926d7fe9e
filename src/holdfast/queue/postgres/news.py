"""News between replicas: whoever puts a checkpoint tells, whoever may drain listens.

It is a hint and no more: where a pooler in between loses it, the drainer finds the checkpoint when it looks
by itself, some seconds later.
"""

import threading
import time

import psycopg

from holdfast.errors import SpoolError
from holdfast.queue.contract import Wake
from holdfast.queue.postgres.database import Database

# PostgreSQL lets only one transaction at a time commit that tells something, so it is told apart and rarely.
TELL_EVERY_S = 0.1
_PAUSE_S = 2.0
_LOOK_EVERY_S = 1.0
_CHANNEL = "holdfast"
# Who puts waits for it, and need not wait for the disk: what it tells of is safe already.
_TELL = "select set_config('synchronous_commit', 'off', true), pg_notify(%s, %s)"


class News:
    """The news of one target."""

    def __init__(self, database: Database, target: int) -> None:
        self._database = database
        self._urgent, self._usual = f"{target} critical", str(target)
        self._told_at = float("-inf")
        self._ended = threading.Event()
        self._listener: threading.Thread | None = None

    def tell(self, *, is_urgent: bool) -> None:
        """Tell all replicas that there is something new; nothing is lost if that fails.

        What is urgent is always told: who drains may be amid a long pause.
        """
        now = time.monotonic()
        if now - self._told_at < TELL_EVERY_S and not is_urgent:
            return
        self._told_at = now
        try:
            said = (_CHANNEL, self._urgent if is_urgent else self._usual)
            self._database.look(lambda connection: connection.execute(_TELL, said))
        except SpoolError:
            return

    def listen(self, wake: Wake) -> None:
        """Have `wake` called, in a thread of its own, whenever a replica tells something."""
        self._listener = threading.Thread(
            target=self._listen, args=(wake,), name="holdfast-listener", daemon=True
        )
        self._listener.start()

    def close(self) -> None:
        """Listen no more."""
        self._ended.set()
        if self._listener:
            self._listener.join()

    def _listen(self, wake: Wake) -> None:
        while not self._ended.is_set():
            try:
                with self._database.connect() as connection:
                    connection.execute(f"listen {_CHANNEL}".encode())
                    wake(True)  # for what was told while nobody listened
                    while not self._ended.is_set():
                        for each in connection.notifies(timeout=_LOOK_EVERY_S):
                            if each.payload in (self._urgent, self._usual):
                                wake(each.payload == self._urgent)
            except psycopg.Error:
                self._ended.wait(_PAUSE_S)
