"""All replicas spend from one budget, whatever their clocks say."""

import threading
from dataclasses import dataclass
from pathlib import Path

import pytest

from holdfast.clock import SystemClock
from holdfast.errors import Throttled
from holdfast.queue.postgres import Database
from holdfast.queue.postgres.budget_table import TableRateLimiter
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
