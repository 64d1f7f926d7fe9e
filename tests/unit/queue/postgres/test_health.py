"""What those who look after a database are told of it."""

import pytest

from holdfast.errors import DatabaseAway
from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.health import examine_database


def test_a_database_tells_its_version_its_tables_and_what_makes_it_unsafe(database: Database) -> None:
    health = examine_database(database)

    assert int(health.version.partition(".")[0]) >= 14
    assert health.tables == health.newest_tables > 0
    assert 0 < health.connections < health.most_connections
    assert health.unsafe == ("fsync=off",)  # the tests' own server


def test_a_database_that_is_away_is_an_error_without_its_password() -> None:
    database = Database("postgresql://me:secret@127.0.0.1:1/work")

    with pytest.raises(DatabaseAway) as error:
        examine_database(database)
    assert "secret" not in str(error.value)
