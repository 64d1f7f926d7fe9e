"""Deletions beside a worker that drains."""

from collections.abc import Callable, Iterator
from pathlib import Path
from unittest.mock import patch

import pytest

from holdfast import Holdfast
from holdfast.assembly import Assembly
from holdfast.decisions.deletion import DRAINER_ATTEMPTS, DRAINER_WAIT_S
from holdfast.errors import SpoolBusy
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock


class EventfulClock(VirtualClock):
    """Has `when_slept` called each time that somebody has slept."""

    when_slept: Callable[[int], None] = staticmethod(lambda _times: None)

    def sleep(self, seconds: float) -> None:
        super().sleep(seconds)
        self.when_slept(len(self.slept))


Opened = tuple[Holdfast, Assembly, EventfulClock]


@pytest.fixture
def opened(tmp_path: Path) -> Iterator[Opened]:
    settings = Settings.from_environment({}, {"data_dir": tmp_path})
    clock = EventfulClock()
    assembly = Assembly(settings, clock=clock)
    with Holdfast(settings, assembly=assembly) as holdfast:
        holdfast.save("r", {"answer": 42})
        yield holdfast, assembly, clock


def test_deletion_waits_for_whoever_drains(opened: Opened) -> None:
    holdfast, assembly, clock = opened
    draining = assembly.spool.drainer()
    draining.__enter__()

    def end(times: int) -> None:
        if times == 3:
            draining.__exit__(None, None, None)

    clock.when_slept = end

    deleted = holdfast.delete("r")

    assert (deleted.deleted_files, deleted.deleted_spooled) == (0, 1)
    assert sum(clock.slept) == pytest.approx(DRAINER_WAIT_S)


def test_deletion_beside_one_who_drains_on_and_on_says_who_that_is(opened: Opened) -> None:
    holdfast, assembly, clock = opened

    lists = patch.object(assembly.spool, "pending", wraps=assembly.spool.pending)
    with assembly.spool.drainer(), pytest.raises(SpoolBusy, match="is draining this spool"), lists as listed:
        holdfast.delete("r")

    assert listed.call_count == 1
    assert sum(clock.slept) == pytest.approx(DRAINER_WAIT_S * (DRAINER_ATTEMPTS - 1))
    assert assembly.spool.status(0.0).depth == 1
