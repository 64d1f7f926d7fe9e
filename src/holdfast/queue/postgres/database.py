"""The one door to PostgreSQL: connections, transactions that are safe once they end."""

import logging
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import errors
from psycopg_pool import ConnectionPool

from holdfast.errors import DatabaseAway, SpoolUnwritable
from holdfast.queue.postgres import silence, statements
from holdfast.queue.postgres.address import CONNECT_TIMEOUT_S, complete, describe, explain
from holdfast.queue.postgres.silence import Hearing, ServerSilent, SilenceLimits, WatchedConnection

T = TypeVar("T")
Connection = psycopg.Connection[Any]

OLDEST_VERSION = 14
MOST_CONNECTIONS = 12
# One that waits for a lock waits for it this often, four seconds each time.
ATTEMPTS = 8
# Where no connection of the pool is free for so long, one more is made.
_POOL_TIMEOUT_S = 2
_PAUSE_S = 0.05
# Someone else was faster, or the transaction waited too long: the same again may succeed.
_WORTH_REPEATING = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.LockNotAvailable,
    errors.UniqueViolation,
)
# Whatever is between us and the server has given the next statement to another session than the last.
_LOST_STATEMENT = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
# Who asked gets the error; what the driver logs goes to a program that collects it, and else nowhere.
_UNSAID = logging.NullHandler()
_thread = threading.local()


