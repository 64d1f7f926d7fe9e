"""`holdfast mcp`: the tools for agents, over standard input and output."""

import argparse
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, open_session
from holdfast.extras import how_to_install
from holdfast.presentation.exits import CommandFailed, ExitCode
from holdfast.presentation.render import Screen

if TYPE_CHECKING:
    from holdfast.library import Holdfast

_DESCRIPTION = f"""\
Offer Holdfast to an agent by the Model Context Protocol, over standard input and output.

Save and resume runs, look at checkpoints, compare them, go back to one. Logs go to standard error. What is
saved is on this disk at once; it is drained when the agent disconnects, or before by a sidecar. Needs
{how_to_install("mcp")}."""


def register(commands: Commands) -> None:
    """Add the command."""
    commands.add("mcp", run, description=_DESCRIPTION, example="claude mcp add holdfast -- holdfast mcp")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Serve until standard input ends."""
    del screen  # standard output is the protocol's
    try:
        from holdfast.mcp.server import build_server
    except ModuleNotFoundError as error:
        raise CommandFailed(f"{error.name} is not installed: run {how_to_install('mcp')}") from error

    with open_session(arguments) as session:
        with _protocol_alone():
            build_server(session.holdfast).run("stdio")
        _drain(session.holdfast)
    return ExitCode.DONE


@contextmanager
def _protocol_alone() -> Iterator[None]:
    """Keep standard output to the server: what else is written to its descriptor goes to standard error.

    The server closes the stream that it is given, so it gets one of its own.
    """
    sys.stdout.flush()
    protocol = os.fdopen(os.dup(sys.stdout.fileno()), "w", encoding="utf-8")
    os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
    with redirect_stdout(protocol):
        yield


def _drain(holdfast: "Holdfast") -> None:
    """Send what the agent has saved; what cannot be sent now stays in the spool."""
    from holdfast.errors import HoldfastError
    from holdfast.logs import log

    try:
        holdfast.drain()
    except HoldfastError as error:
        log.warning("drain_left_to_others", cause=str(error))
