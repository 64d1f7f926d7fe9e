"""All replicas spend from one budget, whatever their clocks say."""

import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from holdfast.clock import SystemClock
from holdfast.errors import DatabaseAway, Throttled
from holdfast.queue.postgres import Database
from holdfast.queue.postgres.budget_table import TableRateLimiter
from holdfast.queue.postgres.migrations import prepare_database
from holdfast.ratelimit.limits import Cost, Limits
from tests.fakes.clock import VirtualClock

WRITE = Cost(is_mutation=True, creates_content=True)
UNHURRIED = Limits(write_interval_s=0)


@dataclass
class WrongClock(SystemClock):
    """The machine's clock, so many seconds ahead."""

    ahead_s: float

    def now(self) -> float:
        return SystemClock().now() + self.ahead_s


def throttled(retry_after_s: float) -> Throttled:
    return Throttled("/", "slow down", kind="secondary", retry_after_s=retry_after_s)


@pytest.mark.slow
def test_what_one_spends_the_other_cannot(database: Database) -> None:
    clock = VirtualClock(1000.0)
    one, other = (TableRateLimiter(database, "token", UNHURRIED, clock) for _ in range(2))

    spent = sum(limiter.take(WRITE).seconds == 0 for limiter in (one, other) * 60)

    assert spent == UNHURRIED.capacity(80, is_critical=False)
    assert one.report() == other.report()


def test_each_token_has_its_own(database: Database) -> None:
    clock = VirtualClock(1000.0)
    one, other = (TableRateLimiter(database, name, Limits(), clock) for name in ("one", "other"))

    one.block(throttled(300))

    assert one.take(WRITE).seconds == 300
    assert other.take(WRITE).seconds == 0


def test_wait_after_a_refusal_holds_for_all_whatever_their_clocks_say(database: Database) -> None:
    refused = TableRateLimiter(database, "token", Limits(), SystemClock())
    refused.block(throttled(300))

    for ahead_s in (-4000.0, -3.0, 0.0, 3.0, 4000.0):
        waits = TableRateLimiter(database, "token", Limits(), WrongClock(ahead_s))
        assert 290 < waits.take(WRITE).seconds <= 300


@pytest.mark.slow
def test_clocks_that_differ_do_not_make_the_hour_shorter(database: Database) -> None:
    limiters = [
        TableRateLimiter(database, "token", UNHURRIED, WrongClock(ahead_s)) for ahead_s in (-50.0, 0.0, 50.0)
    ]

    spent = sum(limiter.take(WRITE).seconds == 0 for limiter in limiters * 40)

    assert spent == UNHURRIED.capacity(80, is_critical=False)


@pytest.mark.slow
def test_threads_of_several_replicas_never_spend_more_than_there_is(url: str) -> None:
    clock = VirtualClock(1000.0)
    databases = [Database(url) for _ in range(3)]
    spent: list[int] = []

    def spend(database: Database) -> None:
        limiter = TableRateLimiter(database, "token", UNHURRIED, clock)
        spent.append(sum(limiter.take(WRITE).seconds == 0 for _ in range(40)))

    threads = [threading.Thread(target=spend, args=(database,)) for database in databases]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    for database in databases:
        database.close()

    assert sum(spent) == UNHURRIED.capacity(80, is_critical=False)


def test_without_the_database_the_budget_goes_on_in_memory(tmp_path: Path) -> None:
    limiter = TableRateLimiter(
        Database(f"postgresql://me@/work?host={tmp_path}"), "token", Limits(), VirtualClock(1000.0)
    )

    assert limiter.take(WRITE).seconds == 0
    assert limiter.take(WRITE).seconds == 1.0
    assert limiter.budget.calls_this_run == 1


@pytest.mark.slow
@pytest.mark.parametrize("record", [b"", b"not a budget"])
def test_damaged_record_counts_as_a_fresh_budget(database: Database, record: bytes) -> None:
    limiter = TableRateLimiter(database, "token", Limits(), VirtualClock(1000.0))
    limiter.take(WRITE)
    database.look(lambda connection: connection.execute("update holdfast_budget set record = %s", (record,)))

    assert limiter.budget.calls_this_run == 0


