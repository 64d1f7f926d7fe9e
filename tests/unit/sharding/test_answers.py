"""What several shards answer together."""

from types import SimpleNamespace
from typing import Any

import pytest

from holdfast.clock import Deadline
from holdfast.drain.worker import DrainResult
from holdfast.sharding.answers import DrainTerms, drain_shards
from tests.fakes.clock import VirtualClock


class Shard:
    """Takes its time, and may hand a checkpoint on to another at the end."""

    def __init__(self, clock: VirtualClock, depth: int, takes_s: float = 0.0) -> None:
        self.clock, self.depth, self.takes_s = clock, depth, takes_s
        self.told: list[float] = []
        self.hands_on_to: Shard | None = None
        self.worker = SimpleNamespace(drain=self.drain, deadline=Deadline(clock))
        self.spool = SimpleNamespace(status=lambda _: SimpleNamespace(depth=self.depth))

    def drain(self, *, timeout_s: float, **_: Any) -> DrainResult:
        self.told.append(timeout_s)
        self.clock.time += self.takes_s
        self.depth = 0
        if self.hands_on_to:
            self.hands_on_to.depth = 1
        return DrainResult(1, 0)


@pytest.mark.parametrize("takes_s", [3.0, 4.5], ids=["just the time", "and the grace"])
def test_second_turn_has_no_more_time_than_is_left(takes_s: float) -> None:
    clock = VirtualClock(1000.0)
    slow, other = Shard(clock, 1, takes_s), Shard(clock, 0)
    slow.hands_on_to = other

    drain_shards([slow, other], DrainTerms(clock.time + 3.0))  # type: ignore[list-item]

    assert slow.told == [3.0]
    assert [left_s < 0 for left_s in other.told] == [True]


def test_without_an_end_the_second_turn_has_none_either() -> None:
    clock = VirtualClock(1000.0)
    slow, other = Shard(clock, 1, 3.0), Shard(clock, 0)
    slow.hands_on_to = other

    drain_shards([slow, other], DrainTerms(None))  # type: ignore[list-item]

    assert (slow.told, other.told) == ([0.0], [0.0])
