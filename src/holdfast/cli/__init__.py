"""The command line: parses, calls, prints. It holds no rule of the domain.

Every command is a module with `register(commands)`. What a command needs is imported when it runs, so that
`holdfast --help` is quick.
"""

import argparse
import os
import sys
from collections.abc import Sequence
from contextlib import suppress
from importlib import import_module

from holdfast import __version__
from holdfast.cli.arguments import Commands, Parser, add_shared_options
from holdfast.errors import HoldfastError
from holdfast.logs import escape_controls
from holdfast.presentation.exits import CommandFailed, ExitCode, WrongUse, describe, exit_code_of
from holdfast.presentation.render import Screen, writing_answer

# Each command with its module, in the order in which `holdfast --help` shows them.
COMMANDS = {
    "demo": "demo",
    "serve": "serve",
    "exec": "execution",
    "ui": "ui",
    "submit": "submit",
    "drain": "drain",
    "status": "status",
    "stats": "stats",
    "doctor": "doctor",
    "runs": "runs",
    "list": "runs",
    "show": "runs",
    "resume": "resume",
    "validate": "validate",
    "diff": "diff",
    "replay": "diff",
    "import": "import_files",
    "complete": "complete",
    "review": "decide",
    "rollback": "decide",
    "fork": "decide",
    "delete": "decide",
    "cleanup": "cleanup",
    "preserve": "cleanup",
    "spool": "spool",
    "keys": "keys",
    "emulator": "emulator",
    "n8n": "n8n",
    "mcp": "mcp",
    "config": "config",
    "completion": "completion",
}

_DESCRIPTION = (
    "Keeps workflow checkpoints in a GitHub repository: safe on disk at once, verified there soon after."
)
_EPILOG = """\
example:
  holdfast submit state.json --run-id build-42 --trigger manual --phase phase_1_plan --wait

Without HOLDFAST_REPO every command works on an embedded GitHub under the data folder: no token, no network.
exit codes: 0 done, 1 failed, 2 wrong use or invalid input, 75 work is left in the spool"""


def build_parser(command: str = "") -> Parser:
    """Return the parser of the whole command line, or of the module of `command` alone, if there is one.

    To load and declare all commands takes longer than many a command: a build step has no time for that.
    """
    modules = [COMMANDS[command]] if command in COMMANDS else dict.fromkeys(COMMANDS.values())
    parser = Parser(
        prog="holdfast",
        usage="%(prog)s [options] COMMAND …",
        description=_DESCRIPTION,
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
        allow_abbrev=False,
    )
    parser.add_argument("--version", action="version", version=f"holdfast {__version__}")
    add_shared_options(parser)
    commands = Commands(parser)
    for module in modules:
        import_module(f"holdfast.cli.{module}").register(commands)
    return parser


def main(argv: Sequence[str] | None = None) -> int:
    """Carry out one command line and return its exit code."""
    _open_closed_streams()
    _tolerate_narrow_encodings()
    arguments = argparse.Namespace()
    try:
        return _carry_out(arguments, argv)
    except (HoldfastError, WrongUse, CommandFailed) as error:
        if isinstance(error.__cause__, OSError):
            _abandon_output()
        return _fail(error, arguments)
    except KeyboardInterrupt:
        return _fail(CommandFailed("interrupted"), arguments)
    except BrokenPipeError:
        _abandon_output()
        return ExitCode.FAILED
    except OSError as error:
        _abandon_output()
        return _fail(CommandFailed(str(error)), arguments)


def _carry_out(arguments: argparse.Namespace, argv: Sequence[str] | None) -> int:
    words = list(sys.argv[1:] if argv is None else argv)
    parser = build_parser(words[0] if words else "")
    try:
        parser.parse_args(words, arguments)
    except SystemExit as end:  # --help and --version are done now
        sys.stdout.flush()
        return int(end.code or 0)
    code: int = arguments.run(arguments, Screen(is_json=getattr(arguments, "json", False)))
    with writing_answer():
        sys.stdout.flush()
    return code


def _fail(error: Exception, arguments: argparse.Namespace) -> ExitCode:
    level = getattr(arguments, "log_level", None) or os.environ.get("HOLDFAST_LOG_LEVEL")
    if level == "debug":
        import traceback

        traceback.print_exception(error)
    sys.stderr.write(f"holdfast: {escape_controls(describe(error))}\n")
    return exit_code_of(error)


def _open_closed_streams() -> None:
    """Have nothing in place of each standard stream that is closed: the next file would get its number."""
    for number, name in enumerate(("stdin", "stdout", "stderr")):
        if getattr(sys, name) is None:
            nowhere = os.open(os.devnull, os.O_RDWR)
            if nowhere != number:  # pragma: no cover (someone has taken that number already)
                os.dup2(nowhere, number)
                os.close(nowhere)
            setattr(sys, name, os.fdopen(number, "w" if number else "r", encoding="utf-8"))


def _tolerate_narrow_encodings() -> None:
    """Have a character that the terminal cannot show spelled out, rather than end in an error."""
    for stream in (sys.stdout, sys.stderr):
        with suppress(AttributeError):
            stream.reconfigure(errors="backslashreplace")  # type: ignore[union-attr]


def _abandon_output() -> None:
    """Send what is still to be printed nowhere: the interpreter would complain of it at its end."""
    with suppress(OSError, ValueError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, sys.stdout.fileno())
        os.close(nowhere)
