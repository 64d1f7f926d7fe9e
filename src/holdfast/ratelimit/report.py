"""The budget as `status` shows it."""

from math import inf

from holdfast.ratelimit.budget import MINUTE_S, Budget


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
