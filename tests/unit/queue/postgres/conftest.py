"""A schema of its own for each test, and queues in it."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.clock import Clock
from holdfast.format.paths import Layout
from holdfast.queue import QueueLimits
from holdfast.queue.postgres import Database, PostgresQueue
from tests.fakes.clock import VirtualClock
from tests.fakes.postgres import postgres_url

OpenShared = Callable[..., PostgresQueue]


@pytest.fixture
def url(tmp_path: Path) -> str:
    return postgres_url(tmp_path)


@pytest.fixture
def database(url: str) -> Iterator[Database]:
    database = Database(url)
    yield database
    database.close()


@pytest.fixture
def open_shared(url: str, tmp_path: Path) -> Iterator[OpenShared]:
    """Return what opens the shared queue; each opening stands for a replica."""
    opened: list[PostgresQueue] = []

    def open_it(target: str = "target", clock: Clock | None = None, url: str = url) -> PostgresQueue:
        queue = PostgresQueue.open(
            Database(url),
            target,
            folder=tmp_path / "spool",
            limits=QueueLimits(min_free_bytes=0),
            clock=clock or VirtualClock(1000.0),
            layout=Layout(),
        )
        opened.append(queue)
        return queue

    yield open_it
    for queue in opened:
        queue.close()
