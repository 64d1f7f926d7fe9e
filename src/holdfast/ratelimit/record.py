"""The budget written down: as a few bytes that survive a restart, and as `status` shows it."""

from math import inf
from typing import Any

import orjson

from holdfast.errors import ThrottleKind
from holdfast.ratelimit.budget import HOUR_S, MINUTE_S, Block, Budget
from holdfast.ratelimit.clock_skew import ClockSkew
from holdfast.ratelimit.limits import Limits, Quota
from holdfast.ratelimit.window import SlidingWindow

FORMAT_VERSION = 1
_KINDS: dict[str, ThrottleKind] = {"primary": "primary", "secondary": "secondary"}


def format_budget(budget: Budget) -> bytes:
    """Return everything of `budget` but its limits, which are settings. A time that was never set is null."""
    clock_skew = budget.clock_skew
    return orjson.dumps(
        {
            "format_version": FORMAT_VERSION,
            "seen_at": clock_skew.seen_at,
            "shift_s": clock_skew.shift_s,
            "server_ahead_s": clock_skew.server_ahead_s,
            "windows": {
                name: [quota.limit, quota.remaining, quota.used, quota.reset_at]
                for name, quota in budget.quotas.items()
            },
            "blocks": {
                name: [block.until, block.kind, block.reason] for name, block in budget.blocks.items()
            },
            "content": budget.content.entries,
            "points": {name: window.entries for name, window in budget.points.items()},
            "last_mutation_at": budget.last_mutation_at,
            "strikes": budget.strikes,
            "slow_until": budget.slow_until,
            "last_resource": budget.last_resource,
            "calls_this_run": budget.calls_this_run,
            "told_low": budget.told_low,
        }
    )


def parse_budget(raw: bytes, limits: Limits) -> Budget:
    """Return the budget that `raw` holds; a fresh one if it is damaged or of another format.

    >>> parse_budget(b"not a budget", Limits()) == Budget(Limits())
    True
    """
    try:
        record = orjson.loads(raw)
        if record["format_version"] != FORMAT_VERSION:
            return Budget(limits)
        return _budget_of(record, limits)
    except (ValueError, TypeError, KeyError, AttributeError, OverflowError):
        return Budget(limits)


def _budget_of(record: dict[str, Any], limits: Limits) -> Budget:
    return Budget(
        limits=limits,
        clock_skew=ClockSkew(
            _time(record["seen_at"]), float(record["shift_s"]), float(record["server_ahead_s"])
        ),
        quotas={
            str(name): Quota(int(limit), int(remaining), int(used), float(reset_at))
            for name, (limit, remaining, used, reset_at) in record["windows"].items()
        },
        blocks={
            str(name): Block(float(until), _KINDS[kind], str(reason))
            for name, (until, kind, reason) in record["blocks"].items()
        },
        content=SlidingWindow(HOUR_S, _entries(record["content"])),
        points={
            str(name): SlidingWindow(MINUTE_S, _entries(spent)) for name, spent in record["points"].items()
        },
        last_mutation_at=_time(record["last_mutation_at"]),
        strikes=int(record["strikes"]),
        slow_until=_time(record["slow_until"]),
        last_resource=str(record["last_resource"]),
        calls_this_run=int(record["calls_this_run"]),
        told_low={str(name): float(at) for name, at in record.get("told_low", {}).items()},
    )


def _time(value: float | None) -> float:
    return -inf if value is None else float(value)


def _entries(stored: list[tuple[float, int]]) -> tuple[tuple[float, int], ...]:
    return tuple((float(at), int(amount)) for at, amount in stored)


def report_budget(
    budget: Budget, now: float, *, spool_depth: int = 0, drain_forecast_s: float | None = 0.0
) -> dict[str, object]:
    """Return the budget as `status` shows it; a forecast of None is not known.

    Times are told by the local clock, except `last_reset`, which is what GitHub said.
    """
    quota = budget.quotas.get(budget.last_resource)
    room = budget.room(budget.last_resource, now, is_critical=True)
    blocked = budget.longest_block(now)
    resets_in_s = budget.seconds_to_reset(budget.last_resource, now)
    return {
        "last_remaining": quota.remaining if quota else None,
        "last_reset": int(quota.reset_at) if quota else None,
        "resets_at": round(now + resets_in_s, 3) if quota else None,
        "calls_this_run": budget.calls_this_run,
        "resource": budget.last_resource,
        "limit": quota.limit if quota else budget.limits.requests_per_hour,
        "is_low": budget.is_low(now, budget.last_resource),
        "blocked_until": round(now + blocked.seconds, 3) if blocked.seconds else None,
        "blocked_because": blocked.reason or None,
        "content_used_minute": budget.content_spent(now, MINUTE_S),
        "content_used_hour": budget.content_spent(now),
        "content_left_minute": _finite(room.content_minute),
        "content_left_hour": _finite(room.content_hour),
        "spool_depth": spool_depth,
        "drain_forecast_s": None if drain_forecast_s is None else round(drain_forecast_s, 1),
    }


def _finite(room: float) -> int | None:
    return None if room == inf else int(room)
