"""The settings file: the same settings as the environment's, in lower case, as one flat table of TOML."""

import re
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

from holdfast.errors import InvalidSettings
from holdfast.settings import CONFIG_VARIABLE, PREFIX, Settings, kind_of, names_of_settings

USUAL_NAME = "holdfast.toml"

# In a flat table every name stands at the beginning of a line.
_NAME = re.compile(r"""\s*["']?([A-Za-z0-9_-]+)["']?\s*=""")
_TABLE = re.compile(r"""\s*\[+\s*["']?([A-Za-z0-9_-]+)""")


class SettingsFile(NamedTuple):
    """What a settings file says. It `is_named` if someone asked for it; else it was only found."""

    path: Path
    values: Mapping[str, object]
    lines: Mapping[str, int]
    is_named: bool = True

    def source(self, name: str) -> str:
        """Return the place of a value, for people.

        >>> SettingsFile(Path("holdfast.toml"), {"port": 1}, {"port": 3}).source("port")
        'holdfast.toml, line 3'
        """
        return f"{self.path}, line {self.lines[name]}"


def find_settings_file(environment: Mapping[str, str], folder: Path) -> SettingsFile | None:
    """Return the file that HOLDFAST_CONFIG names, else holdfast.toml in `folder`; None if there is none.

    Raises InvalidSettings with every name that is not a setting.
    """
    if named := environment.get(CONFIG_VARIABLE):
        return read_settings_file(Path(named))
    if (folder / USUAL_NAME).is_file():
        return read_settings_file(Path(USUAL_NAME), folder, is_named=False)
    return None


def load_settings(environment: Mapping[str, str], overrides: Mapping[str, object] | None = None) -> Settings:
    """Return what the command line, the environment and the settings file give, the first of them first.

    Raises InvalidSettings with every problem at once.
    """
    return Settings.from_environment(environment, overrides, find_settings_file(environment, Path()))


def read_settings_file(path: Path, folder: Path = Path(), *, is_named: bool = True) -> SettingsFile:
    """Return what the file says; a relative path in it begins at its own folder. Raises InvalidSettings."""
    import tomllib

    location = folder / path
    try:
        content = location.read_bytes()
        text = content.decode("utf-8-sig")  # some editors begin a file with a mark
        values = tomllib.loads(text)
    except OSError as error:
        raise InvalidSettings([f"{CONFIG_VARIABLE}: {path} cannot be read: {error.strerror}"]) from None
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise InvalidSettings([f"{path}, line {line}: this is not UTF-8; save it as UTF-8"]) from None
    except ValueError as error:
        raise InvalidSettings([f"{path} is not TOML: {error}"]) from None
    lines = _find_lines(text)
    problems = {name: problem for name in values if (problem := _find_problem(name, values[name]))}
    if problems:
        raise InvalidSettings(
            [f"{path}, line {lines.get(name, 1)}: {each}" for name, each in problems.items()]
        )
    given = {name: _from_folder(name, value, location.parent) for name, value in values.items()}
    return SettingsFile(path, given, lines, is_named)


def _find_problem(name: str, value: object) -> str | None:
    known = [each for each in names_of_settings() if each != "config"]
    if isinstance(value, dict):
        return f"[{name}] begins a table; settings are names and values without tables"
    if name in known:
        return _find_wrong_kind(name, value)
    from difflib import get_close_matches

    likely = name.lower().removeprefix(PREFIX.lower())
    meant = get_close_matches(likely, known, n=1)
    return f"{name} is not a setting" + (f"; did you mean {meant[0]}?" if meant else "; see holdfast config")


def _find_wrong_kind(name: str, value: object) -> str | None:
    """Return what is wrong with the kind of a value: unlike a variable, a file can tell 1 from "1"."""
    kind, is_bool = kind_of(name), isinstance(value, bool)
    if kind == "flag":
        return None if is_bool else f"{name}: use true or false, without quotes"
    is_wrong = kind == "number" and (is_bool or isinstance(value, str))
    return f"{name}: use a number, without quotes" if is_wrong else None


def _find_lines(text: str) -> dict[str, int]:
    """Return the line at which each name or table stands."""
    lines: dict[str, int] = {}
    for number, line in enumerate(text.splitlines(), 1):
        if found := _NAME.match(line) or _TABLE.match(line):
            lines.setdefault(found[1], number)
    return lines


def _from_folder(name: str, value: object, folder: Path) -> object:
    is_path = isinstance(value, str) and kind_of(name) == "path"
    return folder / Path(str(value)).expanduser() if is_path else value
