"""One budget out of two that went on apart: what others spent meanwhile, and what we did."""

from collections.abc import Mapping
from dataclasses import replace

from holdfast.ratelimit.budget import MINUTE_S, Block, Budget
from holdfast.ratelimit.limits import Quota
from holdfast.ratelimit.window import SlidingWindow


def reunite(shared: Budget, before: Budget, apart: Budget, now: float) -> Budget:
    """Return the shared budget with all that happened to `apart`, which was `before` when they parted.

    Where it does not show which of the two knows better, less is left and the wait is longer.
    """
    # Each has a steady time of its own; ours may never have met that of the others before.
    ahead_s = shared.clock_skew.steady_time(now) - apart.clock_skew.steady_time(now)
    points = {
        name: _add(shared.points.get(name), before.points.get(name), window, ahead_s)
        for name, window in apart.points.items()
    }
    calls = apart.calls_this_run - before.calls_this_run
    return replace(
        shared,
        quotas={**shared.quotas, **_tighter_quotas(shared.quotas, before.quotas, apart.quotas)},
        blocks={**shared.blocks, **_longer_blocks(shared.blocks, apart.blocks, ahead_s)},
        content=_add(shared.content, before.content, apart.content, ahead_s),
        points={**shared.points, **points},
        last_mutation_at=max(shared.last_mutation_at, apart.last_mutation_at + ahead_s),
        strikes=max(shared.strikes, apart.strikes),
        slow_until=max(shared.slow_until, apart.slow_until + ahead_s),
        calls_this_run=shared.calls_this_run + (calls if calls >= 0 else apart.calls_this_run),
        told_low={**shared.told_low, **apart.told_low},
    )


def _add(
    shared: SlidingWindow | None, before: SlidingWindow | None, apart: SlidingWindow, ahead_s: float
) -> SlidingWindow:
    empty = SlidingWindow(apart.span_s)
    spent = [(at + ahead_s, amount) for at, amount in apart.since(before or empty)]
    return (shared or empty).joined_with(spent)


def _tighter_quotas(
    shared: Mapping[str, Quota], before: Mapping[str, Quota], apart: Mapping[str, Quota]
) -> dict[str, Quota]:
    """Return what we have heard of quotas, unless others have heard of a later hour, or of less."""
    heard = {name: quota for name, quota in apart.items() if quota != before.get(name)}
    return {
        name: min(quota, shared.get(name, quota), key=lambda each: (-_hour_of(each, quota), each.remaining))
        for name, quota in heard.items()
    }


def _hour_of(quota: Quota, other: Quota) -> float:
    """Return when the hour of a quota ends; that of another which ends about then counts as the same."""
    return other.reset_at if abs(quota.reset_at - other.reset_at) < MINUTE_S else quota.reset_at


def _longer_blocks(
    shared: Mapping[str, Block], apart: Mapping[str, Block], ahead_s: float
) -> dict[str, Block]:
    moved = {name: block._replace(until=block.until + ahead_s) for name, block in apart.items()}
    return {
        name: max(block, shared.get(name, block), key=lambda each: each.until)
        for name, block in moved.items()
    }
