"""A replica that rests is woken by what another one accepts."""

from queue import SimpleQueue

import psycopg
import pytest

from holdfast.format.triggers import Priority
from holdfast.queue.postgres import Database, news
from tests.fakes.postgres import shared_server
from tests.fakes.spooling import FakeEntry

from .conftest import OpenShared

LONGEST_S = 60


class Woken:
    """What a replica that listens was woken with."""

    def __init__(self) -> None:
        self._heard: SimpleQueue[bool] = SimpleQueue()
        self.wake = self._heard.put
        self.is_untouched = self._heard.empty

    def wait(self) -> bool:
        """Whether the next news were urgent."""
        return self._heard.get(timeout=LONGEST_S)


def listening(open_shared: OpenShared, target: str = "target") -> Woken:
    """Return what hears whenever a replica is woken; it listens already."""
    queue, woken = open_shared(target), Woken()
    queue.listen(woken.wake)
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
