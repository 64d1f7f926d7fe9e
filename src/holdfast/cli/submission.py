"""What a file and the options beside it come to: one checkpoint, with the file's bytes as they are."""

import argparse
from collections.abc import Callable
from typing import Any

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import parse_checkpoint_id
from holdfast.format.triggers import Trigger, parse_trigger
from holdfast.jsontext.members import check_value, find_members, join_members, parse_document
from holdfast.jsontext.parse import parse_value
from holdfast.presentation.exits import WrongUse

_FIELDS = ("run_id", "trigger", "phase", "status", "priority", "workflow", "checkpoint_id")
_STATES = ("state", "state_snapshot")
_BRACE = ord("{")
# How a field may be spelled in more than one way.
_SPELLINGS: dict[str, Callable[[str], str]] = {"trigger": parse_trigger, "checkpoint_id": parse_checkpoint_id}


def compose(text: bytes, options: argparse.Namespace) -> bytes:
    """Return the checkpoint that the file's `text` and the `options` beside it say together.

    Raises InvalidCheckpoint where the text is wrong, and WrongUse where the options do not go with it.
    """
    text = text.strip(b" \t\r\n")
    given = {name: value for name in _FIELDS if (value := getattr(options, name)) is not None}
    if text.startswith(b"{"):
        value = _look_into(text)
        if _is_whole(value):
            return _fill_in(text, value, given)
        _check_bare(value)
    else:
        check_value(text, "state")
    if "run_id" not in given:
        raise WrongUse(
            "this is bare state, so name its run with --run-id; "
            "a whole checkpoint has a trigger, and a state or state_snapshot"
        )
    header = {"trigger": Trigger.MANUAL.value, **given}
    return join_members({**_texts(header), "state": text})


def _look_into(text: bytes) -> dict[str, Any]:
    """Return what says whether this is a whole checkpoint; of a state only whether it is an object."""
    found = find_members(text, lambda name, _: name in _FIELDS or name in _STATES)
    return {
        name: parse_value(text[start:end]) if name in _FIELDS else ({} if text[start] == _BRACE else None)
        for name, start, end in found
    }


def _is_whole(value: dict[str, Any]) -> bool:
    return "trigger" in value and ("state" in value or "state_snapshot" in value)


def _check_bare(value: dict[str, Any]) -> None:
    """Refuse what was meant as a checkpoint: as bare state, it would be stored inside of another one."""
    has_state = isinstance(value.get("state"), dict) or "state_snapshot" in value
    if not has_state and not isinstance(value.get("trigger"), str):
        return
    present, missing = ("a state", "trigger") if has_state else ("a trigger", "state")
    raise InvalidCheckpoint(
        missing,
        f"is missing: this has {present}, like a checkpoint; "
        'if it is bare state, hand it in as {"trigger": "manual", "state": …}',
    )


def _fill_in(text: bytes, value: dict[str, Any], given: dict[str, str]) -> bytes:
    """Return the whole checkpoint with what it lacked; itself if it lacked nothing."""
    lacking = {}
    for name, option in given.items():
        stated = value.get(name)
        if stated is None:
            lacking[name] = option
        elif _spell(name, str(stated)) != _spell(name, option):
            raise InvalidCheckpoint(
                name, f"{stated!r} in the file, but {option!r} on the command line; leave one of them out"
            )
    return join_members({**parse_document(text).members, **_texts(lacking)}) if lacking else text


def _spell(name: str, value: str) -> str:
    try:
        return _SPELLINGS.get(name, str)(value)
    except ValueError:
        return value


def _texts(values: dict[str, str]) -> dict[str, bytes]:
    try:
        return {name: orjson.dumps(value) for name, value in values.items()}
    except orjson.JSONEncodeError as error:
        raise WrongUse("an option's value is not UTF-8 text; write it in UTF-8") from error
