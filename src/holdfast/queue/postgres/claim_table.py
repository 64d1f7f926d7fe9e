"""The claims of runs in the shared database: a row for each run that was ever claimed."""

from collections.abc import Callable
from typing import TypeVar

from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Connection, Database
from holdfast.queue.postgres.migrations import prepare_database

ResultT = TypeVar("ResultT")


class ClaimTable:
    """Keeps one record for each run of a target. Every `now` is the server's, in seconds since the epoch."""

    def __init__(self, database: Database, target: str) -> None:
        self._database = database
        self._target = target

    def read(self, run_id: str) -> tuple[bytes, float]:
        """Return the record of a run, empty if there is none, and what time it is. Raises DatabaseAway."""

        def read(connection: Connection) -> tuple[bytes, float]:
            row = connection.execute(statements.SELECT_CLAIM, (self._target, run_id)).fetchone()
            return (bytes(row[0]), float(row[1])) if row else (b"", 0.0)

        prepare_database(self._database)
        return self._database.look(read)

    def change(
        self, run_id: str, decide: Callable[[bytes, float], tuple[bytes, ResultT]]
    ) -> tuple[ResultT, float]:
        """Replace the record of a run by what `decide` makes of it. Others wait meanwhile.

        Returns what `decide` returns besides, and what time it is. Raises DatabaseAway, and what `decide`
        raises. It may be called again if it is not known whether its record was stored.
        """

        def change(connection: Connection, _: bool) -> tuple[ResultT, float]:
            place = (self._target, run_id)
            connection.execute(statements.HURRY_CLAIM)
            connection.execute(statements.ADD_CLAIM, place)
            row = connection.execute(statements.LOCK_CLAIM, place).fetchone()
            record, now = (bytes(row[0]), float(row[1])) if row else (b"", 0.0)
            written, result = decide(record, now)
            connection.execute(statements.WRITE_CLAIM, (written, *place))
            return result, now

        prepare_database(self._database)
        return self._database.change(change)
