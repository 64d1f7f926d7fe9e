"""Exit codes, and the one line in which an error is told."""

from enum import IntEnum

from holdfast.errors import HoldfastError, InvalidCheckpoint, InvalidSettings, Refused, Throttled, Unavailable
from holdfast.presentation.remedies import tell_with_command


class ExitCode(IntEnum):
    """How a command ended; scripts rely on these numbers."""

    DONE = 0
    FAILED = 1
    WRONG_USE = 2
    WORK_LEFT = 75


class WrongUse(Exception):
    """The command line cannot be carried out as it stands: the message says what to change."""


class CommandFailed(Exception):
    """The command could not do its work: the message says why and what to do."""


def exit_code_of(error: Exception) -> ExitCode:
    """Return how a command that ended with `error` exits."""
    is_wrong_use = isinstance(error, WrongUse | InvalidCheckpoint | InvalidSettings)
    return ExitCode.WRONG_USE if is_wrong_use else ExitCode.FAILED


def describe(error: Exception) -> str:
    """Return what is wrong and, as far as it is known, what to do."""
    if isinstance(error, Refused):
        return f"{error}. {error.advice}"
    if isinstance(error, Throttled):
        return f"{error}; try again in {error.retry_after_s:.0f} s"
    if isinstance(error, Unavailable):
        return f"{error}; try again later, or see holdfast doctor"
    if isinstance(error, HoldfastError) and not str(error):
        return type(error).__name__
    return tell_with_command(error) if isinstance(error, HoldfastError) else str(error)
