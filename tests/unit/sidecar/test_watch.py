import asyncio
from collections.abc import Mapping
from typing import Any

from holdfast.errors import SpoolUnwritable
from holdfast.sidecar.watch import Sample, Watch, changes_between


def sample(at: float = 0, **changes: Any) -> Sample:
    values = {
        "depth": 0,
        "oldest_age_s": 0.0,
        "verified": 0,
        "remaining": 100,
        "is_low": False,
        "outage": None,
    }
    return Sample(at, **{**values, **changes})


def test_the_first_look_is_no_news() -> None:
    assert list(changes_between(None, sample(outage="away"))) == []


def test_changes_become_events() -> None:
    before = sample(depth=3)
    now = sample(outage="away", remaining=40, is_low=True)

    assert list(changes_between(before, now)) == [
        ("outage", {"sentence": "away", "is_over": False}),
        ("budget", {"remaining": 40, "is_low": True}),
        ("drained", {"depth": 0}),
    ]
    assert list(changes_between(now, now)) == []
    # What was drained here was told then.
    assert list(changes_between(sample(depth=3), sample(verified=3))) == []
    assert list(changes_between(now, sample(remaining=40, is_low=True))) == [
        ("outage", {"sentence": None, "is_over": True})
    ]


def test_samples_are_kept() -> None:
    times = iter((0.0, 30.0, 60.0))
    counts = iter((0, 5, 20))
    published: list[tuple[str, Mapping[str, Any]]] = []

    async def look() -> Mapping[str, Any]:
        spool = {"depth": 1, "oldest_age_s": 2.0}
        return {"spool": spool, "budget": {"last_remaining": None, "is_low": False}, "last_error": None}

    watch = Watch(look, lambda: next(counts), lambda *event: published.append(event), lambda: next(times))
    for _ in range(3):
        asyncio.run(watch.look())

    assert [each.at for each in watch.samples] == [0.0, 30.0, 60.0]
    assert [each.verified for each in watch.samples] == [0, 5, 20]
    assert published == []


def test_a_spool_that_cannot_be_read_is_looked_at_the_next_time() -> None:
    async def look() -> Mapping[str, Any]:
        raise SpoolUnwritable("full")

    watch = Watch(look, lambda: 0, lambda *_: None, lambda: 0.0)
    asyncio.run(watch.look())

    assert not watch.samples
