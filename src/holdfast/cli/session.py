"""What a command works with: settings, logs, the library, and signals that end the work in good order."""

import argparse
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, suppress
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING

from holdfast.cli.arguments import SETTINGS
from holdfast.logs import escape_controls
from holdfast.presentation.render import has_colour, is_terminal

if TYPE_CHECKING:
    from holdfast.assembly import Assembly
    from holdfast.library import Holdfast
    from holdfast.settings import Settings

_SIGNALS = (signal.SIGTERM, signal.SIGINT)
# Together less than the 10 s that a stop may take: the write under way, then what is to be told.
GRACE_S = 7.5
LONGEST_LAST_WORDS_S = 1.0
_SHOW_CURSOR = "\x1b[?25h"


@dataclass(frozen=True, slots=True)
class Session:
    """One repository, opened for one command."""

    settings: "Settings"
    assembly: "Assembly"
    holdfast: "Holdfast"


def open_session(
    arguments: argparse.Namespace, *, stop: threading.Event | None = None
) -> AbstractContextManager[Session]:
    """Open what the environment and the command line name; `stop` ends waits and drains."""
    return open_with(read_settings(arguments), stop=stop)


@contextmanager
def open_with(settings: "Settings", *, stop: threading.Event | None = None) -> Iterator[Session]:
    """Open what the settings name, and log as they say."""
    from holdfast.assembly import Assembly
    from holdfast.library import Holdfast

    assembly = Assembly(settings, stop=stop)
    start_logs(settings, assembly)
    with Holdfast(settings, assembly=assembly) as holdfast:
        yield Session(settings, assembly, holdfast)


def read_settings(arguments: argparse.Namespace) -> "Settings":
    """Return the settings in force for this command line. Raises InvalidSettings."""
    return quieten(settings_from(overrides(arguments)))


def settings_from(given: Mapping[str, object]) -> "Settings":
    """Return the settings of the environment and, over it, those `given`; tell of variables that are none.

    Raises InvalidSettings.
    """
    from holdfast.settings import Settings, unknown_variables

    for variable, likely in unknown_variables(os.environ).items():
        meant = f"; did you mean {likely}?" if likely else "; see holdfast config"
        sys.stderr.write(f"holdfast: {escape_controls(variable)} is not a setting{meant}\n")
    return Settings.from_environment(os.environ, given)


def quieten(settings: "Settings") -> "Settings":
    """Return the settings with only warnings logged, unless someone asked for another level.

    The commands print what people want to know; events are for those who ask for them.
    """
    is_chosen = "log_level" in settings.sources
    return settings if is_chosen else settings.model_copy(update={"log_level": "warning"})


def overrides(arguments: argparse.Namespace) -> dict[str, object]:
    """Return the settings that the command line names."""
    return {name: value for name in SETTINGS if (value := getattr(arguments, name, None)) is not None}


def start_logs(settings: "Settings", assembly: "Assembly | None" = None) -> None:
    """Log as the settings say, without any token that is in force."""
    from holdfast.logs import configure_logs

    def secrets() -> Iterable[str]:
        for secret in (settings.token, settings.api_token):
            if secret:
                yield secret.get_secret_value()
        if assembly:
            yield assembly.tokens.token() or ""
            yield assembly.api_tokens.token() or ""

    configure_logs(
        settings.log_format, settings.log_level, secrets=secrets, has_colour=has_colour(sys.stderr)
    )


@dataclass
class LastWords:
    """What a command that was asked to stop, and cannot, tells before its process ends with `code`."""

    code: int
    tell: Callable[[], object] = lambda: None


@contextmanager
def stop_on_signals(last_words: LastWords | None = None) -> Iterator[threading.Event]:
    """Give an event that the first SIGTERM or SIGINT sets; the second ends the process at once.

    With `last_words`, the process ends even if the work does not: a call to GitHub that hangs cannot be
    interrupted, and a kill does no harm.
    """
    stop, is_over = threading.Event(), threading.Event()

    def watch() -> None:
        stop.set()
        if last_words and not is_over.wait(GRACE_S):
            _end_process(last_words)

    def handle(_number: int, _frame: FrameType | None) -> None:
        for number in _SIGNALS:
            signal.signal(number, signal.SIG_DFL)
        if is_terminal(sys.stderr):
            sys.stderr.write(_SHOW_CURSOR)
        # The main thread may be inside stop.wait(), and hold the lock that set() needs.
        threading.Thread(target=watch, daemon=True).start()

    before = {number: signal.signal(number, handle) for number in _SIGNALS}
    try:
        yield stop
    finally:
        is_over.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_process(last_words: LastWords) -> None:
    telling = threading.Thread(target=last_words.tell, daemon=True)
    telling.start()
    telling.join(LONGEST_LAST_WORDS_S)
    with suppress(OSError, ValueError):
        sys.stdout.flush()
    os._exit(last_words.code)
