"""What `status` tells: the spool, the budget and the last error, without asking GitHub."""

from collections.abc import Iterator, Sequence
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from holdfast.assembly import Assembly
from holdfast.drain.outage import NOTE, Outage, parse_outage
from holdfast.drain.plan import DrainPolicy, forecast_drain_s, plan_drain
from holdfast.errors import SpoolError
from holdfast.format.receipt import QueueItem
from holdfast.queue import Quarantined, QueueLimits, QueueStatus, SqliteQueue
from holdfast.ratelimit.budget import Budget

SHOWN_SET_ASIDE = 100

_SPOOL = "spool"
_NOTHING = QueueStatus(depth=0, bytes=0, oldest_age_s=0.0, set_aside=0, set_aside_bytes=0, salvaged=0, lost=0)


def overview(assembly: Assembly) -> dict[str, Any]:
    """Return how one repository's spool stands. Where there is none yet, none is made."""
    if (assembly.folder / _SPOOL).is_dir():
        told = _tell_spool(assembly)
    else:
        told = {
            "spool": asdict(_NOTHING),
            "budget": Budget(assembly.limits).report(assembly.clock.now()),
            "last_error": None,
            "next_try": None,
            "set_aside": [],
        }
    return {
        "repository": assembly.repository,
        "branch": assembly.settings.branch,
        "is_embedded": assembly.settings.is_embedded,
        **told,
        "other_targets": list(_other_targets(assembly)),
    }


def _tell_spool(assembly: Assembly) -> dict[str, Any]:
    spool = assembly.spool
    now = assembly.clock.now()
    status = spool.status(now)
    pending, budget = spool.pending(), assembly.rate_limiter.budget
    outage = parse_outage(spool.notes().get(NOTE))
    forecast_s = None if outage else forecast_drain_s(pending, budget, now, assembly.policy)
    aside = spool.set_aside_entries()[:SHOWN_SET_ASIDE] if status.set_aside else []
    return {
        "spool": asdict(status),
        "budget": assembly.rate_limiter.report(spool_depth=status.depth, drain_forecast_s=forecast_s),
        "last_error": outage.sentence if outage else None,
        "next_try": _next_try(pending, outage, budget, now, assembly.policy),
        "set_aside": [_tell_set_aside(entry) for entry in aside],
    }


def _next_try(
    pending: Sequence[QueueItem], outage: Outage | None, budget: Budget, now: float, policy: DrainPolicy
) -> dict[str, Any] | None:
    """Return when the next write may be tried and why not before; None if nothing is in its way."""
    if not pending:
        return None
    if outage:
        wait_s, reason = max(0.0, outage.retry_at - now), outage.sentence
    else:
        plan = plan_drain(pending, budget, now, replace(policy, longest_pause_s=0))
        wait_s, reason = plan.wait_s, plan.reason
    return {"in_s": round(wait_s, 1), "at": round(now + wait_s, 3), "because": reason} if reason else None


def _tell_set_aside(entry: Quarantined) -> dict[str, Any]:
    item = entry.item
    return {
        "checkpoint_id": item.checkpoint_id,
        "run_id": item.run_id,
        "sequence_number": item.sequence,
        "reason": entry.reason,
    }


def _other_targets(assembly: Assembly) -> Iterator[dict[str, Any]]:
    """Tell of each other repository, branch or folder that checkpoints still wait for on this machine."""
    for folder in sorted(assembly.folder.parent.glob("*/")):
        if folder.name == assembly.folder.name or not (folder / _SPOOL).is_dir():
            continue
        status = _look_into(folder / _SPOOL, assembly)
        if status is None or status.depth or status.set_aside:
            yield {
                "repository": _repository_of(folder),
                "folder": str(folder),
                "depth": status.depth if status else None,
                "bytes": status.bytes if status else None,
                "set_aside": status.set_aside if status else None,
            }


def _look_into(folder: Path, assembly: Assembly) -> QueueStatus | None:
    """Return another spool in numbers; None if it cannot be opened."""
    try:
        spool = SqliteQueue.open(folder, limits=QueueLimits(), clock=assembly.clock, layout=assembly.layout)
        try:
            return spool.status(assembly.clock.now())
        finally:
            spool.close()
    except SpoolError:
        return None


def _repository_of(folder: Path) -> str:
    """Return the repository that a target's folder is named for."""
    return folder.name.rpartition("-")[0].replace("--", "/", 1)
