"""The one door to PostgreSQL: connections, transactions that are safe once they end."""

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import psycopg
from psycopg import conninfo, errors
from psycopg_pool import ConnectionPool

from holdfast.errors import DatabaseAway, InvalidSettings, SpoolUnwritable
from holdfast.queue.postgres import statements

T = TypeVar("T")
Connection = psycopg.Connection[Any]

OLDEST_VERSION = 14
MOST_CONNECTIONS = 12
# A caller is not to wait long for a server that is away: its checkpoint goes to the local disk instead.
CONNECT_TIMEOUT_S = 4
ATTEMPTS = 4
_PAUSE_S = 0.05
_HIGHEST_PORT = 65_535
_USAGE = (
    "HOLDFAST_DATABASE_URL: use a URL such as postgresql://user:password@host:5432/database; in user and "
    "password, write @ as %40, / as %2F and % as %25"
)

_OPTIONS: dict[str, Any] = {
    "connect_timeout": CONNECT_TIMEOUT_S,
    "keepalives_idle": 5,
    "keepalives_interval": 2,
    "keepalives_count": 3,
    "tcp_user_timeout": 6000,
    "application_name": "holdfast",
}
# Someone else was faster, or the transaction waited too long: the same again may succeed.
_WORTH_REPEATING = (
    errors.DeadlockDetected,
    errors.SerializationFailure,
    errors.LockNotAvailable,
    errors.UniqueViolation,
)
# Whatever is between us and the server has given the next statement to another session than the last.
_LOST_STATEMENT = (errors.InvalidSqlStatementName, errors.DuplicatePreparedStatement)
_thread = threading.local()


class Database:
    """Connections to one PostgreSQL, for all threads of this process; a forked one makes its own."""

    def __init__(self, url: str) -> None:
        self._conninfo = _with_options(url)
        self.description = describe(url)
        self._pool: ConnectionPool[Connection] | None = None
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

    def connect(self) -> Connection:
        """Return a connection of one's own, to be closed by who asked for it. Raises psycopg.Error."""
        return psycopg.connect(self._conninfo, autocommit=True, prepare_threshold=None)

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

    def look(self, work: Callable[[Connection], T]) -> T:
        """Return what `work` reads. Raises DatabaseAway."""
        return self._try(lambda connection, _: work(connection))

    def change(self, work: Callable[[Connection, bool], T], *, is_at_once: bool = False) -> T:
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
            return self._try(transact)
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
            elif isinstance(error, (psycopg.OperationalError, psycopg.InterfaceError)):
                self._is_suspect = self._is_suspect or not isinstance(error, _WORTH_REPEATING)
            return None
        finally:
            _thread.is_saving = False

    def _try(self, work: Callable[[Connection, bool], T]) -> T:
        for attempt in range(ATTEMPTS):
            try:
                with self._connection() as connection:
                    return work(connection, attempt > 0)
            except _WORTH_REPEATING as error:
                failure: psycopg.Error = error
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

    @contextmanager
    def _connection(self) -> Iterator[Connection]:
        if self._closed.is_set():
            raise SpoolUnwritable("the spool was closed; open it again to save")
        if self._is_suspect or self._pid != os.getpid():
            yield from self._with_new_connection()
            return
        with self._open_pool().connection(timeout=CONNECT_TIMEOUT_S) as connection:
            yield connection

    def _with_new_connection(self) -> Iterator[Connection]:
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
        with self._lock:
            if self._pool and self._pid == os.getpid():
                self._pool.close()
            self._pool = None
            self._pid = os.getpid()
            self._is_suspect = False

    def _open_pool(self) -> "ConnectionPool[Connection]":
        with self._lock:
            if self._pool is None:
                logging.getLogger("psycopg.pool").setLevel(logging.CRITICAL)  # its callers get the error
                self._pool = ConnectionPool(
                    self._conninfo,
                    kwargs={"autocommit": True, "prepare_threshold": None},
                    min_size=1,
                    max_size=MOST_CONNECTIONS,
                    configure=allow_plans,
                    timeout=CONNECT_TIMEOUT_S,
                    reconnect_timeout=CONNECT_TIMEOUT_S,
                    num_workers=1,
                    name="holdfast",
                    open=True,
                )
            return self._pool


def check_not_saving() -> None:
    """Raise SpoolUnwritable in a signal handler of a thread that is amid a change."""
    if getattr(_thread, "is_saving", False):
        raise SpoolUnwritable("this thread is just saving; save again when it has done so")


def describe(url: str) -> str:
    """Return which database a URL means, without user and password.

    >>> describe("postgresql://me:secret@db.example.com:5433/work")
    'PostgreSQL at db.example.com:5433, database work'
    """
    parts = _parse(url)
    host = parts.get("host") or parts.get("hostaddr") or "the usual socket"
    port = f":{parts['port']}" if parts.get("port") else ""
    return f"PostgreSQL at {host}{port}, database {parts.get('dbname') or parts.get('user') or 'by default'}"


def explain(error: psycopg.Error) -> str:
    """Return what a failure says, in one line. The driver never repeats a password."""
    lines = [line.strip() for line in str(error).splitlines() if line.strip()]
    return lines[0] if lines else type(error).__name__


def _parse(url: str) -> dict[str, Any]:
    try:
        parts = dict(conninfo.conninfo_to_dict(url))
    except psycopg.ProgrammingError:
        raise InvalidSettings([_USAGE]) from None
    # A password that is not encoded would be taken for a host, a port or a database, and be shown as such.
    ports = str(parts.get("port") or "").split(",")
    if not all(map(_is_port, ports)) or not _is_clear(url):
        raise InvalidSettings([_USAGE])
    return parts


def _is_port(text: str) -> bool:
    return not text or (text.isdecimal() and 0 < int(text) <= _HIGHEST_PORT)


def _is_clear(url: str) -> bool:
    """Whether the first @ ends user and password, as it does for PostgreSQL, and not one behind it.

    >>> _is_clear("postgresql://me:s%40cret@db/work"), _is_clear("postgresql://me:s@cret@db/work")
    (True, False)
    """
    _, is_url, rest = url.partition("://")
    authority, _, path = rest.partition("/")
    user, at, host = authority.partition("@")
    return not is_url or not any("@" in each.partition("?")[0] for each in (host if at else user, path))


def _with_options(url: str) -> str:
    given = _parse(url)
    return conninfo.make_conninfo(**{**_OPTIONS, **given})


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
