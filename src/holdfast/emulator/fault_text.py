"""Fault rules as text: `put:503:times=3`, `get:stale=5`, `any:status=502:p=0.5:seed=7`."""

import json
import re
from dataclasses import replace
from typing import TYPE_CHECKING, get_args

from holdfast.emulator.faults import (
    AnswerWith,
    Cut,
    Delay,
    Effect,
    HeadMoves,
    LateWrite,
    Malform,
    Rule,
    Stale,
    Target,
    Truncate,
    WrongLength,
)
from holdfast.emulator.limits import SECONDARY_DOCUMENTATION, SECONDARY_MESSAGE

if TYPE_CHECKING:
    from collections.abc import Callable

FORM = "TARGET:EFFECT[:times=N][:nth=N][:path=REGEX][:p=0..1][:seed=N]"
EFFECTS = (
    "STATUS, status=STATUS, status-after=STATUS, delay=SECONDS, cut, cut-after, late=SECONDS, truncate, "
    "length=DIFFERENCE, malformed, stale=COMMITS, stale-hidden=COMMITS, head-moves, secondary[=SECONDS]"
)


def parse_fault(text: str) -> Rule:
    """Return the rule that a text describes; ValueError says what is wrong and how to write it.

    >>> parse_fault("put:cut-after:nth=2")
    Rule(effect=Cut(after_write=True), target='put', path=None, nth=2, times=None, probability=1.0, seed=0)
    """
    parts = re.split(r"(?<!\\):", text.strip())
    if len(parts) < 2:
        raise ValueError(f"fault {text!r} needs a target and an effect: {FORM}")
    rule = Rule(effect=_parse_effect(parts[1], text), target=_parse_target(parts[0], text))
    for part in parts[2:]:
        rule = _with_limit(rule, part, text)
    return rule


def _parse_target(name: str, text: str) -> Target:
    for target in get_args(Target):
        if target == name.lower():
            return target  # type: ignore[no-any-return]
    raise ValueError(f"fault {text!r}: unknown target {name!r}; use one of {', '.join(get_args(Target))}")


def _parse_effect(part: str, text: str) -> Effect:
    name, has_value, value = part.partition("=")
    if name.isascii() and name.isdigit() and not has_value:
        return AnswerWith(_status(name, text))
    plain: dict[str, Effect] = {
        "cut": Cut(),
        "cut-after": Cut(after_write=True),
        "truncate": Truncate(),
        "malformed": Malform(),
        "head-moves": HeadMoves(),
        "stale": Stale(),
        "length": WrongLength(),
        "secondary": _secondary(None),
    }
    if not has_value and name in plain:
        return plain[name]
    valued: dict[str, Callable[[str], Effect]] = {
        "status": lambda status: AnswerWith(_status(status, text)),
        "status-after": lambda status: AnswerWith(_status(status, text), after_write=True),
        "delay": lambda seconds: Delay(_seconds(seconds, text)),
        "late": lambda seconds: LateWrite(_seconds(seconds, text)),
        "length": lambda difference: WrongLength(_whole(difference, text)),
        "stale": lambda commits: Stale(_whole(commits, text)),
        "stale-hidden": lambda commits: Stale(_whole(commits, text), hidden=True),
        "secondary": lambda seconds: _secondary(_whole(seconds, text)),
    }
    if has_value and name in valued:
        return valued[name](value)
    raise ValueError(f"fault {text!r}: unknown effect {part!r}; use one of {EFFECTS}")


def _with_limit(rule: Rule, part: str, text: str) -> Rule:
    name, _, value = part.partition("=")
    match name:
        case "times":
            return replace(rule, times=_positive(value, text))
        case "nth":
            return replace(rule, nth=_positive(value, text))
        case "seed":
            return replace(rule, seed=_whole(value, text))
        case "p":
            return replace(rule, probability=_probability(value, text))
        case "path":
            return replace(rule, path=_pattern(value.replace("\\:", ":"), text))
        case _:
            raise ValueError(f"fault {text!r}: unknown part {part!r}; write it as {FORM}")


def _secondary(retry_after_s: int | None) -> AnswerWith:
    body = {"message": SECONDARY_MESSAGE, "documentation_url": SECONDARY_DOCUMENTATION, "status": "403"}
    headers = {} if retry_after_s is None else {"retry-after": str(retry_after_s)}
    return AnswerWith(403, json.dumps(body), headers)


def _status(value: str, text: str) -> int:
    number = _whole(value, text)
    if not 200 <= number <= 599:
        raise ValueError(f"fault {text!r}: {value} is no HTTP status; use 200 to 599")
    return number


def _whole(value: str, text: str) -> int:
    try:
        return int(value)
    except ValueError:
        raise ValueError(f"fault {text!r}: {value!r} is not a whole number") from None


def _positive(value: str, text: str) -> int:
    number = _whole(value, text)
    if number < 1:
        raise ValueError(f"fault {text!r}: {value!r} must be 1 or more")
    return number


def _seconds(value: str, text: str) -> float:
    try:
        seconds = float(value)
    except ValueError:
        seconds = -1.0
    if not 0.0 <= seconds < float("inf"):
        raise ValueError(f"fault {text!r}: {value!r} is not a number of seconds")
    return seconds


def _probability(value: str, text: str) -> float:
    try:
        probability = float(value)
    except ValueError:
        probability = -1.0
    if not 0.0 <= probability <= 1.0:
        raise ValueError(f"fault {text!r}: p={value} must be between 0 and 1")
    return probability


def _pattern(value: str, text: str) -> str:
    try:
        re.compile(value)
    except re.error as error:
        raise ValueError(f"fault {text!r}: {value!r} is no regular expression: {error}") from None
    return value
