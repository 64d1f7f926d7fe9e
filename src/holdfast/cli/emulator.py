"""`holdfast emulator`: the GitHub-compatible server on its own."""

import argparse
from pathlib import Path
from typing import TYPE_CHECKING

from holdfast.cli.arguments import Commands, count, read_settings
from holdfast.presentation.exits import CommandFailed, ExitCode, WrongUse
from holdfast.presentation.render import Screen
from holdfast.presentation.session import start_logs
from holdfast.presentation.stopping import stop_on_signals

if TYPE_CHECKING:
    from holdfast.emulator import AppRegistration, Installation, Rule

_DESCRIPTION = """\
Serve a GitHub-compatible API on loopback, over a real bare git repository, until SIGTERM or SIGINT.

It serves holdfast/checkpoints, or the repository named with --repo, which is made if it is missing. The first
line on standard output has the URL. Any token is taken unless --token names the only good one, or --app-id
names a GitHub App: then the tokens of its installations are, each for the repositories of its account."""

_FAULTS = """\
make calls fail: TARGET:EFFECT[:times=N][:nth=N][:path=REGEX][:p=0..1][:seed=N], such as put:503:times=3,
put:cut-after:nth=2 or any:delay=0.5; may be given several times"""


_INSTALLATIONS = """\
where the App is installed: OWNER[/NAME][:id=N][:limit=N], with a repository that is made if it is missing,
its number and its calls per hour; may be given several times (default: the owner of --repo)"""


def register(commands: Commands) -> None:
    """Add the command."""
    parser = commands.add(
        "emulator",
        run,
        description=_DESCRIPTION,
        example="holdfast emulator --port 8724 --limit 60 --fault put:503:times=3",
    )
    parser.add_argument(
        "--host", default="127.0.0.1", help="loopback address to listen on (default: 127.0.0.1)"
    )
    parser.add_argument("--port", type=count, default=0, help="port to listen on (default: a free one)")
    parser.add_argument(
        "--root", type=Path, metavar="DIR", help="where the repositories lie as owner/name.git"
    )
    parser.add_argument(
        "--limit", type=count, default=5000, metavar="N", help="calls per hour (default: 5000)"
    )
    parser.add_argument("--content-per-minute", type=count, default=0, metavar="N", help="0: no such limit")
    parser.add_argument("--content-per-hour", type=count, default=0, metavar="N", help="0: no such limit")
    parser.add_argument("--fault", action="append", default=[], metavar="SPEC", help=_FAULTS)
    parser.add_argument("--token", help="the only token that is taken, but for those of an App")
    parser.add_argument("--app-id", type=count, metavar="ID", help="play the other side of this GitHub App")
    parser.add_argument(
        "--app-key",
        type=Path,
        metavar="FILE",
        help="the App's key in PEM, private or public: it checks signatures",
    )
    parser.add_argument("--installation", action="append", default=[], metavar="SPEC", help=_INSTALLATIONS)


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Serve until we are told to stop."""
    from holdfast.emulator import EmulatorOptions, RepositoryUnusable, serve
    from holdfast.settings import EMBEDDED_REPOSITORY

    settings = read_settings(arguments)
    start_logs(settings)
    installations = _installations(arguments)
    made = [each.repository for each in installations if each.repository]
    if installations and not made:
        made = [f"{installations[0].account}/checkpoints"]
    repository = getattr(arguments, "repo", None) or next(iter(made), EMBEDDED_REPOSITORY)
    repositories = list(dict.fromkeys([repository, *made]))
    root = (arguments.root or settings.data_dir / "emulator").absolute()
    options = EmulatorOptions(
        root=root,
        repo=repository,
        token=arguments.token,
        app=_app(arguments, installations, repository),
        primary_limit=arguments.limit,
        content_per_minute=arguments.content_per_minute or None,
        content_per_hour=arguments.content_per_hour or None,
    )
    host, port, faults = _loopback(arguments.host), _port(arguments.port), _rules(arguments.fault)

    def announce(url: str) -> None:
        if screen.is_json:
            where = {"url": url, "repository": repository, "root": str(root)}
            screen.document({**where, "repositories": repositories})
        elif len(repositories) > 1:
            screen.content(f"Serving {', '.join(repositories)} at {url} over {root}".encode())
        else:
            screen.content(f"Serving {repository} at {url} over {root / repository}.git".encode())

    with stop_on_signals() as stop:
        try:
            serve(
                options,
                host=host,
                port=port,
                more_repositories=repositories[1:],
                faults=faults,
                on_ready=announce,
                stop=stop,
            )
        except BrokenPipeError:
            raise
        except (OSError, RepositoryUnusable) as error:
            raise CommandFailed(f"the emulator cannot serve {root} on {host}:{port}: {error}") from error
    return ExitCode.DONE


def _installations(arguments: argparse.Namespace) -> list["Installation"]:
    from holdfast.emulator import parse_installation

    needed = {"--app-id": arguments.app_id, "--app-key": arguments.app_key}
    given = [*needed.values(), *arguments.installation]
    missing = [name for name, value in needed.items() if value is None]
    if missing and any(each is not None for each in given):
        raise WrongUse(f"an App needs {' and '.join(missing)}, too")
    try:
        return [parse_installation(text) for text in arguments.installation]
    except ValueError as error:
        raise WrongUse(str(error)) from error


def _app(
    arguments: argparse.Namespace, installations: list["Installation"], repository: str
) -> "AppRegistration | None":
    from holdfast.emulator import Installation, register_app

    if arguments.app_id is None:
        return None
    try:
        key = arguments.app_key.read_text("utf-8")
        at = installations or [Installation(repository.partition("/")[0])]
        return register_app(arguments.app_id, key, at)
    except OSError as error:
        raise WrongUse(f"--app-key {arguments.app_key} cannot be read: {error.strerror}") from error
    except ValueError as error:
        raise WrongUse(str(error)) from error


def _loopback(host: str) -> str:
    """Return `host` if nobody but this machine can reach it: the emulator has no real authentication."""
    import ipaddress

    try:
        is_loopback = host == "localhost" or ipaddress.IPv4Address(host).is_loopback
    except ValueError:
        is_loopback = False
    if not is_loopback:
        raise WrongUse(f"--host {host!r} is not a loopback address; use 127.0.0.1")
    return host


def _port(number: int) -> int:
    if number > 65535:
        raise WrongUse(f"--port {number} is no port; use 1 to 65535, or 0 for a free one")
    return number


def _rules(specifications: list[str]) -> list["Rule"]:
    from holdfast.emulator import parse_fault

    try:
        return [parse_fault(text) for text in specifications]
    except ValueError as error:
        raise WrongUse(str(error)) from error
