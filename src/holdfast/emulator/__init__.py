"""A GitHub-compatible server over a bare git repository, for the demo, the tests and the benchmarks.

It imports nothing of the rest of Holdfast, and the rest reaches it by HTTP alone, but for `peek`, by which
`exec` sees without a server what is stored: that the two agree is then evidence. Names are loaded when they
are first used, because git and GraphQL are slow to import.
"""

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from holdfast.emulator.app import Emulator
    from holdfast.emulator.exchange import Answer, Request
    from holdfast.emulator.fault_text import parse_fault
    from holdfast.emulator.faults import (
        AnswerWith,
        Call,
        Cut,
        Delay,
        HeadMoves,
        LateWrite,
        Malform,
        Rule,
        Stale,
        Truncate,
        WrongLength,
    )
    from holdfast.emulator.installations import Installation, parse_installation, register_app
    from holdfast.emulator.journal import Journal, JournalEntry
    from holdfast.emulator.options import EmulatorOptions, Switches
    from holdfast.emulator.repository import RepositoryUnusable
    from holdfast.emulator.server import EmulatorServer
    from holdfast.emulator.serving import serve
    from holdfast.emulator.transport import EmulatorTransport

_HOMES = {
    "app": ("Emulator",),
    "exchange": ("Answer", "Request"),
    "fault_text": ("parse_fault",),
    "faults": (
        "AnswerWith",
        "Call",
        "Cut",
        "Delay",
        "HeadMoves",
        "LateWrite",
        "Malform",
        "Rule",
        "Stale",
        "Truncate",
        "WrongLength",
    ),
    "journal": ("Journal", "JournalEntry"),
    "apps": ("AppRegistration",),
    "installations": ("Installation", "parse_installation", "register_app"),
    "options": ("EmulatorOptions", "Switches"),
    "repository": ("RepositoryUnusable",),
    "server": ("EmulatorServer",),
    "serving": ("serve",),
    "transport": ("EmulatorTransport",),
}
_HOME_OF = {name: home for home, names in _HOMES.items() for name in names}

__all__ = [
    "Answer",
    "AnswerWith",
    "AppRegistration",
    "Call",
    "Cut",
    "Delay",
    "Emulator",
    "EmulatorOptions",
    "EmulatorServer",
    "EmulatorTransport",
    "HeadMoves",
    "Installation",
    "Journal",
    "JournalEntry",
    "LateWrite",
    "Malform",
    "RepositoryUnusable",
    "Request",
    "Rule",
    "Stale",
    "Switches",
    "Truncate",
    "WrongLength",
    "parse_fault",
    "parse_installation",
    "register_app",
    "serve",
]


def __getattr__(name: str) -> Any:
    if name not in _HOME_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(import_module(f"{__name__}.{_HOME_OF[name]}"), name)
