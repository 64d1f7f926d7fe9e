"""What `status` tells: the spool, the budget and the last error, without asking GitHub."""

import errno
import os
import shutil
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

from holdfast.assembly import Assembly
from holdfast.assembly.ground import Ground
from holdfast.disk import translate
from holdfast.drain.chunks import DrainPolicy
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import Outage, parse_outage
from holdfast.drain.plan import forecast_drain_s, plan_drain
from holdfast.errors import SpoolError
from holdfast.format.receipt import QueueItem
from holdfast.queue import Queue, QueueLimits, QueueStatus, SqliteQueue
from holdfast.queue.room import too_full
from holdfast.queue.rows import tell_newer
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
class ShardStatus:
    """How one of several repositories stands."""

    repository: str
    spool: QueueStatus
    budget: Mapping[str, Any]
    last_error: str | None
    next_try: NextTry | None
    drained_by: str | None


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
    saves_refused: str | None
    """Why nothing more is accepted, such as a full disk; None while it is."""
    next_try: NextTry | None
    set_aside: list[RefusedCheckpoint]
    drained_by: str | None
    other_targets: list[OtherTarget]
    shards: list[ShardStatus] = field(default_factory=list)
    """Each of several repositories by itself; then the rest is about all of them."""


def overview(assembly: Ground, *, in_short: bool = False) -> dict[str, Any]:
    """Return how the spool stands, of all shards together. Where there is none yet, none is made.

    `in_short`, other targets are left out, and what is told only by a list of all that waits: how long a
    drain takes, when the next write may be tried, what is set aside. Raises SpoolUnwritable where there can
    be none.
    """
    every = [_look_at(shard, in_short=in_short) for shard in assembly.shards]
    status = every[0] if len(every) == 1 else _merge(assembly.repository, every)
    others = [] if in_short else list(_other_targets(assembly.shards))
    return asdict(replace(status, other_targets=others))


def _look_at(assembly: Assembly, *, in_short: bool) -> Status:
    now = assembly.clock.now()
    if assembly.settings.database_url or (assembly.folder / _SPOOL).is_dir():
        return _look_at_spool(assembly, now, in_short=in_short)
    settings = assembly.settings
    _check_can_be_made(settings.data_dir.absolute())
    limits, free_bytes = QueueLimits(min_free_bytes=settings.min_free_bytes), _free_bytes(settings.data_dir)
    refused = (
        None if free_bytes > limits.min_free_bytes else str(too_full(assembly.folder, free_bytes, limits))
    )
    return _status(assembly, _NOTHING, report_budget(Budget(assembly.limits), now), saves_refused=refused)


def _merge(repository: str, shards: Sequence[Status]) -> Status:
    """Return how all shards stand together: sums, the tightest budget, and the first thing that is wrong."""
    tightest = min(shards, key=lambda shard: _remaining(shard.budget))
    tries = [shard.next_try for shard in shards if shard.next_try]
    drainers = dict.fromkeys(shard.drained_by for shard in shards if shard.drained_by)
    errors = [f"{shard.repository}: {shard.last_error}" for shard in shards if shard.last_error]
    refusals = dict.fromkeys(shard.saves_refused for shard in shards if shard.saves_refused)
    return replace(
        shards[0],
        repository=repository,
        spool=_add_up([shard.spool for shard in shards]),
        budget=tightest.budget,
        last_error="; ".join(errors) or None,
        saves_refused="; ".join(refusals) or None,
        next_try=min(tries, key=lambda each: each.in_s, default=None),
        set_aside=[entry for shard in shards for entry in shard.set_aside][:SHOWN_SET_ASIDE],
        drained_by="; ".join(drainers) or None,
        shards=[
            ShardStatus(
                each.repository, each.spool, each.budget, each.last_error, each.next_try, each.drained_by
            )
            for each in shards
        ],
    )


def _remaining(budget: Mapping[str, Any]) -> float:
    remaining = budget["last_remaining"]
    return inf if remaining is None else float(remaining)


def _add_up(spools: Sequence[QueueStatus]) -> QueueStatus:
    oldest_s = max(spool.oldest_age_s for spool in spools)
    sums = {name: sum(getattr(spool, name) for spool in spools) for name in QueueStatus.__slots__}
    return QueueStatus(**{**sums, "oldest_age_s": oldest_s})


def _status(
    assembly: Assembly,
    spool: QueueStatus,
    budget: Mapping[str, Any],
    *,
    last_error: str | None = None,
    saves_refused: str | None = None,
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
        saves_refused=saves_refused,
        next_try=next_try,
        set_aside=list(set_aside),
        drained_by=drained_by,
        other_targets=[],
    )


def _check_can_be_made(folder: Path) -> None:
    """Raise SpoolUnwritable unless the folder can be made, or written to, as far as that shows."""
    there = next(each for each in (folder, *folder.parents) if os.path.lexists(each))
    if not there.is_dir():
        raise translate(NotADirectoryError(errno.ENOTDIR, f"{there} is not a folder"), folder)
    if not os.access(there, os.W_OK | os.X_OK):
        raise translate(PermissionError(errno.EACCES, f"{there} may not be written to"), folder)


def _free_bytes(folder: Path) -> int:
    """Return what is free on the disk of a folder, which may still have to be made."""
    there = next(each for each in (folder.absolute(), *folder.absolute().parents) if each.is_dir())
    return shutil.disk_usage(there).free


def _look_at_spool(assembly: Assembly, now: float, *, in_short: bool) -> Status:
    spool = assembly.spool
    status = spool.status(now)
    told = partial(_status, assembly, status, saves_refused=_saves_refused(spool))
    if trouble := spool.trouble():
        return told(assembly.rate_limiter.report(), last_error=trouble)
    outage = parse_outage(spool.notes().get(OUTAGE_NOTE))
    pending = [] if in_short else spool.pending()
    newer = spool.newer_runs()
    last_error = outage.sentence if outage else tell_newer(newer) if newer else None
    if in_short:
        return told(assembly.rate_limiter.report(), last_error=last_error)
    budget = assembly.rate_limiter.budget
    forecast_s = None if outage else forecast_drain_s(pending, budget, now, assembly.policy)
    aside = spool.set_aside_entries()[:SHOWN_SET_ASIDE] if status.set_aside else []
    return told(
        assembly.rate_limiter.report(spool_depth=status.depth, drain_forecast_s=forecast_s),
        last_error=last_error,
        next_try=_next_try(pending, outage, budget, now, assembly.policy),
        set_aside=[
            RefusedCheckpoint(each.item.checkpoint_id, each.item.run_id, each.item.sequence, each.reason)
            for each in aside
        ],
        drained_by=spool.drained_by(),
    )


def _saves_refused(spool: Queue) -> str | None:
    """Return what the next checkpoint would be refused with."""
    try:
        spool.check_room()
    except SpoolError as error:
        return str(error)
    return None


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


def _other_targets(shards: Sequence[Assembly]) -> Iterator[OtherTarget]:
    """Yield each other repository, branch or folder that checkpoints still wait for on this machine."""
    own, assembly = {shard.folder for shard in shards}, shards[0]
    for folder in sorted(assembly.folder.parent.glob("*/")):
        if folder in own or not (folder / _SPOOL).is_dir():
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
