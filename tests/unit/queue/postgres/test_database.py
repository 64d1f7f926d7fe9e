"""Transactions are durable, repeated where that is of use, and no error tells a password."""

from collections.abc import Iterator
from pathlib import Path
from unittest.mock import Mock

import psycopg
import pytest
from psycopg import errors

from holdfast.errors import DatabaseAway, InvalidSettings, SpoolUnwritable
from holdfast.queue.postgres import database as module
from holdfast.queue.postgres.database import Connection, Database, allow_plans
from tests.fakes.postgres import shared_server

SECRET = "s3cr3t-word"


def kill_own_session(connection: Connection) -> None:
    """Have the server end this very connection, as a restart of it would."""
    with psycopg.connect(shared_server().url, autocommit=True) as other:
        other.execute("select pg_terminate_backend(%s)", (connection.info.backend_pid,))


@pytest.mark.parametrize("default", ["off", "local", "on"])
def test_every_change_waits_for_the_servers_disk_whatever_its_default_is(url: str, default: str) -> None:
    database = Database(f"{url}%20-csynchronous_commit%3D{default}")

    def work(connection: Connection, _: bool) -> str:
        (value,) = connection.execute("show synchronous_commit").fetchone() or ("",)
        return str(value)

    try:
        assert database.change(work) == "on"
        assert database.look(lambda each: work(each, False)) == default
    finally:
        database.close()


def test_connection_that_breaks_is_replaced_and_the_work_repeated(database: Database) -> None:
    tries: list[bool] = []

    def work(connection: Connection, is_repeated: bool) -> int:
        tries.append(is_repeated)
        if len(tries) == 2:
            kill_own_session(connection)
        (one,) = connection.execute("select 1").fetchone() or (0,)
        return int(one)

    assert database.change(work) == 1  # on a connection of its own
    assert database.change(work) == 1  # on one of the pool, which breaks
    assert tries == [False, False, True]
    assert database.change(work) == 1


def test_connection_that_breaks_again_and_again_is_told(database: Database) -> None:
    def work(connection: Connection, _: bool) -> None:
        kill_own_session(connection)
        connection.execute("select 1")

    with pytest.raises(DatabaseAway):
        database.change(work)


@pytest.mark.slow
@pytest.mark.parametrize("error", [errors.DeadlockDetected, errors.UniqueViolation, errors.LockNotAvailable])
def test_what_someone_else_got_in_the_way_of_is_repeated(
    database: Database, error: type[psycopg.Error]
) -> None:
    tries: list[bool] = []

    def work(_: Connection, is_repeated: bool) -> str:
        tries.append(is_repeated)
        if len(tries) < 3:
            raise error("someone else")
        return "done"

    assert database.change(work) == "done"
    assert tries == [False, True, True]


def test_a_pause_before_a_repetition_ends_when_the_database_is_closed(
    database: Database, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "_PAUSE_S", 3600.0)
    tries: list[bool] = []

    def work(_: Connection, is_repeated: bool) -> None:
        tries.append(is_repeated)
        if is_repeated:
            database.close()
        raise errors.DeadlockDetected("someone else")

    with pytest.raises(SpoolUnwritable, match="closed"):
        database.change(work)
    assert tries == [False, True]


def test_what_was_begun_is_undone_when_the_work_fails(database: Database) -> None:
    database.look(lambda connection: connection.execute("create table mine (number integer)"))

    def work(connection: Connection, _: bool) -> None:
        connection.execute("insert into mine values (1)")
        raise KeyError("ours")

    with pytest.raises(KeyError):
        database.change(work)
    assert database.look(lambda connection: connection.execute("select * from mine").fetchall()) == []


def test_server_that_is_away_is_told_at_once_and_without_the_password(tmp_path: Path) -> None:
    database = Database(f"postgresql://me:{SECRET}@/work?host={tmp_path}")

    with pytest.raises(DatabaseAway) as caught:
        database.look(lambda connection: connection.execute("select 1"))

    assert str(tmp_path) in str(caught.value)
    assert SECRET not in repr(caught.value)
    assert SECRET not in str(caught.value.__cause__)


