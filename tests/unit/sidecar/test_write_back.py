"""The log of the spool is written back beside the commits while many save, and not for every save."""

import threading

import pytest

from holdfast.errors import DiskFailed, SpoolUnwritable
from holdfast.sidecar.write_back import MANY, WriteBack


class Log:
    """A log that fails as it is told to, and says when it was written back."""

    def __init__(self, *failures: Exception) -> None:
        self.failures = list(failures)
        self.disk_failures: list[DiskFailed] = []
        self.is_written = threading.Semaphore(0)
        self.keeper = WriteBack(self.write_back, on_disk_failed=self.fail)

    def write_back(self) -> None:
        self.is_written.release()
        if self.failures:
            raise self.failures.pop(0)

    def fail(self, error: DiskFailed) -> None:
        self.disk_failures.append(error)

    def end(self) -> None:
        assert self.keeper.close(60)


def test_many_that_were_committed_together_have_the_log_written_back() -> None:
    log = Log()
    log.keeper.start()

    log.keeper.note(MANY)

    assert log.is_written.acquire(timeout=60)
    log.end()


def test_a_lone_save_costs_no_further_sync() -> None:
    log = Log()
    log.keeper.start()

    log.keeper.note(1)
    log.end()

    assert not log.is_written.acquire(blocking=False)


def test_a_failure_does_not_end_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("holdfast.sidecar.write_back.EVERY_S", 0)
    log = Log(SpoolUnwritable("the disk is full"))
    log.keeper.start()

    log.keeper.note(MANY)
    assert log.is_written.acquire(timeout=60)
    log.keeper.note(MANY)

    assert log.is_written.acquire(timeout=60)
    log.end()
    assert log.disk_failures == []


def test_a_failed_disk_is_told_of() -> None:
    failure = DiskFailed("a sync failed")
    log = Log(failure)
    log.keeper.start()

    log.keeper.note(MANY)
    assert log.is_written.acquire(timeout=60)
    log.end()

    assert log.disk_failures == [failure]
