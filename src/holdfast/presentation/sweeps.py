"""What a clean-up did, or would do: for people, and as JSON."""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from holdfast.format.paths import Layout
from holdfast.presentation.render import format_bytes, format_count
from holdfast.retention.disposal import Action, RunPlan
from holdfast.retention.sweep import SweepReport

COLUMNS = ("run", "action", "files", "bytes", "why")


@dataclass(frozen=True, slots=True)
class SweptRun:
    """What becomes of one run, and why."""

    run_id: str
    action: Action
    reason: str
    last_written: str | None
    deleted_files: int
    deleted_bytes: int


@dataclass(frozen=True, slots=True)
class LeftRun:
    """A run that is left as it is, because it is damaged or not understood."""

    run_id: str
    reason: str


@dataclass(frozen=True, slots=True)
class SweepDocument:
    """A clean-up: every run with the reason, and every path. `reason` is why something is left to do."""

    dry_run: bool
    deleted_files: int
    deleted_bytes: int
    commits: list[str]
    runs: list[SweptRun]
    delete: list[str]
    write: list[str]
    left: list[LeftRun]
    unknown: list[str]
    reason: str | None


def sweep_document(report: SweepReport, layout: Layout, *, is_dry_run: bool) -> SweepDocument:
    """Return a clean-up for JSON."""
    changes = changes_of(report, is_dry_run=is_dry_run)
    return SweepDocument(
        dry_run=is_dry_run,
        deleted_files=sum(len(run.delete) for run in changes),
        deleted_bytes=sum(run.deleted_bytes for run in changes),
        commits=report.commits,
        runs=[_swept_run(run) for run in _newest_plans(report)],
        delete=[layout.path(run.run_id, name) for run in changes for name in run.delete],
        write=[layout.path(run.run_id, name) for run in changes for name in run.write],
        left=[LeftRun(run.run_id, run.reason) for run in _left_alone(report)],
        unknown=list(report.strangers),
        reason=report.rest_because or None,
    )


def changes_of(report: SweepReport, *, is_dry_run: bool) -> Sequence[RunPlan]:
    """Return the runs that a clean-up changed, or would change."""
    return report.plan.changes if is_dry_run else report.done


def sweep_rows(report: SweepReport, *, is_dry_run: bool) -> list[tuple[str, str, str, str, str]]:
    """Return a row, by `COLUMNS`, for each run that changes or is left alone."""
    runs = (*changes_of(report, is_dry_run=is_dry_run), *_left_alone(report))
    return [
        (run.run_id, str(run.action), f"{len(run.delete):,}", format_bytes(run.deleted_bytes), run.reason)
        for run in runs
    ]


def size_of(changes: Sequence[RunPlan]) -> str:
    """Return how much is deleted, in words."""
    files = format_count(sum(len(run.delete) for run in changes), "file")
    return f"{files} ({format_bytes(sum(run.deleted_bytes for run in changes))})"


def _left_alone(report: SweepReport) -> Iterator[RunPlan]:
    return (run for run in report.plan.runs if run.action is Action.LEAVE)


def _newest_plans(report: SweepReport) -> Sequence[RunPlan]:
    """Return each run once: what was done to it, if anything was, else what the last plan says of it."""
    done = {run.run_id: run for run in report.done}
    planned = {run.run_id: done.pop(run.run_id, run) for run in report.plan.runs}
    return [*planned.values(), *done.values()]


def _swept_run(run: RunPlan) -> SweptRun:
    last_written = run.last_written or None
    return SweptRun(run.run_id, run.action, run.reason, last_written, len(run.delete), run.deleted_bytes)
