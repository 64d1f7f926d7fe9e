"""Who drains a target: a lease with a fence, kept in a row.

A row and not a lock of the session, because those are lost in a PgBouncer that pools transactions. Whoever
takes the lease over raises the fence, and every change that a drainer makes is bound to its own: one that was
frozen, and goes on when another has taken over, changes nothing any more.
"""

import os
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass

from holdfast.errors import DatabaseAway, SpoolBusy
from holdfast.logs import log
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection, Database

# Killed or frozen, a drainer is replaced after this, and what the others need to notice it.
LEASE_S = 6.0
RENEW_EVERY_S = 1.5
LOOK_EVERY_S = 1.0


@dataclass(frozen=True, slots=True)
class Holder:
    """Who drains, and for how long its lease still holds."""

    host: str
    process: int
    left_s: float
    fence: int

    @property
    def name(self) -> str:
        """Return who drains."""
        return f"process {self.process} on {self.host}"


class Lease:
    """The right to drain one target. The thread that holds it has a fence."""

    def __init__(self, database: Database, target: int) -> None:
        self._database = database
        self._target = target
        self._thread = threading.local()

    @contextmanager
    def held(self) -> Iterator[None]:
        """Be the one that drains, until the context ends or this process does. Raises SpoolBusy."""
        fence = self._take()
        ended = threading.Event()
        renewing = threading.Thread(
            target=self._renew, args=(fence, ended), name="holdfast-lease", daemon=True
        )
        renewing.start()
        self._thread.fence = fence
        try:
            yield
        finally:
            self._thread.fence = None
            ended.set()
            renewing.join()
            with suppress(DatabaseAway):
                self._say(statements.END_LEASE, self._target, fence)

    def holder(self) -> Holder | None:
        """Return who drains now, if anyone does."""
        row = self._database.look(
            lambda connection: connection.execute(statements.SELECT_LEASE, (self._target,)).fetchone()
        )
        return Holder(*row) if row and row[2] > 0 else None

    def check(self, connection: Connection) -> None:
        """Raise SpoolBusy if this thread drains and another has taken over; else nobody does until the end.

        To be asked within the transaction that depends on it.
        """
        fence = getattr(self._thread, "fence", None)
        if fence is None:
            return
        row = connection.execute(statements.CHECK_FENCE, (fence, self._target)).fetchone()
        if not (row and row[0]):
            raise SpoolBusy("another process has taken over draining, as this one did not answer for a while")

    def _take(self) -> int:
        def take(connection: Connection, _: bool) -> int | None:
            wanted = (self._target, socket.gethostname(), os.getpid(), LEASE_S)
            row = connection.execute(statements.TAKE_LEASE, wanted).fetchone()
            return int(row[0]) if row else None

        fence = self._database.change(take)
        if fence is not None:
            return fence
        holder = self.holder()
        who, left_s = "another process was draining this spool just now", 0.0
        if holder:
            who = f"process {holder.process} is draining this spool, on {holder.host}"
            left_s = holder.left_s
        raise SpoolBusy(f"{who}; stop it, or let it finish", retry_in_s=min(LOOK_EVERY_S, left_s + 0.1))

    def _renew(self, fence: int, ended: threading.Event) -> None:
        while not ended.wait(RENEW_EVERY_S):
            try:
                if not self._say(statements.RENEW_LEASE, LEASE_S, self._target, fence):
                    log.warning("drain_taken_over", cause="this process did not answer for a while")
                    return
            except DatabaseAway as error:
                log.warning("lease_not_renewed", cause=str(error))

    def _say(self, statement: str, *values: object) -> int:
        """Say one thing, and return how many rows it was about. It waits for what the drainer changes."""
        return self._database.look(
            lambda connection: connection.execute(statement.encode(), values).rowcount, is_long=True
        )
