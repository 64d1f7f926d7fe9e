"""From what the repository holds to what may go: a listing and the rules give a plan.

Nothing is ever deleted that someone may still need: a protected run, the checkpoint that a run would be
resumed from, a part that a kept checkpoint refers to, a file that we did not write. A run that is not at
rest, because a writer is in the middle of it or because it is damaged, is left alone and told of.
"""

from collections.abc import Container, Mapping, Sequence
from dataclasses import dataclass

from holdfast.format.moments import epoch
from holdfast.format.paths import INDEX, Layout
from holdfast.retention.disposal import RetentionCase, RunPlan, decide, decide_pruning
from holdfast.retention.records import RetentionLog, RunRecord, SweepRecord
from holdfast.retention.rules import RetentionRules
from holdfast.retention.scanned_run import ScannedRun


@dataclass(frozen=True)
class RetentionPlan:
    """What becomes of every run, the one last written to first."""

    runs: tuple[RunPlan, ...]

    @property
    def unread(self) -> dict[str, tuple[str, ...]]:
        """Return the files that must be opened before the plan is complete, by run."""
        return {run.run_id: run.unread for run in self.runs if run.unread}

    @property
    def changes(self) -> tuple[RunPlan, ...]:
        """Return the runs that lose something."""
        return tuple(run for run in self.runs if run.is_change)

    def groups(self, max_files: int) -> list[tuple[RunPlan, ...]]:
        """Return the changes in as few groups as `max_files` allows; a run is never torn apart."""
        groups: list[list[RunPlan]] = []
        room = 0
        for run in self.changes:
            size = len(run.delete) + len(run.write)
            if size > room or not groups:
                groups.append([])
                room = max_files
            groups[-1].append(run)
            room -= size
        return [tuple(group) for group in groups]

    def records_after(self, done: Container[str]) -> dict[str, RunRecord]:
        """Return what the log must know of runs once those in `done` are changed as planned."""
        records = {run.run_id: run.record if run.run_id in done else run.record_before for run in self.runs}
        return {run_id: record for run_id, record in records.items() if record}


def plan_retention(
    runs: Sequence[ScannedRun],
    rules: RetentionRules,
    *,
    protected: Mapping[str, str],
    log: RetentionLog,
    layout: Layout,
    now: float = 0.0,
) -> RetentionPlan:
    """Return what becomes of each run. `protected` has, by run, why it must not be touched.

    `now` is GitHub's time: what someone claims until later stays.

    Runs count by when they were last written to; one of which no checkpoint is left takes no place.
    """
    written = {run.run_id: last_written(run, log) for run in runs}

    def recency(run: ScannedRun) -> tuple[float, float, str]:
        return epoch(written[run.run_id]), epoch(run.last_checkpoint_at), run.run_id

    plans = []
    place = 0
    for run in sorted(runs, key=recency, reverse=True):
        moment = written[run.run_id]
        case = RetentionCase(run, place, moment, log.records.get(run.run_id), rules, layout, now)
        plans.append(decide(case, protected.get(run.run_id, "")))
        place += bool(moment) and not run.is_archived
    return RetentionPlan(tuple(plans))


def plan_pruning(
    runs: Sequence[ScannedRun],
    rules: RetentionRules,
    *,
    protected: Mapping[str, str],
    log: RetentionLog,
    layout: Layout,
    now: float = 0.0,
) -> RetentionPlan:
    """Return what the rules within a run take from each of these; which tier it is in does not matter."""
    plans = []
    for run in runs:
        record = log.records.get(run.run_id)
        case = RetentionCase(run, 0, last_written(run, log), record, rules, layout, now)
        plans.append(decide_pruning(case, protected.get(run.run_id, "")))
    return RetentionPlan(tuple(plans))


def last_written(run: ScannedRun, log: RetentionLog) -> str:
    """Return when a run was last written to: its index says so, or the log, or its newest checkpoint.

    A checkpoint's own time is its caller's, whose clock may be wrong: it counts only where nothing else does.
    """
    if INDEX in run.files:
        return run.snapshot.index.last_updated or run.last_checkpoint_at
    if run.last_checkpoint_at:
        record = log.records.get(run.run_id)
        return record.last_written if record else run.last_checkpoint_at
    return run.summary.completed_at if run.summary else ""


def describe_sweep(runs: Sequence[RunPlan], at: str) -> SweepRecord:
    """Return what the log says of one commit."""
    return SweepRecord(
        at=at,
        deleted_files=sum(len(run.delete) for run in runs),
        deleted_bytes=sum(run.deleted_bytes for run in runs),
        actions=tuple((run.run_id, run.action.value) for run in runs),
    )
