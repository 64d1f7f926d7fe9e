"""What every part of the library stands on: the objects that do the work, opened and closed together."""

import os
from typing import Self

from holdfast.assembly import open_assembly
from holdfast.assembly.ground import Ground
from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import At, parse_at, parse_run_id
from holdfast.logs import configure_logs, configure_traces
from holdfast.settings import Settings
from holdfast.settings.file import load_settings


class OpenLibrary:
    """A context manager over one repository and its data folder."""

    def __init__(self, settings: Settings, *, assembly: Ground | None = None) -> None:
        self._assembly = assembly or open_assembly(settings)

    @classmethod
    def from_env(cls) -> Self:
        """Return one that is set up by HOLDFAST_… variables and holdfast.toml. Raises InvalidSettings.

        Unless the program has set up structlog itself, events go to standard error, warnings and above.
        """
        settings = load_settings(os.environ)
        level = settings.log_level if "log_level" in settings.sources else "warning"
        assembly = open_assembly(settings)
        configure_logs(settings.log_format, level, secrets=assembly.secrets, is_default=True)
        configure_traces(os.environ)
        return cls(settings, assembly=assembly)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close every file and connection. What is spooled stays spooled."""
        self._assembly.close()


def parse_run_name(run_id: str) -> str:
    """Return `run_id` if it can name a run. Raises InvalidCheckpoint."""
    try:
        return parse_run_id(run_id)
    except ValueError as error:
        raise InvalidCheckpoint("run_id", str(error)) from error


def parse_place(at: At | None, name: str = "at") -> At | None:
    """Return the checkpoint's number or id that `at` is, if anything is given. Raises InvalidCheckpoint."""
    if at is None:
        return None
    try:
        return parse_at(str(at))
    except ValueError as error:
        raise InvalidCheckpoint(name, f"{at!r}: {error}") from error
