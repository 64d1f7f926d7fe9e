"""`holdfast import`: checkpoints of other systems, into the spool."""

import argparse
import re
from dataclasses import asdict
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_count
from holdfast.presentation.user_input import check_run_id, read_file

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from holdfast.importing.importer import Import

_DESCRIPTION = """\
Take in checkpoints in the formats of other systems: an agentic loop's checkpoint, a build's state.json, a
workflow session's checkpoint.json and what it wrote before that, rows of workflow_checkpoints, and
checkpoints of the specification.

A file holds one of them, a list, or one in each line. Of a folder, every .json, .jsonl and .ndjson file below
it is taken; an index, a summary and the lists of a checkpoint repository are passed over. Each checkpoint is
recognised, converted, checked and put into the spool. Doing it again changes nothing."""

_SUFFIXES = (".json", ".jsonl", ".ndjson")
# What lies beside the checkpoints in a repository of the specification.
_BOOKKEEPING = re.compile(r"(index(_\d+_\d+)?|summary|preserved_runs|retention_log|claim)\.json")


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "import",
        run,
        operands="FILE|FOLDER…",
        description=_DESCRIPTION,
        example="holdfast import .specular/checkpoints/*/state.json && holdfast drain",
    )
    parser.add_argument("files", metavar="FILE|FOLDER", nargs="+", type=Path)
    parser.add_argument("--run-id", metavar="RUN", type=check_run_id, help="the run of those that name none")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Take in every file and print what became of each."""
    sources = [(str(path), read_file(path)) for path in _find_files(arguments.files)]
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


def _find_files(paths: "Sequence[Path]") -> "Iterator[Path]":
    """Yield the files, and those below the folders in the order of their names. Raises WrongUse."""
    for path in paths:
        if not path.is_dir():
            yield path
            continue
        below = [each for each in sorted(path.rglob("*")) if each.suffix in _SUFFIXES and each.is_file()]
        found = [each for each in below if not _BOOKKEEPING.fullmatch(each.name)]
        if not found:
            raise WrongUse(f"there is no checkpoint file below {path}")
        yield from found


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
