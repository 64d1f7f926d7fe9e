"""What several shards answer, put together. One answer stays as it is."""

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

from holdfast.errors import HoldfastError, SpoolBusy

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.drain.worker import DrainResult, Worker
    from holdfast.repository.catalog import RunSummary
    from holdfast.retention import SquashReport, SweepReport


def merge_runs(runs: Iterable["RunSummary"]) -> list["RunSummary"]:
    """Return every run once, the one last written to first.

    A run of which something waits in another shard's spool, to be handed on, is listed by both.
    """
    merged: dict[str, RunSummary] = {}
    for run in sorted(runs, key=lambda run: (run.last_updated, run.run_id), reverse=True):
        if newer := merged.get(run.run_id):
            run = replace(newer, checkpoint_count=newer.checkpoint_count + run.checkpoint_count)
        merged[run.run_id] = run
    return list(merged.values())


def merge_sweeps(reports: Sequence["SweepReport"]) -> "SweepReport":
    """Return what becomes of the runs of all shards."""
    if len(reports) == 1:
        return reports[0]
    from holdfast.retention import SweepReport

    return SweepReport(
        plan=replace(reports[0].plan, runs=tuple(run for each in reports for run in each.plan.runs)),
        strangers=tuple(path for each in reports for path in each.strangers),
        done=[run for each in reports for run in each.done],
        commits=[commit for each in reports for commit in each.commits],
        rest_because="; ".join(each.rest_because for each in reports if each.rest_because),
    )


def merge_squashes(reports: Sequence["SquashReport"]) -> "SquashReport":
    """Return the histories of all shards in numbers. One that nobody could tell makes the sum unknown."""
    first, *others = reports
    for each in others:
        first = replace(
            first,
            commits_before=_add(first.commits_before, each.commits_before),
            commits_after=_add(first.commits_after, each.commits_after),
            head_before=f"{first.head_before}, {each.head_before}",
            head_after=f"{first.head_after}, {each.head_after}",
            branch_bytes=_add(first.branch_bytes, each.branch_bytes),
            bytes_before=first.bytes_before + each.bytes_before,
            bytes_after=first.bytes_after + each.bytes_after,
        )
    return first


def _add(one: int | None, other: int | None) -> int | None:
    return None if one is None or other is None else one + other


class DrainTerms(NamedTuple):
    """For how long a drain goes on, if there is an end, and whether it cleans up afterwards."""

    ends_at: float | None
    is_done: Callable[[], bool] = lambda: False
    tidies: bool = True


def drain_shards(shards: Sequence["Assembly"], terms: DrainTerms) -> "DrainResult":
    """Drain all shards at once; raises SpoolBusy if another process drains each that has anything.

    What one of them hands on to another that had done is drained in a second turn.
    """
    results = _drain_at_once([shard for shard in shards if shard.spool.status(0.0).depth], terms)
    late = [shard for shard, result in results.items() if _is_done(result) and shard.spool.status(0.0).depth]
    late += [shard for shard in shards if shard not in results and shard.spool.status(0.0).depth]
    again = _drain_at_once(late, terms)
    outcomes = [*(result for shard, result in results.items() if shard not in again), *again.values()]
    verified = sum(_verified(result) for result in (*results.values(), *again.values()))
    return _conclude(outcomes, verified, sum(shard.spool.status(0.0).depth for shard in shards))


def _drain_at_once(
    shards: Sequence["Assembly"], terms: DrainTerms
) -> dict["Assembly", "DrainResult | SpoolBusy"]:
    def drain(worker: "Worker") -> "DrainResult | SpoolBusy":
        try:
            return worker.drain(timeout_s=_left_s(terms, worker), is_done=terms.is_done, tidies=terms.tidies)
        except SpoolBusy as error:
            return error

    if not shards:
        return {}
    workers = [shard.worker for shard in shards]  # what is made on first use is not made twice
    # It brings much with it, which a command that only saves has no use for.
    from concurrent.futures import ThreadPoolExecutor

    with ThreadPoolExecutor(len(shards), thread_name_prefix="holdfast-shard") as threads:
        return dict(zip(shards, threads.map(drain, workers), strict=True))


def _left_s(terms: DrainTerms, worker: "Worker") -> float:
    """Return how much time is left. It is never 0 where there is an end: that would be none."""
    if terms.ends_at is None:
        return 0.0
    return terms.ends_at - worker.deadline.clock.now() or -1.0


def _is_done(result: "DrainResult | SpoolBusy") -> bool:
    return not isinstance(result, SpoolBusy) and not result.left


def _verified(result: "DrainResult | SpoolBusy") -> int:
    return 0 if isinstance(result, SpoolBusy) else result.verified


def _conclude(outcomes: "Sequence[DrainResult | SpoolBusy]", verified: int, left: int) -> "DrainResult":
    from holdfast.drain.worker import DrainResult

    done = [outcome for outcome in outcomes if not isinstance(outcome, HoldfastError)]
    busy = [outcome for outcome in outcomes if isinstance(outcome, SpoolBusy)]
    if busy and not done:
        raise busy[0]
    reasons = dict.fromkeys([each.reason for each in done if each.reason] + [str(each) for each in busy])
    waits = [each.retry_in_s for each in done if each.retry_in_s]
    return DrainResult(verified, left, "; ".join(reasons), min(waits, default=0.0))
