"""How a database stands, for those who look after it."""

from dataclasses import dataclass

from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.migrations import prepare_database

_LOOK = (
    "select current_setting('server_version'), current_setting('fsync'),"
    " current_setting('full_page_writes'), pg_is_in_recovery(),"
    " (select coalesce(max(version), 0) from holdfast_version),"
    " (select count(*) from pg_stat_activity where application_name = 'holdfast'),"
    " current_setting('max_connections')::integer"
)


@dataclass(frozen=True, slots=True)
class DatabaseHealth:
    """A database that can be used. Whether an answer is safe depends on what `unsafe` names, if anything."""

    description: str
    version: str
    tables: int
    newest_tables: int
    connections: int
    most_connections: int
    unsafe: tuple[str, ...]


def examine_database(database: Database) -> DatabaseHealth:
    """Return how the database stands; its tables are made, or brought up to date.

    Every transaction of ours is confirmed with `synchronous_commit=on`, whatever the server's default is.
    Raises InvalidSettings if a person must act: address, password, version, rights; DatabaseAway.
    """
    prepare_database(database)
    row = database.look(lambda connection: connection.execute(_LOOK.encode()).fetchone())
    version, fsync, full_pages, is_standby, tables, connections, most = row or ("", "", "", False, 0, 0, 0)
    settings = {"fsync": fsync, "full_page_writes": full_pages}
    unsafe = [f"{name}={value}" for name, value in settings.items() if value != "on"]
    return DatabaseHealth(
        description=database.description,
        version=version.partition(" ")[0],
        tables=tables,
        newest_tables=len(statements.MIGRATIONS),
        connections=connections,
        most_connections=most,
        unsafe=(*unsafe, *(["it is a standby, which takes no checkpoints"] if is_standby else [])),
    )
