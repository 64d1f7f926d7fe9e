"""A server that says nothing is given up; one that takes its time over much is not."""

import logging
from collections.abc import Iterator

import psycopg
import pytest

from holdfast.errors import DatabaseAway
from holdfast.queue.postgres import statements
from holdfast.queue.postgres.database import Database
from holdfast.queue.postgres.silence import HOLD_OFF_S, SILENCE_LIMITS, Hearing, ServerSilent, SilenceLimits

SLOW = "select pg_sleep(0.6)"
# The server hands rows on as soon as they fill its buffer.
PIECES = "select repeat('x', 9000), pg_sleep(0.2) from generate_series(1, 4)"


@pytest.fixture
def hasty(url: str) -> Iterator[Database]:
    database = Database(url, SilenceLimits(usual_s=0.4, long_s=30.0))
    yield database
    database.close()


@pytest.mark.slow
def test_server_that_says_nothing_is_given_up_unless_the_work_is_long(hasty: Database) -> None:
    hasty.look(lambda connection: connection.execute(SLOW), is_long=True)

    with pytest.raises(DatabaseAway, match=r"it has said nothing for 0\.4 s"):
        hasty.look(lambda connection: connection.execute(SLOW))


@pytest.mark.slow
def test_work_is_as_hasty_as_usual_on_a_connection_that_long_work_had_before(hasty: Database) -> None:
    for is_long in (True, True):
        hasty.look(lambda connection: connection.execute("select 1"), is_long=is_long)

    assert hasty.change_at_once(SLOW, {}, keeps_plan=False) is None
    with pytest.raises(DatabaseAway, match="said nothing"):
        hasty.change(lambda connection, _: connection.execute("select 1"), is_at_once=True)


@pytest.mark.slow
def test_what_the_driver_logs_of_it_is_for_a_program_that_collects_it_and_is_not_printed(
    hasty: Database, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    driver = logging.getLogger("psycopg")
    monkeypatch.setattr(driver, "propagate", False)  # as if nobody collected it

    with pytest.raises(DatabaseAway, match="said nothing"):
        hasty.change(lambda connection, _: connection.execute(SLOW).fetchone(), is_at_once=True)

    assert driver.isEnabledFor(logging.WARNING)
    assert capfd.readouterr().err == ""


@pytest.mark.slow
def test_what_comes_in_pieces_may_take_its_time(hasty: Database) -> None:
    assert len(hasty.look(lambda connection: connection.execute(PIECES).fetchall())) == 4


def test_limits_are_longer_than_those_of_the_server() -> None:
    assert SILENCE_LIMITS.usual_s > statements.LOCK_TIMEOUT_S
    assert SILENCE_LIMITS.long_s > statements.STATEMENT_TIMEOUT_S


class Moment:
    """The time, as the test moves it."""

    time = 100.0

    def __call__(self) -> float:
        return self.time


def test_one_asks_again_and_the_others_are_told_at_once_meanwhile() -> None:
    now = Moment()
    hearing = Hearing(SILENCE_LIMITS, now)
    hearing.check(4.0)
    hearing.note_failure(ServerSilent("it has said nothing for 6 s"))

    with pytest.raises(psycopg.OperationalError, match="nothing for 6 s"):
        hearing.check(4.0)
    now.time += HOLD_OFF_S
    hearing.check(4.0)  # the one
    now.time += 3.9
    with pytest.raises(psycopg.OperationalError):
        hearing.check(4.0)
    now.time += 0.1
    hearing.check(4.0)

    hearing.note_answer()
    for _ in range(2):
        hearing.check(4.0)


def test_server_that_takes_a_connection_and_says_nothing_on_it_keeps_only_one_waiting() -> None:
    now = Moment()
    hearing = Hearing(SILENCE_LIMITS, now)
    hearing.note_failure(ServerSilent("it has said nothing for 6 s"))
    now.time += HOLD_OFF_S
    hearing.check(4.0)  # the one
    hearing.note_connection()

    now.time += SILENCE_LIMITS.usual_s - 0.1
    with pytest.raises(psycopg.OperationalError, match="nothing for 6 s"):
        hearing.check(4.0)
    now.time += 0.1
    hearing.check(4.0)  # the next one


@pytest.mark.slow
def test_whoever_hears_nothing_on_a_connection_of_its_own_tells_the_others(hasty: Database) -> None:
    with hasty.connect() as connection, pytest.raises(ServerSilent):
        connection.execute(SLOW)

    with pytest.raises(DatabaseAway, match=r"it has said nothing for 0\.4 s"):
        hasty.look(lambda connection: connection.execute("select 1"))


@pytest.mark.slow
def test_server_that_answers_on_any_connection_is_asked_by_everyone(hasty: Database) -> None:
    hasty.look(lambda connection: connection.execute("select 1"))
    hasty.look(lambda connection: connection.execute("select 1"))
    hasty._hearing.note_failure(psycopg.OperationalError("timeout expired"), took_s=4.0)

    hasty.look(lambda connection: connection.execute("select 1"))

    hasty.look(lambda connection: connection.execute(SLOW), is_long=True)
    for _ in range(2):
        hasty.connect().close()


def test_server_that_refuses_at_once_is_asked_by_everyone() -> None:
    hearing = Hearing(SILENCE_LIMITS, Moment())

    hearing.note_failure(psycopg.OperationalError("connection refused"), took_s=0.01)

    for _ in range(2):
        hearing.check(4.0)
    assert hearing.limit_s(is_long=True) == SILENCE_LIMITS.long_s


def test_long_work_is_given_up_as_soon_as_other_work_where_nothing_is_heard() -> None:
    hearing = Hearing(SILENCE_LIMITS, Moment())

    hearing.note_failure(psycopg.OperationalError("timeout expired"), took_s=4.0)

    assert hearing.limit_s(is_long=True) == SILENCE_LIMITS.usual_s
    hearing.note_answer()
    assert hearing.limit_s(is_long=True) == SILENCE_LIMITS.long_s
