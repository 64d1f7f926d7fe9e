"""The schedules can fail: each promise is broken on purpose once, and that is noticed."""

from collections.abc import Callable
from typing import Any

import pytest

from holdfast.drain.orphans import OrphanFiles
from holdfast.drain.settling import StepWriter
from holdfast.format.receipt import Delivery
from holdfast.ratelimit.limiter import RateLimiter
from tests.soak.schedules import Drain, Exhaust, Machine, Schedule, Submit
from tests.soak.share import play_in_memory

TWO_WRITERS = Schedule(
    machines=(Machine((Drain(),)), Machine(), Machine()),
    calls=(Submit(0, 0), Submit(1, 18), Submit(1, 30), Submit(2, 1)),
    faults=("any:500:nth=1:times=1",),
)
USED_UP = Schedule(
    machines=(Machine((Drain(after_s=1.0, timeout_s=100.0), Drain(after_s=60.0))), Machine()),
    calls=(Submit(0, 0), Exhaust()),
)

Patch = Callable[[pytest.MonkeyPatch], None]


def leave_orphan(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(OrphanFiles, "delete_obsolete", lambda *_, **__: None)


def acknowledge_unwritten(patch: pytest.MonkeyPatch) -> None:
    def write(_: StepWriter, step: Any) -> dict[str, Delivery]:
        return {each.checkpoint_id: Delivery(each.sequence, "nowhere", "", "") for each in step.items}

    patch.setattr(StepWriter, "_write", write)


def forget_limits(patch: pytest.MonkeyPatch) -> None:
    patch.setattr(RateLimiter, "block", lambda *_: 600.0)
    patch.setattr(RateLimiter, "observe", lambda *_: None)


@pytest.mark.parametrize(
    ("sabotage", "schedule", "noticed"),
    [
        (leave_orphan, TWO_WRITERS, "is stored twice"),
        (acknowledge_unwritten, TWO_WRITERS, "nothing of run-a is stored"),
        (forget_limits, USED_UP, "asked while limited"),
    ],
)
def test_broken_promise_is_noticed(
    monkeypatch: pytest.MonkeyPatch, sabotage: Patch, schedule: Schedule, noticed: str
) -> None:
    play_in_memory(schedule)
    sabotage(monkeypatch)

    with pytest.raises(AssertionError, match=noticed):
        play_in_memory(schedule)
