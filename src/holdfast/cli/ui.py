"""`holdfast ui`: the dashboard, of a running sidecar or of one that is started for it."""

import argparse
import secrets
import threading
from dataclasses import replace
from typing import TYPE_CHECKING

from holdfast.cli import serve
from holdfast.cli.arguments import Commands
from holdfast.presentation.exits import CommandFailed, ExitCode
from holdfast.presentation.render import Screen

if TYPE_CHECKING:
    from holdfast.settings import Settings

_DESCRIPTION = """\
Open the dashboard in a browser: that of a sidecar that runs with these settings, else of one that is started
on a free port, until SIGTERM or SIGINT, with a link that logs in once."""
_TIMEOUT_S = 5.0


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add("ui", run, description=_DESCRIPTION, example="holdfast ui --no-browser")
    parser.add_argument("--no-browser", action="store_true", help="only print the address")


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Open the page, and serve it if nobody does."""
    arguments.host = arguments.port = None
    settings = serve.read_settings(arguments)
    url = f"http://{settings.host}:{settings.port}"
    token = settings.api_token.get_secret_value() if settings.api_token else None
    if settings.port and _is_running(url):
        _show(_log_in_link(url, token), arguments, screen)
        return ExitCode.DONE
    return _serve(settings, arguments, screen)


def _serve(settings: "Settings", arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Serve on a free port; only who has the link gets in, whoever else uses this machine."""
    from holdfast.settings.kinds import Secret

    token = secrets.token_urlsafe(32)
    own = replace(settings, host="127.0.0.1", port=0, api_token=Secret(token), api_token_file=None)

    def announce(url: str) -> None:
        # Asked for by HTTP, from another thread: the one that announces is the one that answers.
        ask = threading.Thread(target=lambda: _show(_log_in_link(url, token), arguments, screen), daemon=True)
        ask.start()

    return serve.serve_until_stopped(own, announce)


def _is_running(url: str) -> bool:
    import httpx

    try:
        return httpx.get(f"{url}/healthz", timeout=_TIMEOUT_S, trust_env=False).is_success
    except httpx.HTTPError:
        return False


def _log_in_link(url: str, token: str | None) -> str:
    """Return the address of the dashboard; one that logs in by itself where a token is needed."""
    import httpx

    if token is None:
        return f"{url}/"
    headers = {"Authorization": f"Bearer {token}"}
    answer = httpx.post(f"{url}/v1/login-link", headers=headers, timeout=_TIMEOUT_S, trust_env=False)
    if not answer.is_success:
        raise CommandFailed(f"the sidecar at {url} does not take this token; see HOLDFAST_API_TOKEN")
    return f"{url}{answer.json()['path']}"


def _show(address: str, arguments: argparse.Namespace, screen: Screen) -> None:
    import webbrowser

    if screen.is_json:
        screen.document({"url": address})
    else:
        screen.content(f"The dashboard is at {address}".encode())
    if not arguments.no_browser and not screen.is_json:
        webbrowser.open(address)
