"""Writes `man holdfast` from the parsers: .venv/bin/python scripts/lib/man_page.py."""

import argparse
from collections.abc import Iterator
from pathlib import Path

from holdfast.cli import build_parser
from holdfast.presentation.exits import ExitCode

PAGE = Path(__file__).resolve().parents[2] / "src" / "holdfast" / "cli" / "holdfast.1"
_MEANINGS = {
    ExitCode.DONE: "done",
    ExitCode.FAILED: "failed",
    ExitCode.WRONG_USE: "wrong use, or invalid input",
    ExitCode.WORK_LEFT: "work is left in the spool",
}


def format_page(parser: argparse.ArgumentParser) -> str:
    """Return the page as man reads it."""
    shared = {option for action in parser._actions for option in action.option_strings}
    lines = [
        f'.\\" {__doc__}',
        ".TH HOLDFAST 1",
        ".SH NAME",
        r"holdfast \- workflow checkpoints in a GitHub repository",
        ".SH SYNOPSIS",
        r"\fBholdfast\fR [\fIoptions\fR] \fICOMMAND\fR \[u2026]",
        ".SH DESCRIPTION",
        *_text(parser.description or ""),
        ".SH OPTIONS",
        "They may stand before a command or after it; each overrides its HOLDFAST_\\[u2026] variable.",
        *(line for action in parser._actions for line in _option(action)),
        ".SH COMMANDS",
        *(line for command in _commands(parser) for line in _command(command, shared)),
        ".SH EXIT STATUS",
        *(line for code in ExitCode for line in (".TP", rf"\fB{code.value}\fR", _MEANINGS[code])),
    ]
    return "\n".join(lines) + "\n"


def _commands(parser: argparse.ArgumentParser) -> Iterator[argparse.ArgumentParser]:
    """Yield every command, and in place of a group those below it."""
    below = [action for action in parser._actions if isinstance(action, argparse._SubParsersAction)]
    for action in below:
        for command in action.choices.values():
            yield from _commands(command)
    if not below:
        yield parser


def _command(command: argparse.ArgumentParser, shared: set[str]) -> Iterator[str]:
    usage = (command.usage or "").replace("%(prog)s", "").strip()
    yield f'.SS "{_escape(f"{command.prog} {usage}")}"'
    yield from _text(command.description or "")
    for action in command._actions:
        if not set(action.option_strings) <= shared or not action.option_strings:
            yield from _option(action)
    yield from (".PP", "Example:", ".PP", ".nf")
    yield from (_escape(line) for line in (command.epilog or "").splitlines()[1:])
    yield ".fi"


def _option(action: argparse.Action) -> Iterator[str]:
    """Yield an option, or an operand that has a word of help, with what it takes."""
    if isinstance(action, argparse._SubParsersAction) or not (action.option_strings or action.help):
        return
    names = ", ".join(rf"\fB{_escape(name)}\fR" for name in action.option_strings)
    taken = action.metavar or "|".join(map(str, action.choices or ())) or action.dest.upper()
    value = "" if action.nargs == 0 else rf"\fI{_escape(str(taken))}\fR"
    yield from (".TP", f"{names} {value}".strip())
    yield from _text((action.help or "").replace("%%", "%"))


def _text(text: str) -> Iterator[str]:
    """Yield the lines of a text; an empty one begins a paragraph."""
    for line in text.splitlines():
        yield _escape(line.strip()) or ".PP"


def _escape(text: str) -> str:
    r"""Return a text that man takes as it is.

    >>> _escape(".x --a \\ …")
    '\\&.x \\-\\-a \\e \\[u2026]'
    """
    escaped = text.replace("\\", r"\e").replace("-", r"\-").replace('"', r"\(dq")
    escaped = "".join(each if each.isascii() else rf"\[u{ord(each):04X}]" for each in escaped)
    return rf"\&{escaped}" if escaped.startswith((".", "'")) else escaped


if __name__ == "__main__":
    PAGE.write_text(format_page(build_parser()), encoding="utf-8")