class Leaving(Database):
    """Goes away when it is told to."""

    is_away = False

    def _try(self, *arguments: Any, **named: Any) -> Any:
        if self.is_away:
            raise DatabaseAway(self.description, "gone")
        return super()._try(*arguments, **named)


@pytest.fixture
def leaving(url: str) -> Iterator[Leaving]:
    database = Leaving(url)
    yield database
    database.close()


@pytest.mark.parametrize("parted_at_s", [0.0, 0.3, 30.0])
def test_what_was_spent_while_it_was_away_is_added_when_it_is_back(
    leaving: Leaving, database: Database, parted_at_s: float
) -> None:
    clock = VirtualClock(1000.0)
    cut_off = TableRateLimiter(leaving, "token", UNHURRIED, clock)
    other = TableRateLimiter(database, "token", UNHURRIED, clock)
    assert [limiter.take(WRITE).seconds for limiter in (cut_off, other, cut_off)] == [0.0, 0.0, 0.0]
    clock.time += parted_at_s
    leaving.is_away = True

    assert [limiter.take(WRITE).seconds for limiter in (cut_off, other) * 5] == [0.0] * 10

    clock.time += 5.0
    leaving.is_away = False
    assert cut_off.budget.content_spent(clock.time) == 13
    assert cut_off.take(WRITE).seconds == 0.0
    for limiter in (cut_off, other):
        assert limiter.budget.content_spent(clock.time) == 14
        assert limiter.budget.calls_this_run == 14


def test_what_was_spent_before_it_was_ever_reached_is_added(leaving: Leaving, database: Database) -> None:
    leaving.is_away = True
    cut_off = TableRateLimiter(leaving, "token", UNHURRIED, WrongClock(-4000.0))
    cut_off.take(WRITE)
    TableRateLimiter(database, "token", UNHURRIED, SystemClock()).take(WRITE)

    leaving.is_away = False
    cut_off.close()

    other = TableRateLimiter(database, "token", UNHURRIED, SystemClock())
    assert other.budget.content_spent(SystemClock().now(), 60.0) == 2


def test_refusal_that_came_while_it_was_away_holds_for_all_when_it_is_back(
    leaving: Leaving, database: Database
) -> None:
    clock = VirtualClock(1000.0)
    cut_off, other = (TableRateLimiter(each, "token", Limits(), clock) for each in (leaving, database))
    leaving.is_away = True
    cut_off.block(throttled(300))
    assert other.take(WRITE).seconds == 0

    leaving.is_away = False
    cut_off.begin_run()

    assert other.take(WRITE).seconds == 300


def test_look_that_is_overtaken_by_a_change_does_not_undo_what_is_known(leaving: Leaving) -> None:
    limiter = TableRateLimiter(leaving, "token", UNHURRIED, VirtualClock(1000.0))
    look = leaving.look

    def overtaken(work: Callable[[Any], Any]) -> Any:
        seen = look(work)
        leaving.look = look  # type: ignore[method-assign]
        limiter.take(WRITE)
        return seen

    limiter.take(WRITE)
    leaving.look = overtaken  # type: ignore[method-assign, assignment]
    assert limiter.budget.calls_this_run == 2
    leaving.is_away = True

    assert limiter.budget.calls_this_run == 2


@pytest.mark.slow
def test_what_is_left_is_told_while_a_change_hangs(url: str) -> None:
    hanging, may_go = threading.Event(), threading.Event()

    class Hanging(Database):
        def change(self, *arguments: Any, **named: Any) -> Any:
            hanging.set()
            may_go.wait(60)
            return super().change(*arguments, **named)

    database = Hanging(url)
    limiter = TableRateLimiter(database, "token", UNHURRIED, VirtualClock(1000.0))
    prepare_database(database)
    taking = threading.Thread(target=limiter.take, args=(WRITE,))
    taking.start()
    hanging.wait(60)

    assert limiter.budget.calls_this_run == 0

    may_go.set()
    taking.join(60)
    assert limiter.budget.calls_this_run == 1
    database.close()
