"""`holdfast complete`: the final checkpoint of a run, then retention."""

import argparse

from holdfast.cli.arguments import Commands, seconds
from holdfast.cli.drain import drain
from holdfast.cli.exits import ExitCode
from holdfast.cli.render import Screen, format_count
from holdfast.cli.runs import check_run_id
from holdfast.cli.session import Session, open_session, stop_on_signals

_DESCRIPTION = """\
End a run: save a final checkpoint that carries its newest state on, drain the spool, and clean up.

The final checkpoint is safe on disk before anything else happens; if it cannot be stored now, the exit code
is 75. With HOLDFAST_DELETE_COMPLETED, a completed run is reduced to its summary, unless --keep is given."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "complete",
        run,
        operands="RUN --status completed|failed",
        description=_DESCRIPTION,
        example="holdfast complete build-42 --status completed",
    )
    parser.add_argument("run_id", metavar="RUN")
    parser.add_argument(
        "--status",
        choices=("completed", "failed"),
        default="completed",
        help="how it ended (default: completed)",
    )
    parser.add_argument("--keep", action="store_true", help="do not delete it on success")
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=0.0,
        metavar="S",
        help="wait for limits that long (default: not at all)",
    )


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """End the run, and tell what came of it."""
    run_id = check_run_id(arguments.run_id)
    with stop_on_signals() as stop, open_session(arguments, stop=stop) as session:
        receipt = session.holdfast.complete(run_id, arguments.status, keep=arguments.keep)
        result = drain(session, screen, timeout_s=arguments.timeout)
        deleted = 0 if result.left or stop.is_set() else _clean_up(session, screen)
        newest = session.holdfast.receipt(receipt.checkpoint_id) or receipt
    if screen.is_json:
        from holdfast.documents import receipt_document

        screen.document({**receipt_document(newest), "left": result.left, "deleted_files": deleted})
    else:
        screen.say(f"{run_id} is {arguments.status}: checkpoint {newest.sequence_number} is {newest.status}.")
        if deleted:
            screen.say(f"Retention deleted {format_count(deleted, 'file')}.")
    if not result.left:
        return ExitCode.DONE
    screen.warn(f"{format_count(result.left)} left in the spool: {result.reason or 'they came in meanwhile'}")
    return ExitCode.WORK_LEFT


def _clean_up(session: Session, screen: Screen) -> int:
    """Clean up, and return how many files went. The run is complete whatever comes of this."""
    from holdfast.errors import HoldfastError

    try:
        report = session.holdfast.cleanup()
    except HoldfastError as error:
        screen.warn(f"not cleaned up, the next cleanup will: {error}")
        return 0
    return sum(len(run.delete) for run in report.done)
