"""The tables of the shared queue, made and brought up to date by whoever starts first."""

import psycopg

from holdfast.errors import DatabaseAway, InvalidSettings
from holdfast.logs import log
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.address import explain, is_wrong
from holdfast.queue.postgres.database import OLDEST_VERSION, Connection, Database

_SETTING = "HOLDFAST_DATABASE_URL"
_MAKE_VERSIONS = "create table if not exists holdfast_version (version integer primary key)"
_ASK_STATE = "select current_setting('fsync'), current_setting('transaction_read_only')"
_SELECT_VERSION = "select coalesce(max(version), 0) from holdfast_version"
# A right to change every table is what draining needs; it shows now, and not with the first checkpoint.
_CHECK_RIGHTS = (
    "select coalesce(bool_and(has_table_privilege(format('%I.%I', schemaname, tablename), need)), false)"
    " from pg_tables, unnest(array['select', 'insert', 'update', 'delete']) as need"
    " where tablename like 'holdfast\\_%' and schemaname = any(current_schemas(false))"
)


def prepare_database(database: Database) -> None:
    """Make the tables, or bring them up to date. Several processes may do so at once.

    Raises InvalidSettings if a person must act: address, password, version, rights. DatabaseAway if the
    server does not answer.
    """
    if database.is_prepared:
        return
    try:
        connection = database.connect()
    except psycopg.Error as error:
        if is_wrong(error):
            raise InvalidSettings([f"{_SETTING}: {database.description}: {explain(error)}"]) from None
        raise DatabaseAway(database.description, explain(error)) from None
    try:
        with connection:
            _check_server(database, connection)
            connection.is_long = True
            _migrate(database, connection)
            (may_all,) = connection.execute(_CHECK_RIGHTS).fetchone() or (False,)
    except psycopg.ProgrammingError as error:
        raise _no_rights(database, explain(error)) from None
    except psycopg.Error as error:
        raise DatabaseAway(database.description, explain(error)) from None
    if not may_all:
        raise _no_rights(database, "not every right on the tables holdfast_…")
    database.is_prepared = True


def _check_server(database: Database, connection: Connection) -> None:
    version = connection.info.server_version // 10_000
    if version < OLDEST_VERSION:
        raise InvalidSettings(
            [f"{_SETTING}: {database.description} is version {version}; {OLDEST_VERSION} or later is needed"]
        )
    fsync, is_read_only = connection.execute(_ASK_STATE).fetchone() or ("on", "off")
    if is_read_only != "off":
        raise DatabaseAway(database.description, "it takes no writes, as a standby does")
    if fsync != "on":
        log.warning(
            "database_not_durable",
            cause=f"{database.description} runs with fsync={fsync}",
            advice="A power cut there loses checkpoints that were answered for; set fsync=on.",
        )


def _migrate(database: Database, connection: Connection) -> None:
    newest = len(statements.MIGRATIONS)
    if _version_of(connection) == newest:
        return
    connection.execute(statements.BEGIN)
    connection.execute("set local lock_timeout = '60s'")
    connection.execute(statements.LOCK_MIGRATIONS)
    connection.execute(_MAKE_VERSIONS)
    version = _version_of(connection)
    if version > newest:
        connection.execute("rollback")
        told = (
            f"the tables in {database.description} have version {version}, and this Holdfast knows {newest}"
        )
        raise InvalidSettings([f"{_SETTING}: {told}; use the version that made them, or upgrade"])
    for number, migration in enumerate(statements.MIGRATIONS[version:], start=version + 1):
        for statement in migration:
            connection.execute(statement.encode())
        connection.execute("insert into holdfast_version values (%s)", (number,))
    connection.execute("commit")


def _version_of(connection: Connection) -> int:
    """Return the version of the tables; 0 where there are none."""
    (table,) = connection.execute("select to_regclass('holdfast_version')").fetchone() or (None,)
    if table is None:
        return 0
    (version,) = connection.execute(_SELECT_VERSION).fetchone() or (0,)
    return int(version)


def _no_rights(database: Database, reason: str) -> InvalidSettings:
    advice = "let its user create tables in the schema that comes first in its search_path"
    return InvalidSettings([f"{_SETTING}: {database.description}: {reason}; {advice}"])
