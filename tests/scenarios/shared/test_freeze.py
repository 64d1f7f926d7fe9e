"""A PostgreSQL that freezes: saving goes on, on the local disk, and everything arrives once afterwards."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.errors import DatabaseAway, SpoolBusy
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence
from holdfast.queue import QueueLimits
from holdfast.queue import fallback as fallback_module
from holdfast.queue.fallback import FallbackQueue
from holdfast.queue.postgres import Database
from holdfast.queue.postgres import silence as silence_module
from holdfast.queue.postgres.opening import open_with_fallback
from holdfast.queue.postgres.silence import SilenceLimits
from tests.fakes.clock import VirtualClock
from tests.fakes.freezing import FreezingProxy, freezing_proxy
from tests.fakes.postgres import postgres_url
from tests.fakes.sidecar import running_sidecar
from tests.fakes.spooling import JsonEntry, open_spool

USUAL_S = 0.4
LONG_S = 1.2
LONGEST_S = 60.0

pytestmark = pytest.mark.slow


@pytest.fixture(autouse=True)
def _impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(silence_module, "SILENCE_LIMITS", SilenceLimits(USUAL_S, LONG_S))
    monkeypatch.setattr(fallback_module, "TRY_EVERY_S", 0.02)


@pytest.fixture
def proxy(tmp_path: Path) -> Iterator[FreezingProxy]:
    with freezing_proxy(postgres_url(tmp_path)) as proxy:
        yield proxy


@pytest.fixture
def queue(tmp_path: Path, proxy: FreezingProxy) -> Iterator[FallbackQueue]:
    """Return a queue with a pool of connections that were used already."""
    database = Database(proxy.url)
    queue = open_with_fallback(
        database,
        "target",
        local=open_spool(tmp_path / "spool"),
        folder=tmp_path,
        limits=QueueLimits(min_free_bytes=0),
        clock=VirtualClock(1000.0),
        layout=Layout(),
    )
    for _ in range(3):
        queue.status(0.0)
    yield queue
    proxy.thaw()
    queue.close()
    database.close()


def wait_until(is_so: Callable[[], bool]) -> None:
    ends_at = time.monotonic() + LONGEST_S
    while not is_so():
        assert time.monotonic() < ends_at
        time.sleep(0.01)


def is_back(queue: FallbackQueue) -> bool:
    try:
        queue.notes()
    except DatabaseAway:
        return False
    return True


def took_s(work: Callable[[], object]) -> float:
    began = time.monotonic()
    work()
    return time.monotonic() - began


def test_saves_are_answered_from_the_local_disk_and_arrive_once_in_their_order(
    queue: FallbackQueue, proxy: FreezingProxy
) -> None:
    entries = [JsonEntry() for _ in range(8)]
    queue.put_all(entries[:2])

    proxy.freeze()
    away = [queue.put(entry) for entry in entries[2:4]]
    late_s = took_s(lambda: away.extend(queue.put(entry) for entry in entries[4:6]))
    proxy.thaw()
    wait_until(lambda: queue.trouble() is None)
    queue.put_all(entries[6:])

    assert {receipt.persistence for receipt in away} == {Persistence.DELAYED}
    assert late_s < USUAL_S
    assert [item.sequence for item in queue.pending()] == list(range(1, 9))
    arrivals = queue.arrivals(entry.checkpoint_id for entry in entries)
    assert sorted(arrivals, key=lambda each: arrivals[each]) == [entry.checkpoint_id for entry in entries]
    assert queue._local.status(0.0).depth == 0


def test_what_the_server_stored_without_a_word_is_not_doubled(
    queue: FallbackQueue, proxy: FreezingProxy
) -> None:
    entry = JsonEntry()
    queue.put(JsonEntry())
    proxy.lose_answers()

    assert queue.put(entry).persistence is Persistence.DELAYED

    proxy.thaw()
    wait_until(lambda: queue.trouble() is None)
    assert [item.sequence for item in queue.pending()] == [1, 2]


def test_many_that_save_at_once_wait_once_and_not_one_after_the_other(
    queue: FallbackQueue, proxy: FreezingProxy
) -> None:
    queue.put(JsonEntry())
    entries = [JsonEntry(run_id=f"run-{number}") for number in range(16)]
    proxy.freeze()

    with ThreadPoolExecutor(16) as pool:
        all_s = took_s(lambda: list(pool.map(queue.put, entries)))

    # The first of them are given up together, the others find that out.
    assert all_s < 4 * USUAL_S
    proxy.thaw()
    wait_until(lambda: queue.trouble() is None)
    assert queue.status(0.0).depth == 17


def test_whoever_asks_how_it_stands_is_told_what_is_known_here(
    queue: FallbackQueue, proxy: FreezingProxy
) -> None:
    proxy.freeze()

    first_s = took_s(lambda: queue.status(0.0))

    assert USUAL_S <= first_s < 2 * USUAL_S + 0.5
    assert "it has said nothing for 0.4 s; checkpoints are kept on the local disk" in (queue.trouble() or "")
    queue.put(JsonEntry())
    assert took_s(lambda: [queue.status(0.0) for _ in range(20)]) < USUAL_S
    assert queue.status(0.0).depth == 1


def test_drainer_that_hangs_amid_a_change_gives_up_and_changes_nothing_when_it_was_replaced(
    queue: FallbackQueue, proxy: FreezingProxy, tmp_path: Path
) -> None:
    item = queue.put(JsonEntry())
    other = Database(postgres_url(tmp_path))

    def expire() -> None:
        """Let another replica take over, which sees a server that is well."""
        other.look(lambda connection: connection.execute("update holdfast_lease set fence = fence + 1"))

    with queue.drainer():
        (listed,) = queue.pending()
        proxy.freeze()
        with pytest.raises(DatabaseAway, match="said nothing"):
            queue.set_aside(listed, "refused")
        expire()
        proxy.thaw()
        wait_until(lambda: is_back(queue))
        with pytest.raises(SpoolBusy, match="taken over"):
            queue.set_aside(listed, "refused")

    assert [each.checkpoint_id for each in queue.pending()] == [item.checkpoint_id]
    other.close()


def test_long_work_is_given_up_as_soon_as_others_have_heard_nothing_either(
    queue: FallbackQueue, proxy: FreezingProxy, monkeypatch: pytest.MonkeyPatch
) -> None:
    queue._reach()
    monkeypatch.setattr(queue._shared._database._hearing, "_limits", SilenceLimits(USUAL_S, 3600.0))  # type: ignore[union-attr]
    proxy.freeze()
    failures: list[Exception] = []

    def list_all() -> None:
        try:
            queue._shared.pending()  # type: ignore[union-attr]
        except DatabaseAway as error:
            failures.append(error)

    hanging = threading.Thread(target=list_all)
    hanging.start()
    queue.put(JsonEntry())
    hanging.join(LONGEST_S)

    assert len(failures) == 1


@pytest.fixture
def github(tmp_path: Path) -> Iterator[str]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo="acme/state"))
    with EmulatorServer(emulator) as server:
        yield server.url
    emulator.close()


def test_sidecar_goes_on_and_stores_everything_once_it_is_back(
    tmp_path: Path, github: str, proxy: FreezingProxy
) -> None:
    settings: dict[str, Any] = {
        "repo": "acme/state",
        "token": "t",
        "api_url": github,
        "database_url": proxy.url,
        "write_interval_s": 0,
        "content_per_minute": 0,
        "content_per_hour": 0,
        "write_mode": "commit",
    }
    with running_sidecar(tmp_path / "sidecar", **settings) as sidecar:
        receipts = [sidecar.submit(state={"number": number}).json() for number in range(3)]
        proxy.freeze()

        receipts += [sidecar.submit(state={"number": number}).json() for number in range(3, 6)]
        looks = [partial(sidecar.client.get, path) for path in ("/v1/status", "/metrics", "/readyz")]
        longest_s = max(map(took_s, looks))
        ready, status = (sidecar.client.get(path).json() for path in ("/readyz", "/v1/status"))
        text = sidecar.client.get("/metrics").text

        proxy.thaw()
        last = sidecar.client.post(
            "/v1/runs/build-1/checkpoints?wait=verified",
            json={"trigger": "run_complete", "phase": "phase_1_plan", "state": {}, "status": "completed"},
        )
        listed = sidecar.client.get("/v1/runs/build-1/checkpoints").json()["checkpoints"]

    assert [each["persistence"] for each in receipts] == ["normal"] * 3 + ["delayed"] * 3
    assert "said nothing" in ready["trouble"]
    assert (status["spool"]["depth"], "said nothing" in status["last_error"]) == (3, True)
    assert "holdfast_spool_depth 3.0" in text
    # Each of them may be the one that asks again whether it is back, for as long as a connection may take.
    assert longest_s < 5
    assert last.json()["status"] == "verified"
    assert [each["sequence"] for each in listed] == list(range(1, 8))
    assert [each["checkpoint_id"] for each in listed[:6]] == [each["checkpoint_id"] for each in receipts]
