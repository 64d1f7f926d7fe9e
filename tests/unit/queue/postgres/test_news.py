"""A replica that rests is woken by what another one accepts."""

import threading

import psycopg
import pytest

from holdfast.queue.postgres import Database, news
from tests.fakes.postgres import shared_server
from tests.fakes.spooling import FakeEntry

from .conftest import OpenShared

LONGEST_S = 60


def listening(open_shared: OpenShared, target: str = "target") -> threading.Event:
    """Return what is set whenever a replica is woken; it listens already."""
    queue, woken = open_shared(target), threading.Event()
    queue.listen(woken.set)
    assert woken.wait(LONGEST_S)
    woken.clear()
    return woken


@pytest.mark.slow
def test_one_that_listens_is_woken_by_a_put_elsewhere(open_shared: OpenShared) -> None:
    woken = listening(open_shared)

    open_shared().put(FakeEntry())

    assert woken.wait(LONGEST_S)


@pytest.mark.slow
def test_news_of_another_target_wake_nobody(open_shared: OpenShared) -> None:
    woken, other = listening(open_shared), listening(open_shared, "other")

    open_shared("other").put(FakeEntry())

    assert other.wait(LONGEST_S)
    assert not woken.is_set()


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

    assert woken.wait(LONGEST_S)


def test_telling_fails_without_harm(database: Database) -> None:
    told = news.News(database, 1)
    database.close()

    told.tell()
