"""The thread that drains: woken by news, ended by nothing but the order to stop and a failed disk."""

import threading
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import structlog

from holdfast.errors import DiskFailed, SpoolBusy, SpoolUnwritable, Stopped
from holdfast.sidecar import drainer as module
from holdfast.sidecar.drainer import Drainer
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

LONGEST_S = 60


@pytest.fixture
def workshop(tmp_path: Path) -> Iterator[Workshop]:
    with open_workshop(tmp_path, MemoryGateway()) as workshop:
        yield workshop
        workshop.stop.set()


class Owner:
    """Hears what a drainer tells."""

    def __init__(self, workshop: Workshop) -> None:
        self.verified = 0
        self.failures: list[DiskFailed] = []
        self.is_told = threading.Event()
        self.is_drained = threading.Event()
        self.drainer = Drainer(
            workshop.worker,
            workshop.stop,
            on_verified=self.count,
            on_drained=self.is_drained.set,
            on_disk_failed=self.failures.append,
        )

    def count(self, checkpoints: int) -> None:
        self.verified += checkpoints
        self.is_told.set()


def test_a_checkpoint_is_drained_when_it_is_told_of(workshop: Workshop) -> None:
    owner = Owner(workshop)
    owner.drainer.start()

    workshop.save()
    owner.drainer.wake(is_urgent=False)

    assert owner.is_told.wait(LONGEST_S)
    assert owner.verified == 1
    assert owner.is_drained.wait(LONGEST_S)
    workshop.stop.set()
    assert owner.drainer.join(LONGEST_S)


def test_what_was_left_is_drained_at_the_beginning(workshop: Workshop) -> None:
    workshop.save()
    owner = Owner(workshop)

    owner.drainer.start()

    assert owner.is_told.wait(LONGEST_S)
    workshop.stop.set()
    assert owner.drainer.join(LONGEST_S)


@pytest.mark.parametrize(
    ("error", "has_traceback"), [(SpoolUnwritable("a newer format"), False), (RuntimeError("a flaw"), True)]
)
def test_only_a_flaw_is_told_with_its_traceback(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, error: Exception, has_traceback: bool
) -> None:
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.0)
    workshop.save()
    owner = Owner(workshop)
    fail_once(owner, error)

    with structlog.testing.capture_logs() as events:
        owner.drainer.start()
        assert owner.is_told.wait(LONGEST_S)

    assert (events[0]["event"], events[0]["cause"]) == ("drain_failed", str(error))
    assert bool(events[0].get("exc_info")) is has_traceback


@pytest.mark.parametrize("error", [RuntimeError("a flaw"), SpoolBusy("another process")])
def test_a_failure_does_not_end_it(
    workshop: Workshop, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    monkeypatch.setattr(module, "LOOK_EVERY_S", 0.0)
    monkeypatch.setattr(module, "LONGEST_PAUSE_S", 0.0)
    workshop.save()
    owner = Owner(workshop)
    fail_once(owner, error)

    with structlog.testing.capture_logs() as events:
        owner.drainer.start()
        assert owner.is_told.wait(LONGEST_S)

    assert events[0]["event"] in ("drain_failed", "drain_left_to_other")
    assert owner.drainer.is_alive
    workshop.stop.set()
    assert owner.drainer.join(LONGEST_S)


def test_a_failed_disk_is_told_and_ends_it(workshop: Workshop) -> None:
    workshop.save()
    owner = Owner(workshop)
    fail_once(owner, DiskFailed("gone"))

    owner.drainer.start()

    assert owner.drainer.join(LONGEST_S)
    assert [str(each) for each in owner.failures] == ["gone"]


def test_an_order_to_stop_in_the_middle_ends_it(workshop: Workshop) -> None:
    workshop.save()
    owner = Owner(workshop)
    fail_once(owner, Stopped("now"))

    owner.drainer.start()

    assert owner.drainer.join(LONGEST_S)


def test_something_urgent_ends_a_long_wait_and_not_a_short_one(workshop: Workshop) -> None:
    drainer = Owner(workshop).drainer
    drainer.wake(is_urgent=True)

    drainer._wait(3600)
    assert not drainer._urgent.is_set()
    drainer.wake(is_urgent=True)
    drainer._wait(1)

    assert sum(workshop.clock.slept) == pytest.approx(1)


def fail_once(owner: Owner, error: Exception) -> None:
    """Have the first drain end in an error."""
    worker = owner.drainer._worker
    drain: Callable[..., object] = worker.drain
    errors = [error]

    def fail(**keywords: object) -> object:
        if errors:
            raise errors.pop()
        return drain(**keywords)

    worker.drain = fail  # type: ignore[method-assign, assignment]
