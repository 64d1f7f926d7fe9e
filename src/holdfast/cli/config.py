"""`holdfast config`: the settings in force."""

import argparse
from pathlib import Path

from holdfast.cli.arguments import Commands, read_settings
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen

_DESCRIPTION = """\
Show every setting in force and where it comes from. Secrets are never shown, only whether they are set.
With --check, only say whether a settings file is in order."""


def register(commands: Commands) -> None:
    """Add the command."""
    example = "holdfast config --check holdfast.toml"
    parser = commands.add("config", run, description=_DESCRIPTION, example=example)
    parser.add_argument("--check", metavar="FILE", type=Path, help="check this settings file, and no more")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print every setting, or check a file."""
    if arguments.check:
        return _check(arguments.check, screen)
    from holdfast.presentation.documents import settings_rows

    settings = settings_rows(read_settings(arguments))
    if screen.is_json:
        screen.document({"settings": {each["name"]: each for each in settings}})
        return ExitCode.DONE
    rows = [(each["name"], _text(each["value"]), each["source"], each["variable"]) for each in settings]
    screen.table(("setting", "value", "source", "variable"), rows)
    return ExitCode.DONE


def _check(path: Path, screen: Screen) -> ExitCode:
    """Refuse a file that is not in order, whatever the environment says. Raises InvalidSettings."""
    from holdfast.settings import Settings
    from holdfast.settings.file import read_settings_file

    file = read_settings_file(path)
    Settings.from_environment({}, file=file)
    if screen.is_json:
        screen.document({"file": str(path), "settings": list(file.values)})
    number = len(file.values)
    screen.say(f"{path} is in order: {number} setting{'' if number == 1 else 's'}.")
    return ExitCode.DONE


def _text(value: object) -> str:
    return "none" if value is None else str(value)
