"""What a command works with: settings, logs, the library."""

import os
import sys
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from holdfast.logs import escape_controls
from holdfast.presentation.render import has_colour

if TYPE_CHECKING:
    from holdfast.assembly.ground import Ground
    from holdfast.github.patience import Patience
    from holdfast.library import Holdfast
    from holdfast.settings import Settings


@dataclass(frozen=True, slots=True)
class Session:
    """One repository, opened for one command."""

    settings: "Settings"
    assembly: "Ground"
    holdfast: "Holdfast"


@contextmanager
def open_with(
    settings: "Settings", *, stop: threading.Event | None = None, patience: "Patience | None" = None
) -> Iterator[Session]:
    """Open what the settings name, and log as they say; `stop` ends waits and drains.

    All that is read shares the `patience`; without one, each question to GitHub has its own.
    """
    from holdfast.assembly import open_assembly
    from holdfast.library import Holdfast

    assembly = open_assembly(settings, stop=stop, patience=patience)
    start_logs(settings, assembly)
    with Holdfast(settings, assembly=assembly) as holdfast:
        yield Session(settings, assembly, holdfast)


def settings_from(given: Mapping[str, object]) -> "Settings":
    """Return the settings of file and environment, overridden by those `given`. Raises InvalidSettings.

    A HOLDFAST_ variable that is not a setting is named on standard error.
    """
    from holdfast.settings import unknown_variables
    from holdfast.settings.file import load_settings

    for variable, likely in unknown_variables(os.environ).items():
        meant = f"; did you mean {likely}?" if likely else "; see holdfast config"
        with suppress(OSError):
            sys.stderr.write(f"holdfast: {escape_controls(variable)} is not a setting{meant}\n")
    return load_settings(os.environ, given)


def quieten(settings: "Settings") -> "Settings":
    """Return the settings with only warnings logged, unless someone asked for another level.

    The commands print what people want to know; events are for those who ask for them.
    """
    is_chosen = "log_level" in settings.sources
    return settings if is_chosen else replace(settings, log_level="warning")


def start_logs(settings: "Settings", assembly: "Ground | None" = None) -> None:
    """Log as the settings say, without any token that is in force."""
    from holdfast.logs import configure_logs, configure_traces

    secrets = assembly.secrets if assembly else settings.secrets
    configure_logs(
        settings.log_format, settings.log_level, secrets=secrets, has_colour=has_colour(sys.stderr)
    )
    configure_traces(os.environ)
