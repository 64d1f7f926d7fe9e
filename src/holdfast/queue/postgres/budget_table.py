"""The budget that several machines share: a row for each API and token, changed by one of them at a time."""

import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from holdfast.clock import Clock, SystemClock
from holdfast.errors import DatabaseAway, SpoolError
from holdfast.logs import log
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection, Database
from holdfast.queue.postgres.migrations import prepare_database
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limiter import RateLimiter, ResultT
from holdfast.ratelimit.limits import Limits
from holdfast.ratelimit.record import format_budget, parse_budget
from holdfast.ratelimit.reunion import reunite


class TableRateLimiter(RateLimiter):
    """Keeps one budget in the row of `identity`, together with all replicas that use this database.

    Its steady time is that of the database: the clocks of the replicas may differ. What is spent while that
    is away is added when it is back.
    """

    def __init__(self, database: Database, identity: str, limits: Limits, clock: Clock) -> None:
        super().__init__(limits, clock)
        self._database = database
        self._identity = identity
        self._lock = threading.Lock()
        self._parted: Budget | None = None
        """The budget as it was when the database went away; None while it is there."""
        self._has_warned = False
        self._uses_database_clock = isinstance(clock, SystemClock)
        with suppress(DatabaseAway):
            prepare_database(database)

    @property
    def budget(self) -> Budget:
        """The budget as it is now."""

        def read(connection: Connection) -> Budget:
            row = connection.execute(statements.SELECT_BUDGET, (self._identity,)).fetchone()
            return self._parse(row)

        before = self._budget
        try:
            seen = self._database.look(read).at(self._clock.now())
        except DatabaseAway as error:
            self._warn(error)
            return self._budget.at(self._clock.now())
        # Whoever looks does not wait for a change under way, which may hang.
        if not self._lock.acquire(blocking=False):
            return seen
        try:
            if self._budget is not before:  # a change came in between, and knows of more than we have seen
                return self._budget.at(self._clock.now())
            if self._parted:
                return self._reunite(seen)
            self._budget = seen
            return seen
        finally:
            self._lock.release()

    def close(self) -> None:
        """Store what was spent while the database was away, if it is back."""
        if self._parted:
            with suppress(SpoolError):
                self._change(lambda budget, _: (budget, None))

    def _change(
        self, change: Callable[[Budget, float], tuple[Budget, ResultT]], *, is_synced: bool = False
    ) -> ResultT:
        def work(connection: Connection, _: bool) -> tuple[Budget, ResultT]:
            if not is_synced:
                connection.execute("set local synchronous_commit = off")
            connection.execute(statements.ADD_BUDGET, (self._identity,))
            row = connection.execute(statements.LOCK_BUDGET, (self._identity,)).fetchone()
            budget, result = change(self._reunite(self._parse(row)), self._clock.now())
            connection.execute(statements.WRITE_BUDGET, (format_budget(budget), self._identity))
            return budget, result

        with self._lock:
            try:
                self._budget, result = self._database.change(work)
                self._parted, self._has_warned = None, False
            except DatabaseAway as error:
                self._warn(error)
                self._parted = self._parted or self._budget
                self._budget, result = change(self._budget, self._clock.now())
            return result

    def _reunite(self, shared: Budget) -> Budget:
        """Return what the database has with what was spent while it was away."""
        if self._parted is None:
            return shared
        return reunite(shared, self._parted, self._budget, self._clock.now())

    def _parse(self, row: tuple[bytes, float] | None) -> Budget:
        if row is None:
            return Budget(self._limits)
        record, database_now = row
        budget = parse_budget(record, self._limits)
        if not self._uses_database_clock:
            return budget
        shift_s = database_now - self._clock.now()
        return replace(budget, clock_skew=budget.clock_skew._replace(shift_s=shift_s))

    def _warn(self, error: DatabaseAway) -> None:
        if not self._has_warned:
            self._has_warned = True
            log.warning("budget_not_shared", cause=str(error))
