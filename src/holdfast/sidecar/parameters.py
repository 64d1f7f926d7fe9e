"""What routes read from a path and its query. A wrong value raises a Problem that names the parameter."""

from starlette.requests import Request

from holdfast.format.ids import At, parse_at, parse_checkpoint_id, parse_run_id
from holdfast.format.paths import MOST_DIGITS
from holdfast.presentation.user_input import parse_number
from holdfast.sidecar.problems import invalid


def run_id_of(request: Request) -> str:
    """Return the run that the address names."""
    try:
        return parse_run_id(request.path_params["run_id"])
    except ValueError as error:
        raise invalid("run_id", str(error)) from error


def optional_run_id(request: Request) -> str | None:
    """Return the run that the query names, if it names one."""
    text = _single(request, "run_id")
    try:
        return None if text is None else parse_run_id(text)
    except ValueError as error:
        raise invalid("run_id", str(error)) from error


def place_of(text: str, name: str = "at") -> At:
    """Return a checkpoint's number within its run, or its id."""
    try:
        return parse_at(text)
    except ValueError as error:
        raise invalid(name, str(error)) from error


def checkpoint_id_of(request: Request) -> str:
    """Return the checkpoint that the address names by its id."""
    try:
        return parse_checkpoint_id(request.path_params["checkpoint_id"])
    except ValueError:
        raise invalid("checkpoint_id", "use the id of a checkpoint, which is a UUID") from None


def needed_place(request: Request, name: str) -> At:
    """Return a checkpoint's number or id that the query must have."""
    return place_of(_single(request, name) or "", name)


def optional_place(request: Request, name: str) -> At | None:
    """Return a checkpoint's number or id from the query, if it is there."""
    text = _single(request, name)
    return None if text is None else place_of(text, name)


def count(request: Request, name: str) -> int | None:
    """Return how many are wanted from the query, if that is there."""
    text = _single(request, name)
    if text is None:
        return None
    if not (text.isascii() and text.isdigit() and len(text) <= MOST_DIGITS and int(text) > 0):
        raise invalid(name, "use a whole number from 1 on, or leave it out for all of them")
    return int(text)


def flag(request: Request, name: str) -> bool:
    """Return a yes or no from the query; no if it is not there."""
    text = _single(request, name)
    if text not in (None, "true", "false"):
        raise invalid(name, "use true or false")
    return text == "true"


def text(request: Request, name: str) -> str | None:
    """Return any words from the query, if they are there."""
    return _single(request, name)


def seconds(request: Request, name: str, *, default: float, most: float) -> float:
    """Return a length of time from the query."""
    text = _single(request, name)
    if text is None:
        return default
    number = parse_number(text)
    if not 0 <= number <= most:
        raise invalid(name, f"use a number of seconds from 0 to {most:.0f}")
    return number


def choice(request: Request, name: str, *allowed: str) -> str | None:
    """Return one of the words that the query may have, if it is there."""
    text = _single(request, name)
    if text is not None and text not in allowed:
        raise invalid(name, f"use {' or '.join(allowed)}, or leave it out")
    return text


def _single(request: Request, name: str) -> str | None:
    found = request.query_params.getlist(name)
    if len(found) > 1:
        raise invalid(name, "give it once")
    return found[0] if found else None
