"""How commands are declared: the options they share and what these open, their help, the types of values."""

import argparse
import math
import sys
import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, NoReturn

from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.session import Session, open_with, quieten, settings_from
from holdfast.presentation.user_input import check_run_id, parse_number

if TYPE_CHECKING:
    from holdfast.format.ids import At
    from holdfast.presentation.render import Screen
    from holdfast.settings import Settings

Run = Callable[[argparse.Namespace, "Screen"], int]

# The options that override a setting, under the setting's own name.
SETTINGS = ("data_dir", "repo", "branch", "base_path", "api_url", "write_mode", "log_format", "log_level")


class Parser(argparse.ArgumentParser):
    """A parser that raises WrongUse instead of ending the process.

    If it `takes_command`, what follows the first `--` is a command of its own, and none of our options.
    """

    takes_command = False

    def parse_known_args(  # type: ignore[override]
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        words = list(sys.argv[1:] if args is None else args)
        if not self.takes_command:
            return super().parse_known_args(words, namespace)
        end = words.index("--") if "--" in words else len(words)
        parsed, unknown = super().parse_known_args(words[:end], namespace)
        parsed.command = words[end + 1 :]
        return parsed, unknown

    def error(self, message: str) -> NoReturn:
        raise WrongUse(f"{message}; see {self.prog} --help")


class Commands:
    """Takes in commands, and gives each the options that all of them share."""

    def __init__(self, parser: argparse.ArgumentParser) -> None:
        self._parsers = parser.add_subparsers(
            title="commands", metavar="COMMAND", prog=parser.prog, parser_class=Parser
        )

        def ask(_arguments: argparse.Namespace, _screen: "Screen") -> ExitCode:
            raise WrongUse(f"name a command; see {parser.prog} --help")

        parser.set_defaults(run=ask)

    def add(
        self,
        name: str,
        run: Run,
        *,
        operands: str = "",
        description: str,
        example: str,
        prints_data: bool = True,
    ) -> Parser:
        """Return the parser of a new command, which `run` carries out; `operands` is for its usage line."""
        parser = self._add(name, operands, description, example)
        if prints_data:
            parser.add_argument(
                "--json", action="store_true", help="print one JSON document on standard output"
            )
        add_shared_options(parser)
        parser.set_defaults(run=run)
        return parser

    def add_group(self, name: str, *, description: str, example: str) -> "Commands":
        """Return a group, such as `holdfast spool …`, that takes in commands of its own."""
        parser = self._add(name, "COMMAND …", description, example)
        add_shared_options(parser)
        return Commands(parser)

    def _add(self, name: str, operands: str, description: str, example: str) -> Parser:
        summary = description.partition(".")[0]
        parser: Parser = self._parsers.add_parser(
            name,
            help=summary[0].lower() + summary[1:],
            usage=f"%(prog)s [options] {operands}".rstrip(),
            description=description,
            epilog=f"example:\n  {example}",
            formatter_class=argparse.RawDescriptionHelpFormatter,
            allow_abbrev=False,
        )
        return parser


def add_shared_options(parser: argparse.ArgumentParser) -> None:
    """Give `parser` the options that may stand before a command as well as after it.

    None of them has a default here: a command's parser would set it over what stood before the command.
    """
    shared = parser.add_argument_group("settings (each overrides its HOLDFAST_… variable)")

    def add(option: str, **keywords: object) -> None:
        shared.add_argument(option, default=argparse.SUPPRESS, **keywords)  # type: ignore[arg-type]

    add("--data-dir", metavar="DIR", help="where the spool and the embedded GitHub live")
    add("--repo", metavar="OWNER/NAME", help="repository to write to (default: the embedded GitHub)")
    add("--branch", metavar="BRANCH", help="branch to write to (default: checkpoints)")
    add("--base-path", metavar="PATH", help="folder in the repository (default: checkpoints)")
    add("--api-url", metavar="URL", help="REST root of GitHub Enterprise Server or an emulator")
    add("--write-mode", choices=("contents", "commit"), help="how to write (default: contents)")
    add("--log-format", choices=("console", "json"), help="how events are logged on standard error")
    add(
        "--log-level",
        choices=("debug", "info", "warning", "error"),
        help="from which level on (default: warning)",
    )


def add_run(parser: argparse.ArgumentParser) -> None:
    """Have a command name the run that it is about."""
    parser.add_argument("run_id", metavar="RUN", type=check_run_id)


def add_timeout(parser: argparse.ArgumentParser) -> None:
    """Have a command that drains wait for GitHub's limits."""
    parser.add_argument(
        "--timeout",
        type=seconds,
        default=0.0,
        metavar="S",
        help="wait for limits that long (default: not at all)",
    )


def overrides(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings that the command line names."""
    return {name: value for name in SETTINGS if (value := getattr(arguments, name, None)) is not None}


def read_settings(arguments: argparse.Namespace) -> "Settings":
    """Return the settings in force for this command line. Raises InvalidSettings."""
    return quieten(settings_from(overrides(arguments)))


def open_session(
    arguments: argparse.Namespace, *, stop: threading.Event | None = None
) -> AbstractContextManager[Session]:
    """Open what the environment and the command line name; `stop` ends waits and drains.

    A GitHub that hangs is waited for once, and not for each question of the command.
    """
    from holdfast.clock import SystemClock
    from holdfast.github.patience import Patience

    return open_with(read_settings(arguments), stop=stop, patience=Patience(SystemClock()))


def seconds(text: str) -> float:
    """Return a length of time. Raises ArgumentTypeError."""
    number = parse_number(text)
    if not 0 <= number < math.inf:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds, such as 90")
    return number


def count(text: str) -> int:
    """Return a number from 0 on. Raises ArgumentTypeError."""
    if not (text.isascii() and text.isdigit()):
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number from 0 on")
    return int(text)


def place(text: str) -> "At":
    """Return the number or the id of a checkpoint. Raises ArgumentTypeError."""
    from holdfast.format.ids import parse_at

    try:
        return parse_at(text)
    except ValueError as error:
        raise argparse.ArgumentTypeError(f"{text!r} is no checkpoint: {error}") from error
