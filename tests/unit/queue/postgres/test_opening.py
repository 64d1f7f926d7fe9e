"""A database that never answered may have a wrong address; one that did is waited for."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from holdfast.assembly.ground import load_database
from holdfast.errors import DatabaseAway, InvalidSettings
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence
from holdfast.queue import QueueLimits
from holdfast.queue.fallback import FallbackQueue
from holdfast.queue.postgres import Database
from holdfast.queue.postgres.opening import open_with_fallback
from tests.fakes.clock import VirtualClock
from tests.fakes.postgres import own_server
from tests.fakes.spooling import JsonEntry, open_spool

OpenAt = Callable[[str], FallbackQueue]


@pytest.fixture
def open_at(tmp_path: Path) -> Iterator[OpenAt]:
    opened: list[FallbackQueue] = []

    def open_it(url: str) -> FallbackQueue:
        queue = open_with_fallback(
            Database(url),
            "target",
            local=open_spool(tmp_path / "spool"),
            folder=tmp_path,
            limits=QueueLimits(min_free_bytes=0),
            clock=VirtualClock(1000.0),
            layout=Layout(),
        )
        opened.append(queue)
        return queue

    yield open_it
    for queue in opened:
        queue.close()


def test_address_that_never_answered_is_an_error_at_the_start(tmp_path: Path, open_at: OpenAt) -> None:
    with pytest.raises(DatabaseAway, match=r"cannot be used: .*that HOLDFAST_DATABASE_URL leads to it"):
        open_at(f"postgresql://me@/work?host={tmp_path}")


@pytest.mark.slow
def test_real_database_that_goes_away_and_comes_back_gets_everything_once(open_at: OpenAt) -> None:
    server = own_server()
    try:
        queue = open_at(server.url)
        entries = [JsonEntry() for _ in range(6)]
        queue.put_all(entries[:2])
        server.stop()
        away = [queue.put(entry) for entry in entries[2:4]]
        late = open_at(server.url)  # a sidecar that is started meanwhile
        away.append(late.put(entries[4]))
        server.start()
        queue.put(entries[5])
        for each in (queue, late):
            each.move()

        assert {receipt.persistence for receipt in away} == {Persistence.DELAYED}
        assert [item.sequence for item in queue.pending()] == [1, 2, 3, 4, 5, 6]
        assert {item.checkpoint_id for item in queue.pending()} == {e.checkpoint_id for e in entries}
        assert queue._local.status(0.0).depth == 0
    finally:
        server.close()


def test_without_the_driver_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "holdfast.queue.postgres", None)

    with pytest.raises(InvalidSettings, match=r"pip install '\.\[postgres\]'"):
        load_database("postgresql://me@host/work", is_embedded=False)


def test_embedded_github_cannot_be_shared() -> None:
    with pytest.raises(InvalidSettings, match="set HOLDFAST_REPO, too"):
        load_database("postgresql://me@host/work", is_embedded=True)
