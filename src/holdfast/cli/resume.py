"""`holdfast resume`: where a run goes on, and the state to go on with."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Any

from holdfast.cli.arguments import Commands, add_run, open_session, place
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen, format_bytes, format_duration
from holdfast.presentation.user_input import read_file

if TYPE_CHECKING:
    from holdfast.styles.resume import ResumePlan

_DESCRIPTION = """\
Print the resume plan of a run: where it goes on, what is done, what is left, and every warning that matters.

It is made from the newest good checkpoint, spooled or stored; with GitHub away, from what was read or written
before. --json prints it with the restored state, every number exactly as stored."""


_SOURCES = {
    "spool": "the spool on this machine",
    "github": "GitHub",
    "cache": "the local copy, because GitHub could not be read",
}


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "resume", run, operands="RUN", description=_DESCRIPTION, example="holdfast resume build-42 --json"
    )
    add_run(parser)
    parser.add_argument(
        "--at", metavar="AT", type=place, help="resume from this checkpoint, by number or id, not the newest"
    )
    parser.add_argument("--lessons", metavar="FILE", type=Path, help="JSON list of the lessons active now")
    parser.add_argument("--dag", metavar="FILE", type=Path, help="JSON of the layers as they are now")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print the plan."""
    lessons = _read_json(arguments.lessons)
    if lessons is not None and not isinstance(lessons, list):
        raise WrongUse(f"{arguments.lessons} does not hold a JSON list")
    with open_session(arguments) as session:
        plan = session.holdfast.resume(
            arguments.run_id, at=arguments.at, active_lessons=lessons, dag=_read_json(arguments.dag)
        )
    if screen.is_json:
        screen.content(plan.to_bytes())
    else:
        _print(plan, screen)
    return ExitCode.DONE


def _print(plan: "ResumePlan", screen: Screen) -> None:
    from holdfast.styles.values import name_all

    for line in plan.message.splitlines():
        screen.say(line)
    screen.say()
    remaining = "not known" if plan.remaining is None else name_all(plan.remaining) or "nothing"
    if plan.remaining and plan.has_standard_phases:
        remaining += " (of the standard phases 0 to 8; name others in state.progress.phases)"
    screen.facts(
        [
            ("checkpoint", f"#{plan.sequence_number}, from {_SOURCES[plan.source]}"),
            (
                "saved",
                f"{plan.saved_at}, {format_duration(plan.age_s)} ago, by {plan.trigger} in {plan.phase}",
            ),
            ("status", plan.status),
            ("resumable", "yes" if plan.resumable else f"no: the run is {plan.status}"),
            ("review", _review(plan)),
            ("repeats", "yes: it was begun before" if plan.retry_current else "no"),
            ("remaining", remaining),
            ("state", f"{format_bytes(len(plan.state_text))}; --json prints it"),
        ]
    )
    for warning in plan.warnings:
        screen.say(f"warning: {warning}", style="yellow")


def _review(plan: "ResumePlan") -> str:
    from holdfast.errors import Remedy
    from holdfast.presentation.remedies import command_of

    if plan.review is None:
        return "not needed"
    return f"needed: {plan.review.reason}; {command_of(Remedy('review', plan.run_id))}"


def _read_json(path: Path | None) -> Any:
    from holdfast.errors import InvalidCheckpoint
    from holdfast.jsontext.parse import parse_value

    if path is None:
        return None
    try:
        return parse_value(read_file(path))
    except InvalidCheckpoint as error:
        raise WrongUse(f"{path} is not JSON: {error}") from error