@pytest.mark.parametrize("port", ["port with blanks", "99999", "-1", "one:5432,two:65536"])
def test_address_that_is_none_is_refused_without_the_password(port: str) -> None:
    with pytest.raises(InvalidSettings, match="HOLDFAST_DATABASE_URL: use a URL such as") as caught:
        Database(f"postgresql://me:{SECRET}@host:{port}/work")

    assert SECRET not in str(caught.value)


@pytest.mark.parametrize(
    "password",
    ["s@cret-part", "s/cret-part", "12?cret-part@x", "12/cret-part", "s/c#r@et?cret-part", "%zzcret-part"],
)
def test_a_password_that_is_not_encoded_is_refused_and_not_shown(password: str) -> None:
    with pytest.raises(InvalidSettings, match="write @ as %40, / as %2F") as caught:
        Database(f"postgresql://me:{password}@db:5432/work")

    assert "cret-part" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "postgresql://me:s%40cret%2Fpart@db:5432/work",
        "postgresql://me:s:c#r?cret-part@db:5432/work",
        "postgresql://me@db/work?application_name=me@here",
        "postgresql:///work?host=/tmp",
        "postgresql://me:secret@one:5432,two:5433/work",
        "host=db password=s@cret/part dbname=work",
    ],
)
def test_an_address_that_is_clear_is_taken(url: str) -> None:
    assert "cret" not in Database(url).description


def test_database_that_was_closed_takes_nothing(database: Database) -> None:
    database.close()

    with pytest.raises(SpoolUnwritable, match="closed"):
        database.look(lambda connection: connection.execute("select 1"))


def test_statement_of_its_own_is_durable_and_a_failed_one_is_not_repeated(database: Database) -> None:
    database.look(lambda connection: connection.execute("create table mine (number integer unique)"))
    insert = "insert into mine values (%(number)s) returning number"

    assert database.change_at_once(insert, {"number": 1}, keeps_plan=True) == [(1,)]
    assert database.change_at_once(insert, {"number": 1}, keeps_plan=True) is None
    assert database.change_at_once(insert, {"number": 2}, keeps_plan=False) == [(2,)]


@pytest.fixture
def lone(url: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database]:
    """Return a database with a single connection that stays."""
    monkeypatch.setattr(module, "MOST_CONNECTIONS", 1)
    database = Database(url)
    database.look(lambda connection: connection.execute("select 1"))  # on another one, of which nothing stays
    yield database
    database.close()


COUNT_PLANS = "select count(*) from pg_prepared_statements where not from_sql"


def test_plan_is_kept_where_it_is_asked_for(lone: Database) -> None:
    assert lone.change_at_once(COUNT_PLANS, {}, keeps_plan=False) == [(0,)]
    assert lone.change_at_once(COUNT_PLANS, {}, keeps_plan=True) == [(1,)]


def test_plan_that_a_pooler_has_lost_is_asked_for_no_more(lone: Database) -> None:
    assert lone.change_at_once("select 2", {}, keeps_plan=True) == [(2,)]
    lone.look(lambda connection: connection.execute("do $$ begin execute 'deallocate all'; end $$"))

    assert lone.change_at_once("select 2", {}, keeps_plan=True) is None

    assert lone.change_at_once("select 2", {}, keeps_plan=True) == [(2,)]
    assert lone.change_at_once(COUNT_PLANS, {}, keeps_plan=True) == [(0,)]


def test_no_plan_is_kept_through_a_pooler() -> None:
    connection = Mock()
    connection.info.backend_pid = 1
    connection.prepare_threshold = None
    connection.execute.return_value.fetchone.return_value = (2,)

    allow_plans(connection)

    assert connection.prepare_threshold is None