class Database:
    """Connections to one PostgreSQL, for all threads of this process; a forked one makes its own.

    Work that is not told to be `is_long` is given up when the server says nothing for some seconds, though
    it may be done all the same; and whoever comes right after that does not wait again.
    """

    def __init__(self, url: str, limits: SilenceLimits | None = None) -> None:
        logging.getLogger("psycopg").addHandler(_UNSAID)
        self._conninfo = complete(url)
        self._hearing = Hearing(limits or silence.SILENCE_LIMITS)
        self.description = describe(url)
        self._pool: ConnectionPool[WatchedConnection] | None = None
        self._pid = 0
        self._lock = threading.Lock()
        self._closed = threading.Event()
        # Set when a connection broke: the next is made at once, so that its error is known at once.
        self._is_suspect = True
        self._keeps_plans = True
        self.is_prepared = False
        """Whether the tables were found, or made, in this process."""

    def close(self) -> None:
        """Let go of every connection."""
        self._closed.set()
        if self._pool and self._pid == os.getpid():
            self._pool.close()
        self._pool = None

    def connect(self) -> WatchedConnection:
        """Return a connection of one's own, to be closed by who asked for it. Raises psycopg.Error."""
        self._hearing.check(CONNECT_TIMEOUT_S)
        began = time.monotonic()
        try:
            connection = WatchedConnection.connect(self._conninfo, autocommit=True, prepare_threshold=None)
        except psycopg.Error as error:
            self._hearing.note_failure(error, time.monotonic() - began)
            raise
        self._hearing.note_connection()
        connection.hearing = self._hearing
        return connection

    def examine(self) -> tuple[str, bool, bool]:
        """Return the server's version, whether it syncs to its disk, and whether it takes writes.

        Raises DatabaseAway.
        """
        asked = (
            "select current_setting('server_version'), current_setting('fsync') = 'on',"
            " current_setting('transaction_read_only') = 'off'"
        )

        def ask(connection: Connection) -> tuple[str, bool, bool]:
            version, is_synced, is_writable = connection.execute(asked).fetchone() or ("", True, True)
            return str(version), bool(is_synced), bool(is_writable)

        return self.look(ask)

    def look(self, work: Callable[[Connection], T], *, is_long: bool = False) -> T:
        """Return what `work` reads. Raises DatabaseAway."""
        return self._try(lambda connection, _: work(connection), is_long=is_long)

    def change(
        self, work: Callable[[Connection, bool], T], *, is_at_once: bool = False, is_long: bool = False
    ) -> T:
        """Carry out `work` as one transaction; when this returns, the server's disk has it.

        `work` may be called again, then with true, when it is not known whether the first try was stored.
        If it `is_at_once`, everything goes to the server without waiting, until `work` asks for an answer: a
        turn to the server and back costs more than what it does there.
        Raises DatabaseAway, and what `work` raises.
        """

        def transact(connection: Connection, is_repeated: bool) -> T:
            try:
                if is_at_once:
                    return _say_at_once(connection, lambda: work(connection, is_repeated))
                connection.execute(statements.BEGIN.encode())
                result = work(connection, is_repeated)
                connection.execute("commit")
            except BaseException:
                _roll_back(connection)
                raise
            return result

        check_not_saving()
        _thread.is_saving = True
        try:
            return self._try(transact, is_long=is_long)
        finally:
            _thread.is_saving = False

    def change_at_once(
        self, statement: str, values: Mapping[str, object], *, keeps_plan: bool
    ) -> list[tuple[Any, ...]] | None:
        """Carry out one statement that is a transaction of its own, and return its rows.

        If it `keeps_plan`, the server makes its plan once, as far as it can: the plan must be good however
        the tables grow. None if it failed, and then it may have been stored all the same: nothing is
        repeated, and whether the database is away shows with the next change.
        """
        check_not_saving()
        _thread.is_saving = True
        try:
            with self._connection() as connection:
                is_kept = keeps_plan and self._keeps_plans
                return connection.execute(statement.encode(), values, prepare=is_kept).fetchall()
        except psycopg.Error as error:
            if isinstance(error, _LOST_STATEMENT):
                self._keeps_plans = False
            elif isinstance(error, ServerSilent):
                self._give_up()
            elif isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
                self._is_suspect = self._is_suspect or not isinstance(error, _WORTH_REPEATING)
            return None
        finally:
            _thread.is_saving = False

    def _try(self, work: Callable[[Connection, bool], T], *, is_long: bool) -> T:
        for attempt in range(ATTEMPTS):
            try:
                with self._connection() as connection:
                    connection.is_long = is_long
                    return work(connection, attempt > 0)
            except ServerSilent as error:
                failure: psycopg.Error = error
                self._give_up()
                break
            except _WORTH_REPEATING as error:
                failure = error
                self._closed.wait(_PAUSE_S * attempt)
            except (psycopg.OperationalError, psycopg.InterfaceError, errors.InternalError_) as error:
                failure = error
                if self._is_suspect:  # a connection that was made just now failed as well
                    break
                self._is_suspect = True
            except psycopg.Error as error:
                failure = error
                break
        raise DatabaseAway(self.description, explain(failure)) from failure

    def _give_up(self) -> None:
        """Let nobody use the other connections to a server that says nothing on one of them."""
        self._is_suspect = True
        with self._lock:
            self._drop_pool()

    @contextmanager
    def _connection(self) -> Iterator[WatchedConnection]:
        if self._closed.is_set():
            raise SpoolUnwritable("the spool was closed; open it again to save")
        if self._is_suspect or self._pid != os.getpid():
            yield from self._with_new_connection()
            return
        with self._open_pool().connection(timeout=_POOL_TIMEOUT_S) as connection:
            connection.is_long = False
            yield connection

    def _with_new_connection(self) -> Iterator[WatchedConnection]:
        """Yield a connection that is made for this alone; if it works, the pool is trusted again."""
        connection = self.connect()
        self._is_suspect = True
        try:
            yield connection
        except psycopg.Error:
            raise
        except BaseException:
            self._trust()
            raise
        else:
            self._trust()
        finally:
            connection.close()

    def _trust(self) -> None:
        self._hearing.note_answer()
        with self._lock:
            self._drop_pool()
            self._pid = os.getpid()
            self._is_suspect = False

    def _drop_pool(self) -> None:
        """Let the connections of the pool end, without waiting for one that is just being made."""
        if self._pool and self._pid == os.getpid():
            self._pool.close(timeout=0)
        self._pool = None

    def _open_pool(self) -> "ConnectionPool[WatchedConnection]":
        with self._lock:
            if self._pool is None:
                self._pool = ConnectionPool(
                    self._conninfo,
                    connection_class=WatchedConnection,
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    min_size=1,
                    max_size=MOST_CONNECTIONS,
                    configure=self._configure,
                    timeout=_POOL_TIMEOUT_S,
                    reconnect_timeout=CONNECT_TIMEOUT_S,
                    num_workers=1,
                    name="holdfast",
                    open=True,
                )
            return self._pool

    def _configure(self, connection: WatchedConnection) -> None:
        connection.hearing = self._hearing
        allow_plans(connection)


def check_not_saving() -> None:
    """Raise SpoolUnwritable in a signal handler of a thread that is amid a change."""
    if getattr(_thread, "is_saving", False):
        raise SpoolUnwritable("this thread is just saving; save again when it has done so")


def allow_plans(connection: Connection) -> None:
    """Let the server keep the plans of statements that ask for it, unless a pooler is in between.

    A pooler hands the transactions of one connection to many sessions of the server; it gives itself away by
    a process number that is not the session's.
    """
    (process,) = connection.execute("select pg_backend_pid()").fetchone() or (None,)
    if process == connection.info.backend_pid:
        connection.prepare_threshold = sys.maxsize


def _say_at_once(connection: Connection, work: Callable[[], T]) -> T:
    with connection.pipeline():
        connection.execute("begin")
        connection.execute(statements.TERMS.encode())
        result = work()
        connection.execute("commit")
    return result


def _roll_back(connection: Connection) -> None:
    if not connection.closed:
        try:
            connection.execute("rollback")
        except psycopg.Error:
            connection.close()
