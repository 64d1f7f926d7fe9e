"""What nothing stands against is taken in by one statement, all else with care; both give the same."""

from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import HoldfastError, SpoolFull
from holdfast.format.paths import Layout
from holdfast.queue import QueueLimits
from holdfast.queue.contract import PutOutcome
from holdfast.queue.postgres import Database, PostgresQueue
from holdfast.queue.postgres.database import Connection
from tests.fakes.clock import VirtualClock
from tests.fakes.spooling import FakeEntry

Rows = list[tuple[Any, ...]] | None


class WatchedDatabase(Database):
    """Counts what is asked of it; `tell` may change what is told of a statement that was carried out."""

    def __init__(self, url: str) -> None:
        super().__init__(url)
        self.at_once = self.with_care = 0
        self.tell: Callable[[Rows], Rows] = lambda rows: rows

    def change_at_once(self, statement: str, values: Mapping[str, object], *, keeps_plan: bool) -> Rows:
        self.at_once += 1
        return self.tell(super().change_at_once(statement, values, keeps_plan=keeps_plan))

    def change(
        self, work: Callable[[Connection, bool], Any], *, is_at_once: bool = False, is_long: bool = False
    ) -> Any:
        self.with_care += 1
        return super().change(work, is_at_once=is_at_once, is_long=is_long)


class Replica:
    """A queue over a database that is watched."""

    def __init__(self, url: str, folder: Path) -> None:
        self.database = WatchedDatabase(url)
        self.queue = PostgresQueue.open(
            self.database,
            "target",
            folder=folder,
            limits=QueueLimits(min_free_bytes=0),
            clock=VirtualClock(1000.0),
            layout=Layout(),
        )
        self.begin_to_count()

    def begin_to_count(self) -> None:
        self.database.at_once = self.database.with_care = 0

    def put(self, *runs: str) -> list[int]:
        return [number_of(each) for each in self.queue.put_all([FakeEntry(run_id=run) for run in runs])]

    @property
    def counted(self) -> tuple[int, int]:
        return self.database.at_once, self.database.with_care


def number_of(outcome: PutOutcome) -> int:
    assert not isinstance(outcome, HoldfastError)
    return outcome.sequence_number


@pytest.fixture
def open_replica(url: str, tmp_path: Path) -> Iterator[Callable[[], Replica]]:
    opened: list[Replica] = []

    def open_it() -> Replica:
        opened.append(Replica(url, tmp_path / "spool"))
        return opened[-1]

    yield open_it
    for replica in opened:
        replica.queue.close()


@pytest.fixture
def replica(open_replica: Callable[[], Replica]) -> Replica:
    return open_replica()


def test_one_statement_takes_in_what_nothing_stands_against(replica: Replica) -> None:
    assert replica.put("a", "b", "a", "a") == [1, 1, 2, 3]
    assert replica.put("a", "c") == [4, 1]

    assert replica.counted == (2, 0)
    assert [(item.run_id, item.sequence) for item in replica.queue.pending()] == [
        ("a", 1),
        ("b", 1),
        ("a", 2),
        ("a", 3),
        ("a", 4),
        ("c", 1),
    ]
    assert [replica.queue.read(item) for item in replica.queue.pending()][2] == b"2:state"


def test_run_whose_number_was_guessed_wrong_goes_the_careful_way_and_the_others_do_not(
    replica: Replica, open_replica: Callable[[], Replica]
) -> None:
    replica.put("a")
    other = open_replica()

    assert other.put("b", "a", "b", "c", "a") == [1, 2, 2, 1, 3]

    assert other.counted == (1, 1)
    bodies = {(item.run_id, other.queue.read(item)) for item in other.queue.pending()}
    assert bodies == {
        (run, b"%d:state" % n) for run, last in [("a", 3), ("b", 2), ("c", 1)] for n in range(1, last + 1)
    }
    assert other.put("a", "b", "c") == [4, 3, 2]
    assert other.counted == (2, 1)
    assert other.queue.status(1000.0).depth == 9


def test_where_guesses_are_wrong_they_are_tried_less_and_less_until_they_are_right_again(
    replica: Replica, open_replica: Callable[[], Replica]
) -> None:
    other = open_replica()
    tried = []
    for n in range(9):
        assert other.put("a") == [2 * n + 1]
        replica.begin_to_count()
        assert replica.put("a") == [2 * n + 2]
        tried.append(replica.database.at_once)
    assert tried == [1, 0, 1, 0, 0, 1, 0, 0, 0]

    assert replica.put("a") == [19]
    assert replica.put("a", "a") == [20, 21]
    replica.begin_to_count()
    assert replica.put("a") == [22]
    assert replica.counted == (1, 0)


def test_answer_that_got_lost_stores_nothing_twice(replica: Replica) -> None:
    replica.put("a")
    replica.database.tell = lambda _: None

    assert replica.put("a", "b") == [2, 1]

    assert replica.queue.status(1000.0).depth == 3


def test_wrong_one_among_them_keeps_nobody_from_being_taken_in_at_once(replica: Replica) -> None:
    entries = [FakeEntry(run_id="a"), FakeEntry(run_id="a|b"), FakeEntry(run_id="b")]

    first, wrong, last = replica.queue.put_all(entries)

    assert (number_of(first), number_of(last)) == (1, 1)
    assert isinstance(wrong, HoldfastError)
    assert replica.counted == (1, 0)


def test_what_finds_no_room_leaves_nothing_of_its_run(replica: Replica) -> None:
    replica.queue._limits = QueueLimits(min_free_bytes=0, max_items=1)

    outcomes = replica.queue.put_all([FakeEntry(run_id=run) for run in ("a", "b", "c")])

    assert [isinstance(each, SpoolFull) for each in outcomes] == [False, True, True]
    assert isinstance(replica.queue.put_all([FakeEntry(run_id="d")])[0], SpoolFull)
    known = replica.database.look(lambda say: say.execute(b"select run_id from holdfast_run").fetchall())
    assert known == [("a",)]


def test_wanted_number_goes_the_careful_way(replica: Replica) -> None:
    (outcome,) = replica.queue.put_all([FakeEntry(sequence=7)])

    assert number_of(outcome) == 7
    assert replica.counted == (0, 1)


@pytest.mark.parametrize("default", ["off", "local"])
def test_what_is_taken_in_at_once_waits_for_the_servers_disk(url: str, tmp_path: Path, default: str) -> None:
    replica = Replica(f"{url}%20-csynchronous_commit%3D{default}", tmp_path / "spool")
    settings: list[tuple[Any, ...]] = []

    def look_within(statement: str, values: Mapping[str, object], **_: bool) -> Rows:
        def work(connection: Connection) -> Rows:
            with connection.transaction():
                rows = connection.execute(statement.encode(), values).fetchall()
                settings.extend(connection.execute("show synchronous_commit").fetchall())
            return rows

        return replica.database.look(work)

    replica.database.change_at_once = look_within  # type: ignore[method-assign]

    assert replica.put("a") == [1]

    assert settings == [("on",)]
    replica.queue.close()
