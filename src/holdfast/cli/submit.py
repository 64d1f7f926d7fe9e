"""`holdfast submit`: a checkpoint, or bare state, from a file into the spool."""

import argparse
import sys
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session, seconds
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_duration
from holdfast.presentation.session import Session
from holdfast.presentation.stopping import LastWords, stop_on_signals
from holdfast.presentation.user_input import check_filled, check_size, read_file

if TYPE_CHECKING:
    from holdfast.format.receipt import Receipt

_WAIT_S = 60.0

_DESCRIPTION = """\
Put a checkpoint into the spool. It is answered as soon as it is safe on disk.

FILE holds a whole checkpoint (it has a trigger, and a state or state_snapshot), or any other JSON, which is
taken as bare state and needs --run-id. Its bytes are kept as they are. Options beside a whole checkpoint fill
in what it lacks."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "submit",
        run,
        operands="FILE",
        description=_DESCRIPTION,
        example="holdfast submit state.json --run-id build-42 --trigger manual --phase phase_1_plan --wait",
    )
    parser.add_argument("file", metavar="FILE", help="a JSON file, or - for standard input")
    parser.add_argument("--run-id", metavar="RUN", help="the run that this belongs to")
    parser.add_argument("--trigger", help="why it is made (bare state: manual unless given)")
    parser.add_argument("--phase", help="where the run is")
    parser.add_argument("--status", help="in_progress (default), completed, failed or interrupted")
    parser.add_argument("--priority", help="critical, high or medium (default: the trigger's)")
    parser.add_argument("--workflow", help="name or path of the workflow")
    parser.add_argument("--checkpoint-id", metavar="UUID", help="repeating it stores the checkpoint once")
    parser.add_argument("--wait", action="store_true", help="drain until this checkpoint is verified")
    parser.add_argument(
        "--timeout", type=seconds, metavar="S", help=f"wait that long at most (default: {_WAIT_S:.0f} s)"
    )


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Save one checkpoint and print its receipt."""
    if arguments.timeout is not None and not arguments.wait:
        raise WrongUse("--timeout says how long to wait; give --wait with it")
    last_words = LastWords(ExitCode.FAILED)
    # Before anything else: what follows takes a while to load.
    with stop_on_signals(last_words) as stop, open_session(arguments, stop=stop) as session:
        from holdfast.cli.submission import compose

        # Without a name for either text: each is large, and is let go as soon as the next one is made of it.
        receipt = session.holdfast.submit(compose(_read(arguments.file), arguments))
        if not arguments.wait:
            _print(receipt, screen)
            return ExitCode.DONE
        spooled = receipt
        last_words.code = ExitCode.WORK_LEFT
        last_words.tell = lambda: _tell(spooled, session, screen)
        timeout_s = _WAIT_S if arguments.timeout is None else arguments.timeout
        receipt = session.holdfast.wait(receipt.checkpoint_id, timeout_s=timeout_s) or receipt
        return _tell(receipt, session, screen)


def _tell(receipt: "Receipt", session: Session, screen: Screen) -> ExitCode:
    """Print the receipt and, if it is not verified, what stands in its way; return how the wait ended."""
    from holdfast.format.receipt import Progress

    _print(receipt, screen)
    if receipt.status in (Progress.VERIFIED, Progress.DISABLED):
        return ExitCode.DONE
    if receipt.status is Progress.REFUSED:
        screen.warn(f"the checkpoint was refused: {receipt.reason}")
        return ExitCode.FAILED
    next_try = session.holdfast.status()["next_try"]
    reason = receipt.reason or (next_try["because"] if next_try else "")
    because = f": {reason.rstrip('.')}" if reason else ""
    outlook = f"; the next try is in {format_duration(next_try['in_s'])}" if next_try else ""
    not_yet = f"the checkpoint is safe in the spool but not verified yet{because}{outlook}"
    screen.warn(f"{not_yet}; holdfast drain goes on")
    return ExitCode.WORK_LEFT


def _print(receipt: "Receipt", screen: Screen) -> None:
    from holdfast.presentation.documents import receipt_document

    document = receipt_document(receipt)
    if screen.is_json:
        screen.document(document)
    else:
        places = ", ".join(f"{place.path} ({place.kind})" for place in receipt.redacted or ())
        facts = document | ({"redacted": places} if places else {})
        screen.facts([(name, str(value)) for name, value in facts.items()])


def _read(name: str) -> bytes:
    """Return the whole of a file or of standard input. Raises WrongUse."""
    if name != "-":
        return check_filled(read_file(name), name)
    from holdfast.settings import MOST_BYTES

    label = "standard input"
    return check_filled(check_size(sys.stdin.buffer.read(MOST_BYTES + 1), label), label)
