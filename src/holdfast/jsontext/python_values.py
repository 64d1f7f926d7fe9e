"""Turn Python values into what orjson writes faithfully, and say where and why that cannot be.

orjson alone does not do: it writes NaN as null, refuses integers beyond 64 bits, believes a Fragment, and in
some releases does not limit the nesting of tuples, so that a deep one ends the process.
"""

import gc
from dataclasses import dataclass, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from reprlib import repr as short_repr
from typing import Any
from uuid import UUID

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.scan import (
    LONE_SURROGATE,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    TOO_DEEP,
    TOO_LONG,
    format_place,
)

# orjson stops at 254 levels, in some releases one later for an empty list. With so many lists around a member
# of an object, nothing passes that the limit of 200 forbids; what is held back is judged elsewhere.
LISTS_AROUND = 56

_PLAIN = frozenset({str, int, bool, type(None), float, dict, list, tuple})
_TOO_MANY = 2_000_000
_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS


def wrap(value: object, lists: int = LISTS_AROUND) -> object:
    """Return `value` inside so many lists that orjson refuses it if it is nested too deeply."""
    for _ in range(lists):
        value = [value]
    return value


def dump_plain(value: object) -> bytes | None:
    """Return what orjson makes of `value` if that can be proved to be faithful at little cost, else None."""
    with_floats = _find_floats(value)
    if with_floats is None:
        return None
    try:
        text = orjson.dumps(value)
    except orjson.JSONEncodeError:
        return None
    # What is no number becomes null, so that only a text with nulls can hide one.
    return text if not with_floats or b"null" not in text or _is_finite(with_floats) else None


def _find_floats(value: object) -> list[list[Any]] | None:
    """Return those levels of `value` that have floats in them; None if not all in it is plain JSON."""
    level: list[Any] = [value]
    found: list[list[Any]] = []
    visited = 0
    for _ in range(MAX_DEPTH if _SEES_LEAVES else 0):
        kinds = set(map(type, level))
        visited += len(level)
        # A list that holds itself twice doubles with each level.
        if not kinds <= _PLAIN or visited > _TOO_MANY:
            return None
        if float in kinds:
            found.append(level)
        level = gc.get_referents(*level)
        if not level:
            return found
    return None


def _is_finite(levels: list[list[Any]]) -> bool:
    return all(all(map(isfinite, [part for part in level if type(part) is float])) for level in levels)


def _sees_leaves(leaf: float) -> bool:
    """Tell whether this Python visits even those parts of a container that hold nothing; it need not."""
    return all(
        gc.get_referents(each) == [leaf, leaf] for each in ([leaf] * 2, (leaf,) * 2, {"a": leaf, "b": leaf})
    )


_SEES_LEAVES = _sees_leaves(0.5)


@dataclass(frozen=True, slots=True)
class _Opened:
    """A container whose parts are being copied; it stands in `outer`, under `step`."""

    source: Any
    copy: Any
    outer: "_Opened | None" = None
    step: Any = None
    depth: int = 0

    def trail(self) -> list["_Opened"]:
        """Return the containers from the outermost down to this one."""
        found = [self]
        while found[-1].outer is not None:
            found.append(found[-1].outer)
        return found[::-1]

    def path(self) -> list[str | int]:
        """Return the steps from the outermost container down to this one."""
        return [opened.step for opened in self.trail()[2:]]


def copy_to_dump(value: object, place: str) -> object:
    """Return a copy of `value` that orjson writes faithfully.

    Raises InvalidCheckpoint with the place, which begins with `place`, of a part that is not JSON.
    """
    # The outermost list is no part of the value, and so it does not count as a level.
    outermost = _Opened([value], [])
    pending = [outermost]
    while pending:
        opened = pending.pop()
        is_dict = isinstance(opened.source, dict)
        for step, part in opened.source.items() if is_dict else enumerate(opened.source):
            source = part.value if isinstance(part, Enum) else part
            try:
                name = _copy_name(step, opened.copy) if is_dict else None
                copy = _copy_part(source)
            except ValueError as error:
                raise _refuse(place, opened, step, str(error)) from error
            if is_dict:
                opened.copy[name] = copy
            else:
                opened.copy.append(copy)
            if type(copy) is dict or type(copy) is list:
                if opened.depth == MAX_DEPTH:
                    raise _refuse_depth(place, opened, step)
                pending.append(_Opened(source, copy, opened, step, opened.depth + 1))
    return outermost.copy[0]


def _copy_name(name: object, siblings: dict[str, Any]) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the key is of type {type(name).__name__}; keys are text, use str() of it")  # noqa: TRY004
    text = _copy_text(name)
    if text in siblings:
        raise ValueError("the key occurs twice as text; keep one of the two")
    return text


def _copy_part(source: Any) -> Any:
    """Return the copy of a leaf, or an empty container; raises ValueError with the reason."""
    if source is None or source is True or source is False:
        return source
    if isinstance(source, str):
        return _copy_text(source)
    if isinstance(source, int):
        return _copy_integer(source)
    if isinstance(source, dict):
        return {}
    if isinstance(source, list) or type(source) is tuple:
        return []
    if isinstance(source, float):
        if not isfinite(source):
            raise ValueError(f"{source} is not JSON; store None or text")
        return float(source)
    if isinstance(source, UUID):
        return str(source)
    raise ValueError(f"{type(source).__name__} is not JSON; {_advise_on(source)}")


def _copy_text(text: str) -> str:
    try:
        text.encode()
    except UnicodeEncodeError as error:
        raise ValueError(LONE_SURROGATE) from error
    return str.__str__(text)


def _copy_integer(number: int) -> int | orjson.Fragment:
    if -(2**63) <= number < 2**64:
        return int(number)
    if abs(number) >= _INTEGER_BOUND:
        raise ValueError(TOO_LONG)
    return orjson.Fragment(int.__repr__(number))


def _refuse(place: str, opened: _Opened, step: object, reason: str) -> InvalidCheckpoint:
    path = opened.path()
    if opened.outer is not None:
        path.append(step if isinstance(step, str | int) and type(step) is not bool else short_repr(step))
    return InvalidCheckpoint(format_place(place, path), reason)


def _refuse_depth(place: str, opened: _Opened, step: object) -> InvalidCheckpoint:
    seen: set[int] = set()
    for container in opened.trail():
        if id(container.source) in seen and container.outer is not None:
            reason = "the value contains itself, which JSON cannot express; store a reference by name"
            return _refuse(place, container.outer, container.step, reason)
        seen.add(id(container.source))
    return _refuse(place, opened, step, TOO_DEEP)


def _advise_on(source: Any) -> str:
    if isinstance(source, date | time):
        return "store its isoformat() text"
    if isinstance(source, bytes | bytearray | memoryview):
        return "store text, for example base64"
    if isinstance(source, set | frozenset):
        return "store a sorted list"
    if isinstance(source, Decimal) or hasattr(source, "__fspath__"):
        return "store str() of it"
    if is_dataclass(source):
        return "store dataclasses.asdict() of it"
    for method in ("_asdict", "model_dump", "tolist"):
        if hasattr(source, method):
            return f"store its {method}()"
    return "store text, numbers, lists and dicts instead"
