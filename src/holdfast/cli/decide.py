"""`holdfast review`, `rollback`, `fork` and `delete`: what a person decides about a run."""

import argparse
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, add_run, add_timeout, open_session, place
from holdfast.cli.drain import drain
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.session import Session
from holdfast.presentation.user_input import check_run_id

if TYPE_CHECKING:
    from holdfast.format.receipt import Receipt

_REVIEW = """\
Decide what a run waits for that needs a person: an open circuit breaker, an escalation, a gate that failed.

continue closes the breaker or lets the gate pass, and the run goes on where it was; retry repeats the place
that failed; stop ends the run as failed. The decision is a checkpoint, which is drained like any other."""


def register(commands: Commands) -> None:
    """Add the four commands."""
    review = commands.add(
        "review",
        run_review,
        operands="RUN",
        description=_REVIEW,
        example="holdfast review build-42 --decision continue --by ada",
    )
    add_run(review)
    review.add_argument(
        "--decision",
        choices=("continue", "retry", "stop"),
        required=True,
        help="what is to become of the run",
    )
    review.add_argument("--by", metavar="NAME", help="who decides")
    rollback = commands.add(
        "rollback",
        run_rollback,
        operands="RUN AT",
        description="Go on from an older checkpoint: its state is carried on in a new one.",
        example="holdfast rollback build-42 3",
    )
    add_run(rollback)
    fork = commands.add(
        "fork",
        run_fork,
        operands="RUN AT NEW_RUN",
        description="Begin another run with the state of a checkpoint. The old one stays as it is.",
        example="holdfast fork build-42 3 build-42-b",
    )
    add_run(fork)
    for parser in (rollback, fork):
        parser.add_argument("at", metavar="AT", type=place, help="number or id of the checkpoint")
    for parser in (review, rollback):
        parser.add_argument("--note", metavar="TEXT", help="why")
    fork.add_argument("new_run_id", metavar="NEW_RUN", type=check_run_id, help="name of the new run")
    for parser in (review, rollback, fork):
        add_timeout(parser)
    delete = commands.add(
        "delete",
        run_delete,
        operands="RUN",
        description="Delete a run as one commit, with what waits for it in the spool. History still has it.",
        example="holdfast delete build-42 --yes",
    )
    add_run(delete)
    delete.add_argument("--yes", action="store_true", help="needed: there is no way back")
    delete.add_argument("--force", action="store_true", help="delete it even if it is preserved, or claimed")


def run_review(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Save the decision."""
    with open_session(arguments) as session:
        receipt = session.holdfast.review(
            arguments.run_id, arguments.decision, note=arguments.note, by=arguments.by
        )
        told = f"{receipt.run_id}: {arguments.decision}, decided with checkpoint"
        return _store(receipt, told, session, screen, timeout_s=arguments.timeout)


def run_rollback(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Save the older state anew."""
    with open_session(arguments) as session:
        receipt = session.holdfast.rollback(arguments.run_id, arguments.at, note=arguments.note)
        told = f"{receipt.run_id} goes on from checkpoint {arguments.at}, carried on in checkpoint"
        return _store(receipt, told, session, screen, timeout_s=arguments.timeout)


def run_fork(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Begin the new run."""
    with open_session(arguments) as session:
        receipt = session.holdfast.fork(arguments.run_id, arguments.at, arguments.new_run_id)
        told = f"{receipt.run_id} begins with the state of {arguments.run_id} {arguments.at}: checkpoint"
        return _store(receipt, told, session, screen, timeout_s=arguments.timeout)


def run_delete(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Delete the run."""
    if not arguments.yes:
        raise WrongUse(f"there is no way back: add --yes to delete {arguments.run_id}")
    with open_session(arguments) as session:
        deleted = session.holdfast.delete(arguments.run_id, force=arguments.force)
    if screen.is_json:
        screen.document(deleted)
    else:
        files = format_count(deleted.deleted_files, "file")
        spooled = format_count(deleted.deleted_spooled)
        screen.say(f"{deleted.run_id} is deleted: {files} of the repository, {spooled} of the spool.")
    return ExitCode.DONE


def _store(receipt: "Receipt", told: str, session: Session, screen: Screen, *, timeout_s: float) -> ExitCode:
    """Drain the spool, and tell how far the decision has come. A running service or drain sees to it, too."""
    from holdfast.errors import SpoolBusy
    from holdfast.presentation.documents import receipt_document

    left, reason = 0, ""
    try:
        result = drain(session, screen, timeout_s=timeout_s)
        left, reason = result.left, result.reason
    except SpoolBusy as error:
        screen.warn(f"it is left to the process that drains: {error}")
    receipt = session.holdfast.receipt(receipt.checkpoint_id) or receipt
    if screen.is_json:
        screen.document(receipt_document(receipt))
    else:
        screen.say(f"{told} {receipt.sequence_number}, which is {receipt.status}.")
    if left:
        screen.warn(f"{format_count(left)} left in the spool: {reason or 'they came in meanwhile'}")
        return ExitCode.WORK_LEFT
    return ExitCode.DONE
