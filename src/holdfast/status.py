"""What `status` tells: the spool, the budget and the last error, without asking GitHub."""

import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from holdfast.assembly import Assembly
from holdfast.drain.chunks import DrainPolicy
from holdfast.drain.outage import NOTE, Outage, parse_outage
from holdfast.drain.plan import forecast_drain_s, plan_drain
from holdfast.errors import SpoolError
from holdfast.format.receipt import QueueItem
from holdfast.queue import QueueLimits, QueueStatus, SqliteQueue
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.record import report_budget

SHOWN_SET_ASIDE = 100

_SPOOL = "spool"
_NOTHING = QueueStatus(depth=0, bytes=0, oldest_age_s=0.0, set_aside=0, set_aside_bytes=0, salvaged=0, lost=0)


@dataclass(frozen=True, slots=True)
class NextTry:
    """When the next write may be tried, from now and by the clock, and why not before."""

    in_s: float
    at: float
    because: str


@dataclass(frozen=True, slots=True)
class RefusedCheckpoint:
    """A checkpoint that was set aside, and why."""

    checkpoint_id: str
    run_id: str
    sequence_number: int
    reason: str


@dataclass(frozen=True, slots=True)
class OtherTarget:
    """Another repository, branch or folder that checkpoints wait for; no numbers if it cannot be opened."""

    repository: str
    folder: str
    depth: int | None
    bytes: int | None
    set_aside: int | None


@dataclass(frozen=True, slots=True)
class Status:
    """How the spool and the budget of one repository stand, and what keeps checkpoints from it."""

    repository: str
    branch: str
    is_embedded: bool
    spool: QueueStatus
    budget: Mapping[str, Any]
    disk_free_bytes: int
    last_error: str | None
    next_try: NextTry | None
    set_aside: list[RefusedCheckpoint]
    drained_by: str | None
    other_targets: list[OtherTarget]


def overview(assembly: Assembly) -> dict[str, Any]:
    """Return how one repository's spool stands. Where there is none yet, none is made."""
    now = assembly.clock.now()
    if assembly.settings.database_url or (assembly.folder / _SPOOL).is_dir():
        return asdict(_look_at_spool(assembly, now))
    return asdict(_status(assembly, _NOTHING, report_budget(Budget(assembly.limits), now)))


def _status(
    assembly: Assembly,
    spool: QueueStatus,
    budget: Mapping[str, Any],
    *,
    last_error: str | None = None,
    next_try: NextTry | None = None,
    set_aside: Sequence[RefusedCheckpoint] = (),
    drained_by: str | None = None,
) -> Status:
    return Status(
        repository=assembly.repository,
        branch=assembly.settings.branch,
        is_embedded=assembly.settings.is_embedded,
        spool=spool,
        budget=budget,
        disk_free_bytes=_free_bytes(assembly.settings.data_dir),
        last_error=last_error,
        next_try=next_try,
        set_aside=list(set_aside),
        drained_by=drained_by,
        other_targets=list(_other_targets(assembly)),
    )


def _free_bytes(folder: Path) -> int:
    """Return what is free on the disk of a folder, which may still have to be made."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    return shutil.disk_usage(there).free


def _look_at_spool(assembly: Assembly, now: float) -> Status:
    spool = assembly.spool
    status = spool.status(now)
    if trouble := spool.trouble():
        return _status(assembly, status, assembly.rate_limiter.report(), last_error=trouble)
    pending, budget = spool.pending(), assembly.rate_limiter.budget
    outage = parse_outage(spool.notes().get(NOTE))
    forecast_s = None if outage else forecast_drain_s(pending, budget, now, assembly.policy)
    aside = spool.set_aside_entries()[:SHOWN_SET_ASIDE] if status.set_aside else []
    return _status(
        assembly,
        status,
        assembly.rate_limiter.report(spool_depth=status.depth, drain_forecast_s=forecast_s),
        last_error=outage.sentence if outage else None,
        next_try=_next_try(pending, outage, budget, now, assembly.policy),
        set_aside=[
            RefusedCheckpoint(each.item.checkpoint_id, each.item.run_id, each.item.sequence, each.reason)
            for each in aside
        ],
        drained_by=spool.drained_by(),
    )


def _next_try(
    pending: Sequence[QueueItem], outage: Outage | None, budget: Budget, now: float, policy: DrainPolicy
) -> NextTry | None:
    """Return when the next write may be tried and why not before; None if nothing is in its way."""
    if not pending:
        return None
    if outage:
        wait_s, reason = outage.wait_s(now), outage.sentence
    else:
        plan = plan_drain(pending, budget, now, replace(policy, longest_pause_s=0))
        wait_s, reason = plan.wait_s, plan.reason
    return NextTry(round(wait_s, 1), round(now + wait_s, 3), reason) if reason else None


def _other_targets(assembly: Assembly) -> Iterator[OtherTarget]:
    """Yield each other repository, branch or folder that checkpoints still wait for on this machine."""
    for folder in sorted(assembly.folder.parent.glob("*/")):
        if folder.name == assembly.folder.name or not (folder / _SPOOL).is_dir():
            continue
        status = _look_into(folder / _SPOOL, assembly)
        if status is None or status.depth or status.set_aside:
            numbers = (status.depth, status.bytes, status.set_aside) if status else (None, None, None)
            yield OtherTarget(_repository_of(folder), str(folder), *numbers)


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
