"""`holdfast diff` and `replay`: what changed from one checkpoint to another."""

import argparse
from typing import TYPE_CHECKING, Any

from holdfast.cli.arguments import Commands, add_run, open_session, place
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen, format_count

if TYPE_CHECKING:
    from collections.abc import Iterable

    from holdfast.styles.diff import PatchOperation
    from holdfast.styles.replay import Scene

_SHOWN_CHARACTERS = 120
_SHOWN_CHANGES = 12
_SIGNS = {"add": ("+", "green"), "remove": ("-", "red"), "replace": ("~", "yellow")}
# Every two checkpoints differ in these, so they tell nothing.
_ALWAYS_CHANGED = ("/checkpoint_id", "/integrity/sha256")


def register(commands: Commands) -> None:
    """Add the two commands."""
    diff = commands.add(
        "diff",
        run_diff,
        operands="RUN A B",
        description="Compare two checkpoints of a run. --json prints the JSON Patch (RFC 6902) from A to B.",
        example="holdfast diff build-42 3 4",
    )
    add_run(diff)
    diff.add_argument("first", metavar="A", type=place, help="number or id of the checkpoint to start from")
    diff.add_argument("second", metavar="B", type=place, help="number or id of the checkpoint to arrive at")

    replay = commands.add(
        "replay",
        run_replay,
        operands="RUN",
        description="Step through a run: at each checkpoint, what was decided and what changed in the state.",
        example="holdfast replay build-42",
    )
    add_run(replay)
    replay.add_argument("--from", dest="start", metavar="AT", type=place, help="begin with this checkpoint")


def run_diff(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print what changed."""
    run_id = arguments.run_id
    with open_session(arguments) as session:
        patch = session.holdfast.diff(run_id, arguments.first, arguments.second)
    if screen.is_json:
        screen.content(patch.to_bytes())
        return ExitCode.DONE
    changes = [change for change in patch.changes if change.pointer not in _ALWAYS_CHANGED]
    count = format_count(len(changes), "difference")
    screen.say(f"{run_id}: checkpoint {arguments.first} to {arguments.second}: {count}", style="bold")
    _print_changes(changes, screen)
    return ExitCode.DONE


def run_replay(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print the story of a run."""
    with open_session(arguments) as session:
        story = session.holdfast.replay(arguments.run_id, start=arguments.start)
    if screen.is_json:
        screen.content(story.to_bytes())
        return ExitCode.DONE
    for scene in story.scenes:
        _print_scene(scene, screen)
    for warning in story.warnings:
        screen.say(f"warning: {warning}", style="yellow")
    return ExitCode.DONE


def _print_scene(scene: "Scene", screen: Screen) -> None:
    header = scene.header
    title = (
        f"#{header.sequence_number} {header.timestamp} {header.trigger} in {header.phase}, {header.status}"
    )
    screen.say(title, style="bold")
    for decision in scene.decisions:
        screen.say(f"  decided: {_tell_decision(decision)}", style="cyan")
    _print_changes(scene.changes[:_SHOWN_CHANGES], screen)
    hidden = len(scene.changes) - _SHOWN_CHANGES
    if hidden > 0:
        screen.say(f"  … and {format_count(hidden, 'more change')}; --json prints all")


def _tell_decision(decision: Any) -> str:
    """Return a decision in a line, in the words of whichever style it has."""
    if not isinstance(decision, dict):
        return _shorten(decision)
    if "gate_id" in decision:
        return f"gate {_plain(decision['gate_id'])}: {_plain(decision.get('decision'))}"
    words = [_plain(decision[name]) for name in ("agent", "description") if decision.get(name)]
    told = ": ".join(words) or _shorten(decision)
    return f"{told} (because: {_plain(decision['rationale'])})" if decision.get("rationale") else told


def _print_changes(changes: "Iterable[PatchOperation]", screen: Screen) -> None:
    for change in changes:
        sign, style = _SIGNS[change.operation]
        if change.operation == "replace":
            text = f"{_shorten(change.before)} → {_shorten(change.value)}"
        else:
            text = _shorten(change.value if change.operation == "add" else change.before)
        screen.say(f"  {sign} {change.pointer or '/'}: {text}", style=style)


def _plain(value: Any) -> str:
    return value if isinstance(value, str) else _shorten(value)


def _shorten(value: Any) -> str:
    from holdfast.jsontext.encode import encode_exact

    text = encode_exact(value).decode()
    return (
        text if len(text) <= _SHOWN_CHARACTERS else f"{text[:_SHOWN_CHARACTERS]}… ({len(text):,} characters)"
    )
