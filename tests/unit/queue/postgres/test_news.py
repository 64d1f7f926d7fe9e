"""A replica that rests is woken by what another one accepts."""

from collections.abc import Sequence
from pathlib import Path
from queue import SimpleQueue

import psycopg
import pytest

from holdfast.format.receipt import Delivery, Progress
from holdfast.format.triggers import Priority
from holdfast.queue.contract import Settled
from holdfast.queue.postgres import Database, news
from tests.fakes.postgres import postgres_url, shared_server
from tests.fakes.spooling import FakeEntry

from .conftest import OpenShared

LONGEST_S = 60
DELIVERY = Delivery(1, "path", "b10b", "c0ffee")


class Woken:
    """What a replica that listens was woken with."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[bool] = SimpleQueue()
        self.settled: SimpleQueue[Sequence[Settled]] = SimpleQueue()
        self.wake = self._heard.put
        self.is_untouched = self._heard.empty

    def wait(self) -> bool:
        """Whether the next news were urgent."""
        return self._heard.get(timeout=LONGEST_S)


def listening(open_shared: OpenShared, target: str = "target") -> Woken:
    """Return what hears whenever a replica is woken; it listens already."""
    queue, woken = open_shared(target), Woken()
    queue.listen(woken.wake, woken.settled.put)
    assert woken.wait(), "nobody knows what was told before"
    return woken


@pytest.mark.slow
def test_one_that_listens_is_woken_by_a_put_elsewhere(open_shared: OpenShared) -> None:
    woken = listening(open_shared)

    open_shared().put(FakeEntry())

    assert not woken.wait()


@pytest.mark.slow
def test_a_critical_one_is_told_as_urgent_however_lately_something_was_told(
    open_shared: OpenShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "TELL_EVERY_S", 3600.0)
    woken, other = listening(open_shared), open_shared()
    for priority in (Priority.HIGH, Priority.HIGH, Priority.CRITICAL, Priority.CRITICAL):
        other.put_all([FakeEntry(), FakeEntry(priority=priority)])

    assert [woken.wait() for _ in range(3)] == [False, True, True]
    assert woken.is_untouched()


@pytest.mark.slow
def test_news_of_another_target_wake_nobody(open_shared: OpenShared) -> None:
    woken, other = listening(open_shared), listening(open_shared, "other")

    open_shared("other").put(FakeEntry())

    assert not other.wait()
    assert woken.is_untouched()


@pytest.mark.slow
def test_what_is_verified_and_refused_is_heard_by_every_other_replica_and_of_its_target_alone(
    open_shared: OpenShared,
) -> None:
    drainer, own = open_shared(), Woken()
    drainer.listen(own.wake, own.settled.put)
    assert own.wait()
    others, stranger = [listening(open_shared), listening(open_shared)], listening(open_shared, "other")
    drainer.put_all([FakeEntry(), FakeEntry(), FakeEntry(run_id="build-2")])
    _, newest, aside = items = drainer.pending()

    drainer.acknowledge({item.checkpoint_id: Delivery(7, "path", "b10b", "c0ffee") for item in items[:2]})
    drainer.set_aside(aside, "no")

    for other in others:
        (verified,) = other.settled.get(timeout=LONGEST_S)
        assert verified == (Progress.VERIFIED, "build-1", newest.checkpoint_id, 7)
        (refused,) = other.settled.get(timeout=LONGEST_S)
        assert refused == (Progress.REFUSED, "build-2", aside.checkpoint_id, aside.sequence)
    assert own.settled.empty()
    assert stranger.settled.empty()


@pytest.mark.slow
def test_tables_in_another_schema_of_the_database_are_other_tables(
    open_shared: OpenShared, tmp_path: Path
) -> None:
    other, drainer = listening(open_shared), open_shared(url=postgres_url(tmp_path / "another"))
    for queue in (drainer, open_shared()):
        queue.put(FakeEntry(run_id=f"of-{queue is drainer}"))
        queue.acknowledge({item.checkpoint_id: DELIVERY for item in queue.pending()})

    assert [each.run_id for each in other.settled.get(timeout=LONGEST_S)] == ["of-False"]


@pytest.mark.slow
def test_many_runs_with_long_names_are_heard_of(open_shared: OpenShared) -> None:
    other, drainer = listening(open_shared), open_shared()
    names = [f"{number:0>128}" for number in range(100)]
    drainer.put_all([FakeEntry(run_id=name) for name in names])

    drainer.acknowledge({item.checkpoint_id: DELIVERY for item in drainer.pending()})

    told: list[str] = []
    while len(told) < len(names):
        told += [each.run_id for each in other.settled.get(timeout=LONGEST_S)]
    assert told == names


@pytest.mark.slow
def test_words_that_make_no_sense_are_passed_over(open_shared: OpenShared, url: str) -> None:
    other, drainer = listening(open_shared), open_shared()
    with psycopg.connect(url) as connection:
        (tables,) = connection.execute("select 'holdfast_item'::regclass::oid::text").fetchone() or ("",)
        for said in ("", "1", " x {", ' x [["gone", "a", "b", 1]]', " x 7", ' x [["verified", "a"]]'):
            connection.execute("select pg_notify('holdfast', %s)", (f"{tables} 1{said}",))

    drainer.put(FakeEntry())
    drainer.acknowledge({item.checkpoint_id: DELIVERY for item in drainer.pending()})

    assert [each.run_id for each in other.settled.get(timeout=LONGEST_S)] == ["build-1"]


@pytest.mark.slow
def test_it_listens_again_when_its_connection_broke(
    open_shared: OpenShared, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(news, "_PAUSE_S", 0.0)
    woken = listening(open_shared)

    with psycopg.connect(shared_server().url, autocommit=True) as connection:
        connection.execute(
            "select pg_terminate_backend(pid) from pg_stat_activity where query = 'listen holdfast'"
        )

    assert woken.wait()


def test_telling_fails_without_harm(database: Database) -> None:
    told = news.News(database, 1)
    database.close()

    told.tell(is_urgent=True)
    told.tell_settled([Settled(Progress.VERIFIED, "build-1", "id", 1)])
