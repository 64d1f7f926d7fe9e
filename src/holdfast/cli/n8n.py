"""`holdfast n8n export`: the importable workflows."""

import argparse
from pathlib import Path

from holdfast.cli.arguments import Commands
from holdfast.presentation.exits import CommandFailed, ExitCode, WrongUse
from holdfast.presentation.render import Screen

_DESCRIPTION = """\
Write the n8n workflows: save a checkpoint, resume a run, an example that uses both, save on failure.

Import them with n8n import:workflow --separate --input=DIR, or one by one in the editor. They call the
sidecar at --url; from a container of its own n8n reaches it by its service name, such as
http://holdfast:8723."""


def register(commands: Commands) -> None:
    """Add the command."""
    group = commands.add_group(
        "n8n",
        description="Work with n8n.",
        example="holdfast n8n export workflows --url http://holdfast:8723",
    )
    parser = group.add(
        "export",
        run,
        operands="DIR",
        description=_DESCRIPTION,
        example="holdfast n8n export workflows --url http://holdfast:8723",
    )
    parser.add_argument("folder", metavar="DIR", type=Path, help="where to write; it is made if missing")
    parser.add_argument("--url", help="address of the sidecar (default: http://127.0.0.1:8723)")
    parser.add_argument(
        "--auth",
        choices=("header", "none"),
        help="whether calls carry a Header Auth credential (default: unless the address is loopback)",
    )


def run(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Write the workflows, made ready for one sidecar."""
    from holdfast.n8n import DEFAULT_URL, NAMES, is_loopback_url, prepare_workflow

    url = _check_url(arguments.url or DEFAULT_URL)
    has_token = arguments.auth == "header" or (arguments.auth is None and not is_loopback_url(url))
    folder: Path = arguments.folder
    try:
        folder.mkdir(parents=True, exist_ok=True)
        for name in NAMES:
            (folder / name).write_bytes(prepare_workflow(name, url=url, has_token=has_token))
    except OSError as error:
        raise CommandFailed(f"{folder} cannot be written: {error.strerror}") from error
    if screen.is_json:
        screen.document({"folder": str(folder), "files": list(NAMES), "url": url, "has_token": has_token})
        return ExitCode.DONE
    screen.say(f"{len(NAMES)} workflows for {url} are in {folder}. Import them with:")
    screen.say(f"  n8n import:workflow --separate --input={folder}")
    screen.say("n8n 2.x calls only what is published: publish all but the example, then start n8n again.")
    if has_token:
        screen.say(
            "Then choose a Header Auth credential in their HTTP Request nodes: name Authorization, value "
            "Bearer followed by the token in HOLDFAST_API_TOKEN."
        )
    return ExitCode.DONE


def _check_url(url: str) -> str:
    import re

    if not re.fullmatch(r"https?://[A-Za-z0-9._\-\[\]:]+(/[A-Za-z0-9._~/-]*)?", url):
        raise WrongUse(f"--url {url!r} is no address; use one such as http://holdfast:8723")
    return url.rstrip("/")
