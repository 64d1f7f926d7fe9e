"""The tables are made once, by whoever comes first, and what a person must mend is said plainly."""

import threading

import psycopg
import pytest

from holdfast.errors import DatabaseAway, InvalidSettings
from holdfast.queue.postgres import migrations, statements
from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.migrations import prepare_database
from tests.fakes.postgres import shared_server


def versions(database: Database) -> list[tuple[int]]:
    return database.look(
        lambda connection: connection.execute("select version from holdfast_version").fetchall()
    )


def test_replicas_that_start_at_once_make_the_tables_once(url: str) -> None:
    databases = [Database(url) for _ in range(6)]
    start = threading.Barrier(len(databases))
    failures: list[Exception] = []

    def prepare(database: Database) -> None:
        start.wait()
        try:
            prepare_database(database)
        except Exception as error:
            failures.append(error)

    threads = [threading.Thread(target=prepare, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert failures == []
    assert versions(databases[0]) == [(n + 1,) for n in range(len(statements.MIGRATIONS))]
    for database in databases:
        database.close()


def test_later_version_is_added_to_what_is_there(
    database: Database, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    prepare_database(database)
    added = (*statements.MIGRATIONS, ("alter table holdfast_note add column later text",))
    monkeypatch.setattr(statements, "MIGRATIONS", added)

    again = Database(url)
    prepare_database(again)

    assert versions(again) == [(n + 1,) for n in range(len(added))]
    again.close()


def test_tables_of_a_newer_holdfast_are_left_alone(database: Database, url: str) -> None:
    prepare_database(database)
    database.look(lambda connection: connection.execute("insert into holdfast_version values (99)"))

    with pytest.raises(InvalidSettings, match=r"have version 99.*or upgrade"):
        prepare_database(Database(url))


def test_server_that_is_too_old_is_refused(database: Database, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(migrations, "OLDEST_VERSION", 99)

    with pytest.raises(InvalidSettings, match="99 or later is needed"):
        prepare_database(database)


def test_user_without_rights_is_told_what_to_allow(url: str) -> None:
    with psycopg.connect(shared_server().url, autocommit=True) as connection:
        connection.execute("drop role if exists powerless")
        connection.execute("create role powerless login")

    with pytest.raises(InvalidSettings, match=r"HOLDFAST_DATABASE_URL.*create tables in the schema"):
        prepare_database(Database(url.replace("holdfast@", "powerless@")))


def test_user_who_may_only_read_is_told_at_the_start(url: str) -> None:
    prepare_database(Database(url))
    schema = url.rpartition("%3D")[2]
    with psycopg.connect(shared_server().url, autocommit=True) as connection:
        connection.execute("drop owned by reading" if _has_role(connection) else "create role reading login")
        connection.execute(f"grant usage on schema {schema} to reading".encode())
        connection.execute(f"grant select on all tables in schema {schema} to reading".encode())

    with pytest.raises(InvalidSettings, match="not every right on the tables"):
        prepare_database(Database(url.replace("holdfast@", "reading@")))


def _has_role(connection: psycopg.Connection[tuple[object, ...]]) -> bool:
    return connection.execute("select 1 from pg_roles where rolname = 'reading'").fetchone() is not None


def test_server_that_takes_no_writes_is_an_outage_though_it_answers(url: str) -> None:
    prepare_database(Database(url))
    standby = Database(f"{url}%20-cdefault_transaction_read_only%3Don")

    with pytest.raises(DatabaseAway, match="takes no writes, as a standby does"):
        prepare_database(standby)
    assert standby.examine()[2] is False


def test_user_who_is_no_superuser_needs_no_more_than_a_schema_of_its_own() -> None:
    with psycopg.connect(shared_server().url, autocommit=True) as connection:
        connection.execute("drop schema if exists modest cascade")
        connection.execute("drop role if exists modest")
        connection.execute("create role modest login nosuperuser nocreatedb nocreaterole")
        connection.execute("create schema modest authorization modest")
    database = Database(
        shared_server().url.replace("holdfast@", "modest@") + "&options=-csearch_path%3Dmodest"
    )

    prepare_database(database)

    assert versions(database) == [(n + 1,) for n in range(len(statements.MIGRATIONS))]
    database.close()


def test_database_that_does_not_exist_is_a_mistake_and_no_outage(url: str) -> None:
    with pytest.raises(InvalidSettings, match="does not exist"):
        prepare_database(Database(url.replace("/postgres?", "/nowhere?")))


def test_server_that_is_not_there_is_an_outage(url: str) -> None:
    with pytest.raises(DatabaseAway):
        prepare_database(Database(url.replace("port=5432", "port=5999")))


@pytest.mark.parametrize(
    "host", ["role-db.example.invalid", "password.certificate.invalid", "/tmp/role/authentication"]
)
def test_server_that_is_away_is_an_outage_whatever_its_name_is(host: str) -> None:
    with pytest.raises(DatabaseAway):
        prepare_database(Database(f"host={host} user=password dbname=role"))


@pytest.mark.parametrize(
    "option",
    [
        "sslmode=canary",
        "keepalives=canary",
        "target_session_attrs=canary",
        "ssl_min_protocol_version=canary",
        "connect_timeout=canary",
    ],
)
def test_option_that_has_no_such_value_is_a_mistake_and_is_not_shown(option: str) -> None:
    name = option.partition("=")[0]

    with pytest.raises(InvalidSettings, match=f"HOLDFAST_DATABASE_URL: .*{name}") as caught:
        prepare_database(Database(f"postgresql://me@127.0.0.1:1/work?{option}"))

    assert "canary" not in str(caught.value)
