"""`holdfast submit`: a checkpoint, or bare state, from a file into the spool."""

import argparse
import sys
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, seconds
from holdfast.cli.session import LastWords, Session, open_session, stop_on_signals
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_duration

if TYPE_CHECKING:
    from holdfast.format.receipt import Receipt

_WAIT_S = 60.0
_GO_ON = "holdfast drain goes on"

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
        from holdfast.settings import MOST_BYTES

        # Without a name for either text: each is large, and is let go as soon as the next one is made of it.
        receipt = session.holdfast.submit(compose(_read(arguments.file, MOST_BYTES), arguments))
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
    _print(receipt, screen)
    return _judge(receipt, session, screen)


def _judge(receipt: "Receipt", session: Session, screen: Screen) -> ExitCode:
    """Return how a wait ended, and say what stands in the way of a checkpoint that is not verified."""
    from holdfast.format.receipt import Progress

    if receipt.status is Progress.VERIFIED:
        return ExitCode.DONE
    if receipt.status is Progress.REFUSED:
        screen.warn(f"the checkpoint was refused: {receipt.reason}")
        return ExitCode.FAILED
    next_try = session.holdfast.status()["next_try"]
    reason = receipt.reason or (next_try["because"] if next_try else "")
    because = f": {reason.rstrip('.')}" if reason else ""
    outlook = f"; the next try is in {format_duration(next_try['in_s'])}" if next_try else ""
    screen.warn(f"the checkpoint is safe in the spool but not verified yet{because}{outlook}; {_GO_ON}")
    return ExitCode.WORK_LEFT


def _print(receipt: "Receipt", screen: Screen) -> None:
    from holdfast.presentation.documents import receipt_document

    document = receipt_document(receipt)
    if screen.is_json:
        screen.document(document)
        return
    screen.facts([(name, str(value)) for name, value in document.items()])


def _read(name: str, limit_bytes: int) -> bytes:
    """Return the whole of a file or of standard input, which must not be larger than `limit_bytes`."""
    if name == "-":
        text, label = sys.stdin.buffer.read(limit_bytes + 1), "standard input"
    else:
        try:
            with Path(name).open("rb") as file:
                text, label = file.read(limit_bytes + 1), name
        except (OSError, ValueError) as error:
            reason = (error.strerror if isinstance(error, OSError) else None) or str(error)
            raise WrongUse(
                f"{name} cannot be read: {reason}; name a JSON file, or - for standard input"
            ) from error
    if len(text) > limit_bytes:
        raise WrongUse(
            f"{label} has more than {limit_bytes:,} bytes, which is the most that a checkpoint may have; "
            "keep large outputs elsewhere and store references to them"
        )
    if not text.strip():
        raise WrongUse(f"{label} is empty; a checkpoint is a JSON document")
    return text
