"""`holdfast keys`: make keys that seal and sign."""

import argparse

from holdfast.cli.arguments import Commands
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import Screen


def register(commands: Commands) -> None:
    """Add the group and its commands."""
    group = commands.add_group(
        "keys",
        description="Make the keys that states are sealed with, and checkpoints signed.",
        example="holdfast keys new > ~/.holdfast-key",
    )
    new = group.add(
        "new",
        make,
        description="Print a new key, as a JSON Web Key on one line. Keep it safe: nobody opens what it has\n"
        "sealed without it. A pair is printed whole, and its public half on a second line.",
        example="holdfast keys new > ~/.holdfast-key",
    )
    kind = new.add_mutually_exclusive_group()
    kind.add_argument(
        "--signing", action="store_true", help="a pair for HOLDFAST_SIGNING_KEY; the public half verifies"
    )
    kind.add_argument(
        "--recipient", action="store_true", help="a pair whose public half seals, and cannot open"
    )


def make(arguments: argparse.Namespace, screen: Screen) -> ExitCode:
    """Print a new key."""
    import orjson

    from holdfast.security import jose

    if not (arguments.signing or arguments.recipient):
        key = jose.make_shared_key()
        if screen.is_json:
            screen.document(key)
        screen.say(orjson.dumps(key).decode())
        return ExitCode.DONE
    pair = jose.make_signing_key() if arguments.signing else jose.make_recipient_key()
    public = jose.public_half(pair)
    if screen.is_json:
        screen.document({"private": pair, "public": public})
    for half in (pair, public):
        screen.say(orjson.dumps(half).decode())
    return ExitCode.DONE
