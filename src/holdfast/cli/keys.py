"""`holdfast keys`: make keys that seal and sign, and seal what is stored with the newest one."""

import argparse
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.session import Session

if TYPE_CHECKING:
    from holdfast.retention.rotation import RotationReport


def register(commands: Commands) -> None:
    """Add the group and its commands."""
    group = commands.add_group(
        "keys",
        description="Make the keys that states are sealed with, and checkpoints signed.",
        example="holdfast keys new > ~/.holdfast-key",
    )
    new = group.add(
        "new",
        make,
        description="Print a new key, as a JSON Web Key on one line. Keep it safe: nobody opens what it has\n"
        "sealed without it. A pair is printed whole, and its public half on a second line.",
        example="holdfast keys new > ~/.holdfast-key",
    )
    kind = new.add_mutually_exclusive_group()
    kind.add_argument(
        "--signing", action="store_true", help="a pair for HOLDFAST_SIGNING_KEY; the public half verifies"
    )
    kind.add_argument(
        "--recipient", action="store_true", help="a pair whose public half seals, and cannot open"
    )

    rotate = group.add(
        "rotate",
        rotate_keys,
        operands="RUN|--all",
        description="Seal what is stored with the first key of HOLDFAST_ENCRYPTION_KEY, a commit at a time.\n"
        "Cut short, it goes on where it stopped when it is called again. The history keeps the old\n"
        "states: holdfast cleanup --squash-history drops them.",
        example="holdfast keys rotate --all",
    )
    rotate.add_argument("run_id", metavar="RUN", nargs="?", help="the run to seal anew")
    rotate.add_argument("--all", action="store_true", help="every run that is stored")


def rotate_keys(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Seal one run or all of them with the newest key."""
    if bool(arguments.run_id) == arguments.all:
        raise WrongUse("name one run, or give --all")
    with open_session(arguments) as session:
        holdfast = session.holdfast
        run_ids = [arguments.run_id] if arguments.run_id else [run.run_id for run in holdfast.runs()]
        reports = [_rotate(session, run_id) for run_id in run_ids]
    left = [reason for report in reports for reason in report.left]
    if screen.is_json:
        screen.document({"runs": reports})
    sealed = sum(report.sealed for report in reports)
    screen.say(f"{format_count(sealed)} sealed with the newest key, in {format_count(len(reports), 'run')}.")
    for reason in left:
        screen.warn(f"left as it is: {reason}")
    return ExitCode.FAILED if left else ExitCode.DONE


def _rotate(session: Session, run_id: str) -> "RotationReport":
    """Rotate one run; one that is only spooled so far is passed over."""
    from holdfast.errors import UnknownRun
    from holdfast.retention.rotation import RotationReport

    try:
        return session.holdfast.rotate_keys(run_id)
    except UnknownRun:
        if any(item.run_id == run_id for item in session.assembly.spool.pending()):
            return RotationReport(run_id, left=[f"{run_id}: it is only in the spool; drain it first"])
        raise


def make(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print a new key."""
    import orjson

    from holdfast.security import jose

    if not (arguments.signing or arguments.recipient):
        key = jose.make_shared_key()
        if screen.is_json:
            screen.document(key)
        screen.say(orjson.dumps(key).decode())
        return ExitCode.DONE
    pair = jose.make_signing_key() if arguments.signing else jose.make_recipient_key()
    public = jose.public_half(pair)
    if screen.is_json:
        screen.document({"private": pair, "public": public})
    for half in (pair, public):
        screen.say(orjson.dumps(half).decode())
    return ExitCode.DONE
