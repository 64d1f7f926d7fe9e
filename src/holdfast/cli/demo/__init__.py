"""`holdfast demo`: the whole main job on the embedded GitHub, with every promise checked."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, overrides
from holdfast.presentation.exits import ExitCode, WrongUse
from holdfast.presentation.render import Screen
from holdfast.presentation.session import quieten

if TYPE_CHECKING:
    from holdfast.settings import Settings

_DESCRIPTION = """\
Show the main job from end to end on the embedded GitHub: save, drain, look, crash, recover.

It needs neither a token nor a network, works in a new folder, which it keeps, and checks every promise that
it shows: the exit code is 1 if one of them does not hold."""


def register(commands: Commands) -> None:
    """Add the command."""
    commands.add("demo", run, description=_DESCRIPTION, example="holdfast demo")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Show the main job, and check it."""
    from holdfast.cli.demo.show import Demo

    demo = Demo(_settings(arguments), screen)
    demo.show()
    if screen.is_json:
        screen.document(demo.summary())
    return ExitCode.DONE if demo.is_kept else ExitCode.FAILED


def _settings(arguments: argparse.Namespace) -> "Settings":
    """Return settings for the embedded GitHub, whatever the environment says."""
    import tempfile

    from holdfast.settings import Settings

    given = overrides(arguments)
    if given.keys() & {"repo", "api_url"}:
        raise WrongUse("the demo runs on the embedded GitHub alone; leave --repo and --api-url out")
    if "data_dir" not in given:
        given["data_dir"] = tempfile.mkdtemp(prefix="holdfast-demo-")
    return quieten(
        Settings.from_environment({}, {**given, "data_dir": Path(str(given["data_dir"])).absolute()})
    )
