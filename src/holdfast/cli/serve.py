"""`holdfast serve`: the sidecar."""

import argparse
import os
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, count, overrides
from holdfast.presentation.exits import CommandFailed, ExitCode
from holdfast.presentation.render import Screen
from holdfast.presentation.session import settings_from, start_logs
from holdfast.presentation.stopping import stop_on_signals

if TYPE_CHECKING:
    from collections.abc import Callable

    from holdfast.library import Holdfast
    from holdfast.mcp.server import AgentServer
    from holdfast.settings import Settings

_DESCRIPTION = """\
Serve the HTTP API, with the worker inside, until SIGTERM or SIGINT.

It listens on loopback; any other address needs a token in HOLDFAST_API_TOKEN or HOLDFAST_API_TOKEN_FILE. The
first line on standard output has the URL; /openapi.json there describes every call. When it is told to stop,
it finishes the write under way and exits 0; what is still spooled is drained by the next one."""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add("serve", run, description=_DESCRIPTION, example="holdfast serve --port 8723")
    parser.add_argument("--host", help="address to listen on (default: 127.0.0.1)")
    parser.add_argument("--port", type=count, help="port to listen on (default: 8723; 0: a free one)")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Serve until we are told to stop."""

    def announce(url: str) -> None:
        if screen.is_json:
            screen.document({"url": url})
        else:
            screen.content(f"Serving at {url}".encode())

    return serve_until_stopped(read_settings(arguments), announce)


def serve_until_stopped(settings: "Settings", announce: "Callable[[str], None]") -> ExitCode:
    """Serve until SIGTERM or SIGINT; `announce` is told the URL. Raises CommandFailed."""
    from holdfast.assembly import open_assembly
    from holdfast.library import Holdfast
    from holdfast.metrics import Metrics
    from holdfast.sidecar.courtesy import Courtesy
    from holdfast.sidecar.serving import serve

    with stop_on_signals() as stop:
        metrics = Metrics(lambda: holdfast.status())
        courtesy = Courtesy(stop)
        assembly = open_assembly(
            settings, stop=stop, meter=metrics, give_way=courtesy.give_way, breathe=courtesy.breathe
        )
        start_logs(settings, assembly)
        with Holdfast(settings, assembly=assembly) as holdfast:
            try:
                ending = serve(
                    holdfast, assembly, metrics, courtesy, on_ready=announce, load_tools=_load_tools
                )
            except BrokenPipeError:
                raise
            except OSError as error:
                raise CommandFailed(f"cannot listen on {settings.host}:{settings.port}: {error}") from error
            if not ending.is_all_done:
                # A call to GitHub hangs, or a long file is being read. A kill does no harm; waiting would.
                os._exit(ExitCode.DONE if ending.failure is None else ExitCode.FAILED)
    if ending.failure:
        raise CommandFailed(str(ending.failure))
    return ExitCode.DONE


def _load_tools(holdfast: "Holdfast") -> "AgentServer":
    """Return the tools for agents. Raises ModuleNotFoundError if they are not installed."""
    from holdfast.mcp.server import AgentServer

    return AgentServer(holdfast)


def read_settings(arguments: argparse.Namespace) -> "Settings":
    """Return the settings in force; a service logs what it does unless someone asked for less."""
    given = overrides(arguments)
    for name in ("host", "port"):
        if (value := getattr(arguments, name)) is not None:
            given[name] = value
    return settings_from(given)
