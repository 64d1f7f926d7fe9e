"""Opening the shared queue: now, or later if its database is away and was seen before."""

import hashlib
from pathlib import Path

from holdfast.clock import Clock
from holdfast.disk import translate
from holdfast.errors import DatabaseAway
from holdfast.format.paths import Layout
from holdfast.queue.contract import Queue, QueueLimits
from holdfast.queue.fallback import FallbackQueue
from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.postgres_queue import PostgresQueue
from holdfast.queue.sqlite_queue import SqliteQueue

_SEEN = "database"


def open_with_fallback(
    database: Database,
    target: str,
    *,
    local: SqliteQueue,
    folder: Path,
    limits: QueueLimits,
    clock: Clock,
    layout: Layout,
) -> FallbackQueue:
    """Return the shared queue, with the local one behind it. Closing it leaves the database open.

    A database that does not answer may have a wrong address, and then a person must know: DatabaseAway is
    raised. One that was used from `folder` before is waited for. Raises InvalidSettings.
    """

    def open_shared() -> Queue:
        queue = PostgresQueue.open(
            database,
            target,
            folder=folder,
            limits=limits,
            clock=clock,
            layout=layout,
            owns_database=False,
        )
        _remember(folder, database)
        return queue

    queue = FallbackQueue(open_shared, local)
    try:
        queue.open()
    except DatabaseAway as error:
        if not _was_seen(folder, database):
            advice = "see that it runs, and that HOLDFAST_DATABASE_URL leads to it"
            raise DatabaseAway(database.description, f"{error.reason}; {advice}") from error
        queue.begin_away(error)
    return queue


def _mark(database: Database) -> str:
    return hashlib.sha256(database.description.encode()).hexdigest()


def _was_seen(folder: Path, database: Database) -> bool:
    try:
        return (folder / _SEEN).read_text(encoding="ascii") == _mark(database)
    except (OSError, UnicodeDecodeError):
        return False


def _remember(folder: Path, database: Database) -> None:
    if _was_seen(folder, database):
        return
    try:
        (folder / _SEEN).write_text(_mark(database), encoding="ascii")
    except OSError as error:
        raise translate(error, folder) from error
