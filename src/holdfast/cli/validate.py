"""`holdfast validate`: whether a file or a run is as it should be."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.user_input import check_run_id, read_file

if TYPE_CHECKING:
    from holdfast.repository.findings import Report

_DESCRIPTION = """\
Check a file, or a run with all that is stored and spooled of it: schema, integrity, index against files,
gaps in the numbers, parts. Every finding is listed; any finding, and anything that could not be checked
because GitHub is away, makes the exit code 1."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "validate",
        run,
        operands="FILE|RUN",
        description=_DESCRIPTION,
        example="holdfast validate build-42",
    )
    parser.add_argument("subject", metavar="FILE|RUN", help="a file of this machine, else the name of a run")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Check what was named and print every finding."""
    subject = arguments.subject
    report = _check_file(Path(subject)) if _is_file(subject) else _check_run(arguments)
    if screen.is_json:
        screen.document(
            {
                "subject": report.subject,
                "valid": report.is_valid,
                "checkpoints": report.checkpoints,
                "findings": [asdict(finding) for finding in report.findings],
                "notes": list(report.notes),
                "unchecked": list(report.unchecked),
            }
        )
    else:
        _print(report, screen)
    return ExitCode.DONE if report.is_valid else ExitCode.FAILED


def _is_file(subject: str) -> bool:
    """Whether a file is meant; a run's name has no separator, and hardly ever a file's ending."""
    return "/" in subject or subject.endswith(".json") or Path(subject).is_file()


def _check_file(path: Path) -> "Report":
    from holdfast.repository.findings import check_file

    return check_file(read_file(path), str(path))


def _check_run(arguments: argparse.Namespace) -> "Report":
    run_id = check_run_id(arguments.subject)
    with open_session(arguments) as session:
        return session.holdfast.validate(run_id)


def _print(report: "Report", screen: Screen) -> None:
    checked = f"{format_count(report.checkpoints)} checked"
    if report.is_valid:
        screen.say(f"{report.subject}: ok, {checked}", style="green")
    elif not report.findings:
        screen.say(f"{report.subject}: not known, {checked} and nothing wrong with that", style="yellow")
    else:
        found = format_count(len(report.findings), "finding")
        screen.say(f"{report.subject}: {found}, {checked}", style="red")
        screen.table(("where", "what is wrong"), [(each.path, each.reason) for each in report.findings])
    for reason in report.unchecked:
        screen.say(f"not checked: {reason}", style="yellow")
    for note in report.notes:
        screen.say(f"note: {note}")
