"""The JSON shapes in which sweeps and squashes are told, by every door."""

from collections.abc import Sequence
from dataclasses import asdict
from typing import Any

from holdfast.format.paths import Layout
from holdfast.retention.disposal import Action, RunPlan
from holdfast.retention.squash import SquashReport
from holdfast.retention.sweep import SweepReport


def sweep_document(report: SweepReport, layout: Layout, *, is_dry_run: bool) -> dict[str, Any]:
    """Return what a sweep would do, or what it did: every run with the reason, and every path."""
    changes = report.plan.changes if is_dry_run else report.done
    return {
        "dry_run": is_dry_run,
        "deleted_files": sum(len(run.delete) for run in changes),
        "deleted_bytes": sum(run.deleted_bytes for run in changes),
        "commits": report.commits,
        "runs": [_run_document(run) for run in _newest_fates(report)],
        "delete": [layout.path(run.run_id, name) for run in changes for name in run.delete],
        "write": [layout.path(run.run_id, name) for run in changes for name in run.write],
        "left": [
            {"run_id": run.run_id, "reason": run.reason}
            for run in report.plan.runs
            if run.action is Action.LEAVE
        ],
        "unknown": list(report.strangers),
        "reason": report.rest_because or None,
    }


def squash_document(report: SquashReport) -> dict[str, Any]:
    """Return what a squash did."""
    return asdict(report)


def _newest_fates(report: SweepReport) -> Sequence[RunPlan]:
    """Return each run once: what was done to it, if anything was, else what the last plan says of it."""
    done = {run.run_id: run for run in report.done}
    planned = {run.run_id: done.pop(run.run_id, run) for run in report.plan.runs}
    return [*planned.values(), *done.values()]


def _run_document(run: RunPlan) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "action": run.action.value,
        "reason": run.reason,
        "last_written": run.last_written or None,
        "deleted_files": len(run.delete),
        "deleted_bytes": run.deleted_bytes,
    }
