"""The command cleanup: retention, and what people read of it."""

from holdfast.action.outcome import StepOutcome, Table
from holdfast.action.step import ActionStep
from holdfast.cli.session import Session
from holdfast.errors import Stopped, SweepBusy, Throttled
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import format_bytes, format_count
from holdfast.retention.disposal import Action

_COLUMNS = ("run", "action", "files", "bytes", "why")


def cleanup(step: ActionStep) -> StepOutcome:
    """Clean up by the rules of retention, or only say what that would do."""
    try:
        return clean_up(step.session, is_dry_run=step.inputs.is_dry_run)
    except (Throttled, SweepBusy, Stopped) as error:
        return StepOutcome(
            title="not everything is cleaned up",
            outputs={"status": "postponed"},
            problems=(f"The next cleanup goes on: {error}",),
            code=ExitCode.WORK_LEFT,
        )


def clean_up(session: Session, *, is_dry_run: bool) -> StepOutcome:
    """Return what retention did or would do. Raises HoldfastError."""
    report = session.holdfast.cleanup(dry_run=is_dry_run)
    changes = report.plan.changes if is_dry_run else report.done
    files = sum(len(run.delete) for run in changes)
    size = format_bytes(sum(run.deleted_bytes for run in changes))
    sentence = (
        f"{'Would delete' if is_dry_run else 'Deleted'} {format_count(files, 'file')} ({size}) of "
        f"{len(changes):,} of {format_count(len(report.plan.runs), 'run')}."
    )
    left = [run for run in report.plan.runs if run.action is Action.LEAVE]
    rows = [
        (run.run_id, str(run.action), f"{len(run.delete):,}", format_bytes(run.deleted_bytes), run.reason)
        for run in (*changes, *left)
    ]
    return StepOutcome(
        title="dry run of a cleanup" if is_dry_run else "cleanup",
        outputs={"status": "postponed" if report.rest_because else "done", "deleted": str(files)},
        table=Table(_COLUMNS, tuple(rows)),
        facts=(sentence,),
        problems=(f"The next cleanup goes on: {report.rest_because}",) if report.rest_because else (),
        code=ExitCode.WORK_LEFT if report.rest_because else ExitCode.DONE,
    )
