"""`holdfast import`: checkpoints of other systems, into the spool."""

import argparse
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.user_input import check_run_id, read_file

if TYPE_CHECKING:
    from collections.abc import Sequence

    from holdfast.importing.importer import Import

_DESCRIPTION = """\
Take in checkpoints in the formats of other systems: an agentic loop's checkpoint, a build's state.json, a
workflow session's checkpoint.json, rows of workflow_checkpoints, and checkpoints of the specification.

Each is recognised, converted, checked and put into the spool. Doing it again changes nothing."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "import",
        run,
        operands="FILE…",
        description=_DESCRIPTION,
        example="holdfast import .specular/checkpoints/*/state.json && holdfast drain",
    )
    parser.add_argument("files", metavar="FILE", nargs="+", type=Path)
    parser.add_argument("--run-id", metavar="RUN", type=check_run_id, help="the run of those that name none")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Take in every file and print what became of each."""
    sources = [(str(path), read_file(path)) for path in arguments.files]
    with open_session(arguments) as session:
        imports = session.holdfast.import_checkpoints(sources, run_id=arguments.run_id)
    refused = [each for each in imports if each.outcome == "refused"]
    if screen.is_json:
        screen.document({"imports": [asdict(each) for each in imports]})
    else:
        _print(imports, screen)
    if not refused:
        return ExitCode.DONE
    return ExitCode.WRONG_USE if len(refused) == len(imports) else ExitCode.FAILED


def _print(imports: "Sequence[Import]", screen: Screen) -> None:
    rows = [
        (
            each.source,
            each.outcome,
            each.format or "",
            each.run_id or "",
            "" if each.sequence_number is None else str(each.sequence_number),
            "; ".join([*([each.reason] if each.reason else []), *each.notes]),
        )
        for each in imports
    ]
    screen.table(("file", "outcome", "format", "run", "#", "remarks"), rows, right=("#",))
    taken = sum(each.outcome != "refused" for each in imports)
    screen.say(f"{format_count(taken)} in the spool or stored, {len(imports) - taken} refused.")
