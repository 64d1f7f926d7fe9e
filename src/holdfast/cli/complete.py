"""`holdfast complete`: the final checkpoint of a run, then retention."""

import argparse
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, add_run, add_timeout, open_session
from holdfast.cli.drain import drain
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.session import Session
from holdfast.presentation.stopping import stop_on_signals

if TYPE_CHECKING:
    from holdfast.drain.worker import DrainResult
    from holdfast.format.receipt import Receipt

# A running service looks into the spool every few seconds.
_WAIT_FOR_SERVICE_S = 15.0

_DESCRIPTION = """\
End a run: save a final checkpoint that carries its newest state on, drain the spool, and clean up.

The final checkpoint is safe on disk before anything else happens; if it cannot be stored now, the exit code
is 75, and 1 if GitHub will not take it. Beside a running service or drain, which has the spool, it is left to
that. With HOLDFAST_DELETE_COMPLETED, a completed run is reduced to its summary, unless --keep is given."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "complete",
        run,
        operands="RUN",
        description=_DESCRIPTION,
        example="holdfast complete build-42 --status completed",
    )
    add_run(parser)
    parser.add_argument(
        "--status",
        choices=("completed", "failed"),
        default="completed",
        help="how it ended (default: completed)",
    )
    parser.add_argument("--keep", action="store_true", help="do not delete it on success")
    add_timeout(parser)


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """End the run, and tell what came of it."""
    from holdfast.format.receipt import Progress

    with stop_on_signals() as stop, open_session(arguments, stop=stop) as session:
        receipt = session.holdfast.complete(arguments.run_id, arguments.status, keep=arguments.keep)
        result, is_busy = _store(receipt, session, screen, timeout_s=arguments.timeout)
        receipt = session.holdfast.receipt(receipt.checkpoint_id) or receipt
        is_stored = receipt.status is Progress.VERIFIED and (is_busy or not result.left)
        is_done = is_stored and not stop.is_set()
        deleted = _clean_up(session, screen) if is_done else 0
    if screen.is_json:
        from holdfast.presentation.documents import receipt_document

        outlook = {"left": result.left, "reason": result.reason or None, "deleted_files": deleted}
        screen.document({**receipt_document(receipt), **outlook})
    else:
        stored = f"checkpoint {receipt.sequence_number} is {receipt.status}"
        if receipt.status is Progress.DISABLED:
            stored = "nothing is stored, because HOLDFAST_ENABLED is false"
        screen.say(f"{receipt.run_id} is {arguments.status}: {stored}.")
        if deleted:
            screen.say(f"Retention deleted {format_count(deleted, 'file')}.")
    return _judge(receipt, result, screen, is_busy=is_busy)


def _store(
    receipt: "Receipt", session: Session, screen: Screen, *, timeout_s: float
) -> tuple["DrainResult", bool]:
    """Drain the spool, or see the final checkpoint stored by the process that drains it.

    Returns how the spool stands, and whether another process is still draining it.
    """
    from holdfast.drain.worker import DrainResult
    from holdfast.errors import SpoolBusy

    try:
        return drain(session, screen, timeout_s=timeout_s, tidies=False), False
    except SpoolBusy:
        timeout_s = max(timeout_s, _WAIT_FOR_SERVICE_S)
        session.holdfast.wait(receipt.checkpoint_id, timeout_s=timeout_s, tidies=False)
    try:
        return drain(
            session, screen, tidies=False
        ), False  # the other process may have ended with something left
    except SpoolBusy as error:
        return DrainResult(0, session.assembly.spool.status(0.0).depth, str(error)), True


def _judge(receipt: "Receipt", result: "DrainResult", screen: Screen, *, is_busy: bool) -> ExitCode:
    """Return how this ended, and say what stands in the way of a checkpoint that is not verified."""
    from holdfast.format.receipt import Progress

    if receipt.status is Progress.REFUSED:
        screen.warn(f"the final checkpoint was refused: {receipt.reason}")
        return ExitCode.FAILED
    if is_busy and result.left:
        among = "" if receipt.status is Progress.VERIFIED else ", the final one among them"
        screen.warn(f"{format_count(result.left)} still waiting in the spool{among}: {result.reason}")
    elif result.left:
        reason = result.reason or "they came in meanwhile"
        screen.warn(f"{format_count(result.left)} left in the spool: {reason}")
        return ExitCode.WORK_LEFT
    return ExitCode.DONE


def _clean_up(session: Session, screen: Screen) -> int:
    """Clean up, and return how many files went. The run is complete whatever comes of this."""
    from holdfast.errors import HoldfastError

    try:
        report = session.holdfast.cleanup()
    except HoldfastError as error:
        screen.warn(f"not cleaned up, the next cleanup will: {error}")
        return 0
    if report.rest_because:
        screen.warn(f"cleaned up in part, the next cleanup goes on: {report.rest_because}")
    return sum(len(run.delete) for run in report.done)
