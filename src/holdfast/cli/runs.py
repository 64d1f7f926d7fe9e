"""`holdfast runs`, `list` and `show`: what is stored, and what is still spooled, as one."""

import argparse
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, add_run, count, open_session, place
from holdfast.logs import escape_json
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen
from holdfast.presentation.session import Session

if TYPE_CHECKING:
    from holdfast.format.index import Index
    from holdfast.repository.catalog import RunSummary


def register(commands: Commands) -> None:
    """Add the three commands."""
    runs = commands.add(
        "runs",
        list_runs,
        description="List the runs, stored or spooled, the one last written to first.",
        example="holdfast runs --resumable --workflow ci.yml",
    )
    runs.add_argument("--resumable", action="store_true", help="only those that can be resumed")
    runs.add_argument("--review", action="store_true", help="only those that wait for a person")
    runs.add_argument("--archived", action="store_true", help="those of which only a summary is left")
    runs.add_argument("--workflow", metavar="PATH|NAME", help="only those of this workflow")

    checkpoints = commands.add(
        "list",
        list_checkpoints,
        operands="RUN",
        description="List the checkpoints of a run, stored or spooled.",
        example="holdfast list build-42 --limit 20",
    )
    add_run(checkpoints)
    checkpoints.add_argument("--limit", metavar="N", type=count, help="only the newest N")

    show = commands.add(
        "show",
        show_checkpoint,
        operands="RUN [AT] | CHECKPOINT_ID",
        description="Show one checkpoint, the newest of a run unless another is named, as it is stored.",
        example="holdfast show build-42 3 --json",
    )
    add_run(show)
    show.add_argument("at", metavar="AT", nargs="?", type=place, help="its number within the run, or its id")


def list_runs(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print every run that was asked for."""
    with open_session(arguments) as session:
        runs = session.holdfast.runs(
            resumable=arguments.resumable,
            workflow=arguments.workflow,
            review=arguments.review,
            archived=arguments.archived,
        )
    chosen = (arguments.resumable, arguments.review, arguments.archived, arguments.workflow is not None)
    is_choice = any(chosen)
    print_runs(runs, screen, none="No run is like that." if is_choice else "There are no runs.")
    return ExitCode.DONE


def list_checkpoints(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print every checkpoint of a run."""
    with open_session(arguments) as session:
        index = session.holdfast.checkpoints(arguments.run_id, limit=arguments.limit)
        print_checkpoints(index, session, screen)
    return ExitCode.DONE


def show_checkpoint(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print one checkpoint."""
    with open_session(arguments) as session:
        content = _content(session, arguments)
    screen.content(content if screen.is_json else indent(content))
    return ExitCode.DONE


def _content(session: Session, arguments: argparse.Namespace) -> bytes:
    """Return the checkpoint that was asked for; of an archived run, its summary."""
    from holdfast.errors import RunArchived

    try:
        return session.holdfast.checkpoint(arguments.run_id, arguments.at).content
    except RunArchived:
        if arguments.at is not None:
            raise
        return session.holdfast.summary(arguments.run_id).rstrip()


def print_runs(runs: list["RunSummary"], screen: Screen, *, none: str = "There are no runs.") -> None:
    """Print runs as a table, or as the JSON document that is promised."""
    from holdfast.presentation.documents import runs_document

    if screen.is_json:
        screen.document(runs_document(runs))
    elif not runs:
        screen.say(none)
    else:
        rows = [
            (
                run.run_id,
                run.status,
                "yes" if run.resumable else "no",
                f"{run.checkpoint_count:,}",
                run.last_updated,
                run.workflow or "",
            )
            for run in runs
        ]
        screen.table(
            ("run", "status", "resumable", "checkpoints", "last updated", "workflow"),
            rows,
            right=("checkpoints",),
        )


def print_checkpoints(index: "Index", session: Session, screen: Screen) -> None:
    """Print the checkpoints of a run as a table, or as the JSON document that is promised."""
    from holdfast.presentation.documents import list_document

    if screen.is_json:
        screen.document(list_document(index, session.holdfast.signatures(index.run_id)))
        return
    marks = session.holdfast.signatures(index.run_id)
    waiting = {item.checkpoint_id for item in session.assembly.spool.pending()}
    rows: list[tuple[str, ...]] = [
        (
            str(entry.sequence),
            entry.trigger,
            entry.status,
            "spooled" if entry.checkpoint_id in waiting else "stored",
            entry.timestamp,
            entry.file_path,
            entry.checkpoint_id,
        )
        for entry in index.entries
    ]
    columns: tuple[str, ...] = ("#", "trigger", "status", "where", "timestamp", "file", "checkpoint")
    if marks:
        columns = (*columns, "signature")
        rows = [(*row, marks.get(row[6], "")) for row in rows]
    if index.fenced:
        columns = (*columns, "claim")
        rows = [(*row, "fenced" if row[6] in index.fenced else "") for row in rows]
    screen.table(columns, rows, right=("#",))
    if index.fenced:
        screen.say("Fenced: it came after its run had been taken over. Nobody resumes from it.")


def indent(content: bytes) -> bytes:
    """Return a JSON text over several lines, each number as it is written.

    >>> print(indent(b'{"a":[1.10,123456789012345678901234567890]}').decode())
    {
      "a": [
        1.10,
        123456789012345678901234567890
      ]
    }
    """
    from holdfast.jsontext.encode import encode_exact
    from holdfast.jsontext.parse import parse_exact

    # JSON lets some controls stand as they are, but a terminal would obey them.
    return escape_json(encode_exact(parse_exact(content), is_indented=True).decode()).encode()
