"""`holdfast doctor`: whether everything is in order, and what to do where it is not."""

import argparse
import os
import time
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen

if TYPE_CHECKING:
    from holdfast.doctor import Check

_DESCRIPTION = """\
Check settings, disk, spool, GitHub, token, permission, branch, limits, clock and stored format, a line each,
with what to do. Nothing is written to GitHub. The exit code is 1 if anything must be mended."""


def register(commands: Commands) -> None:
    """Add the command."""
    commands.add("doctor", run, description=_DESCRIPTION, example="holdfast doctor --json")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Examine everything and print what was found."""
    began = time.monotonic()
    from holdfast.doctor import examine
    from holdfast.presentation.documents import diagnosis_document
    from holdfast.settings import unknown_variables

    with open_session(arguments) as session:
        unknown = unknown_variables(os.environ)
        diagnosis = examine(session.assembly, unknown_variables=unknown, began=began)
    if screen.is_json:
        screen.document(diagnosis_document(diagnosis))
    else:
        screen.table(("", "check", "found"), [row for check in diagnosis.checks for row in _rows(check)])
    return ExitCode.DONE if diagnosis.ok else ExitCode.FAILED


def _rows(check: "Check") -> list[tuple[str, str, str]]:
    rows = [("ok" if check.ok else "FAILED", check.name, check.detail)]
    return [*rows, ("", "", f"→ {check.advice}")] if check.advice else rows
