"""One drains at a time; who was replaced while it was frozen changes nothing any more."""

import os
import socket
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.errors import SpoolBusy, UnknownRun
from holdfast.format.receipt import Delivery, Progress
from holdfast.queue.postgres import Database, lease
from tests.fakes.spooling import FakeEntry

from .conftest import OpenShared

DELIVERY = Delivery(1, "checkpoints/build-1/cp_001_manual.json", blob_sha="b10b", commit_sha="c0ffee")


def expire(database: Database) -> None:
    """Let the lease run out, as if its holder had been frozen for longer."""
    database.look(
        lambda connection: connection.execute("update holdfast_lease set expires_at = clock_timestamp()")
    )


@pytest.fixture(autouse=True)
def _no_renewal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_EVERY_S", 3600.0)


@pytest.mark.slow
def test_lease_is_free_again_when_its_holder_ends(open_shared: OpenShared) -> None:
    one, other = open_shared(), open_shared()
    with one.drainer():
        assert other.drained_by() == f"process {os.getpid()} on {socket.gethostname()}"
        with pytest.raises(SpoolBusy) as caught, other.drainer():
            pass
        assert caught.value.retry_in_s is not None
        assert 0 < caught.value.retry_in_s <= lease.LOOK_EVERY_S
    assert one.drained_by() is None
    with other.drainer():
        pass


@pytest.mark.slow
def test_each_target_has_a_drainer_of_its_own(open_shared: OpenShared) -> None:
    one, other = open_shared("one"), open_shared("other")
    one.put(FakeEntry())
    with one.drainer(), other.drainer():
        assert other.pending() == []


@pytest.mark.slow
def test_lease_that_ran_out_is_taken_over_and_its_old_holder_changes_nothing(
    open_shared: OpenShared, database: Database
) -> None:
    frozen, successor = open_shared(), open_shared()
    frozen.put_all([FakeEntry(), FakeEntry()])
    first, second = frozen.pending()
    changes: list[Callable[[], object]] = [
        lambda: frozen.acknowledge({first.checkpoint_id: DELIVERY}),
        lambda: frozen.mark_committed({first.checkpoint_id: DELIVERY}),
        lambda: frozen.release([first], "late", not_before=9e9),
        lambda: frozen.renumber(first, 7, b"7:late"),
        lambda: frozen.set_aside(first, "late"),
        lambda: frozen.note("intent", b"late"),
        lambda: frozen.forget("kept"),
        lambda: frozen.learn_sequence("build-1", 70),
        lambda: frozen.purge_receipts(older_than=9e9, keep=0),
    ]
    with frozen.drainer():
        frozen.note("kept", b"1")
        expire(database)
        frozen.note("kept", b"2")  # nobody has taken over yet
        with successor.drainer():
            for change in changes:
                with pytest.raises(SpoolBusy, match="another process has taken over"):
                    change()
            successor.acknowledge({second.checkpoint_id: DELIVERY})
    assert [item.checkpoint_id for item in successor.pending()] == [first.checkpoint_id]
    assert successor.notes() == {"kept": b"2"}
    assert successor.known_sequence("build-1") == 2
    receipt = successor.receipt(first.checkpoint_id)
    assert receipt is not None
    assert receipt.status is Progress.SPOOLED


@pytest.mark.slow
def test_what_the_successor_has_stored_tells_the_old_holder_that_it_was_replaced(
    open_shared: OpenShared, database: Database
) -> None:
    frozen, successor = open_shared(), open_shared()
    frozen.put(FakeEntry())
    (item,) = frozen.pending()
    with frozen.drainer():
        expire(database)
        with successor.drainer():
            successor.acknowledge({item.checkpoint_id: DELIVERY})
            with pytest.raises(SpoolBusy, match="another process has taken over"):
                frozen.read(item)
    with pytest.raises(UnknownRun, match="not in the spool any more"):
        frozen.read(item)  # who does not drain is told what has become of it


@pytest.mark.slow
def test_old_holder_that_ends_does_not_end_the_lease_of_its_successor(
    open_shared: OpenShared, database: Database
) -> None:
    frozen, successor = open_shared(), open_shared()
    old = frozen.drainer()
    old.__enter__()
    expire(database)
    with successor.drainer():
        old.__exit__(None, None, None)
        with pytest.raises(SpoolBusy), frozen.drainer():
            pass


def test_one_that_is_frozen_may_still_accept(open_shared: OpenShared, database: Database) -> None:
    frozen, successor = open_shared(), open_shared()
    with frozen.drainer():
        expire(database)
        with successor.drainer():
            assert frozen.put(FakeEntry()).sequence_number == 1


def test_lease_is_renewed_while_it_is_held(
    open_shared: OpenShared, database: Database, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(lease, "RENEW_EVERY_S", 0.01)
    renewals = threading.Semaphore(0)
    say = lease.Lease._say

    def say_and_tell(self: lease.Lease, statement: str, *values: object) -> int:
        count = say(self, statement, *values)
        renewals.release()
        return count

    monkeypatch.setattr(lease.Lease, "_say", say_and_tell)
    queue = open_shared()
    with queue.drainer():
        expire(database)
        while renewals.acquire(blocking=False):
            pass
        # One may have been under way; the second after it has run out was not.
        assert all(renewals.acquire(timeout=30) for _ in range(2))
        holder = queue._lease.holder()

    assert holder
    assert holder.left_s > lease.LEASE_S / 2
