"""Turn Python values into what orjson writes faithfully, and say where and why that cannot be.

orjson alone does not do: it writes NaN as null, refuses integers beyond 64 bits, and some releases do not
limit the nesting of tuples, so that a deep one ends the process instead of raising.
"""

from collections.abc import Iterator
from dataclasses import dataclass, is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from itertools import chain
from math import isfinite
from reprlib import repr as short_repr
from typing import Any
from uuid import UUID

import orjson

from holdfast.core.scanner import (
    LONE_SURROGATE,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    TOO_DEEP,
    TOO_LONG,
    format_place,
)
from holdfast.errors import InvalidCheckpoint

_LEAVES = frozenset({str, int, bool, type(None), UUID})
_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS


def is_safe_to_dump(value: object) -> bool:
    """Tell whether orjson writes `value` faithfully, or else raises: no NaN, not too deep, known types alone.

    A value that is nested exactly `MAX_DEPTH` levels deep may be called unsafe.
    """
    level: list[Any] = [value]
    for _ in range(MAX_DEPTH):
        kinds = set(map(type, level)) - _LEAVES
        if not kinds:
            return True
        deeper: list[Any] = []
        for kind in kinds:
            found: list[Any] = [part for part in level if type(part) is kind]
            if kind is float:
                if not all(map(isfinite, found)):
                    return False
            elif issubclass(kind, dict):
                deeper += chain.from_iterable(map(dict.values, _distinct(found)))
            elif kind is list or kind is tuple:
                deeper += chain.from_iterable(_distinct(found))
            elif issubclass(kind, Enum):
                deeper += [part.value for part in found]
            elif not issubclass(kind, (str, int)):
                return False
        level = deeper
    return False


def _distinct(parts: list[Any]) -> Iterator[Any]:
    # A list that holds itself twice would otherwise double the work with each level.
    return iter({id(part): part for part in parts}.values())


@dataclass(frozen=True, slots=True)
class _Spot:
    """A part of the value, and where it stands: in `outer`, under `step`."""

    value: Any
    step: str | int | None = None
    outer: "_Spot | None" = None
    depth: int = 1

    def trail(self) -> list["_Spot"]:
        spot: _Spot | None = self
        spots = []
        while spot is not None:
            spots.append(spot)
            spot = spot.outer
        return spots[::-1]

    def refuse(self, place: str, reason: str) -> InvalidCheckpoint:
        path = [spot.step for spot in self.trail() if spot.step is not None]
        return InvalidCheckpoint(format_place(place, path), reason)


def copy_to_dump(value: object, place: str) -> object:
    """Return a copy of `value` that orjson writes faithfully.

    Raises InvalidCheckpoint with the place, which begins with `place`, of the first part that is not JSON.
    """
    root: list[Any] = [None]
    pending: list[tuple[Any, str | int, _Spot]] = [(root, 0, _Spot(value))]
    while pending:
        holder, step, spot = pending.pop()
        parts: list[tuple[Any, Any]]
        source = spot.value.value if isinstance(spot.value, Enum) else spot.value
        if isinstance(source, dict):
            parts = _name_parts(source, spot, place)
            copy: Any = dict.fromkeys(name for name, _ in parts)
        elif isinstance(source, list) or type(source) is tuple:
            parts = list(enumerate(source))
            copy = [None] * len(parts)
        else:
            holder[step] = _copy_leaf(source, spot, place)
            continue
        if spot.depth > MAX_DEPTH:
            raise _refuse_depth(spot, place)
        holder[step] = copy
        pending += [(copy, key, _Spot(part, key, spot, spot.depth + 1)) for key, part in reversed(parts)]
    return root[0]


def _name_parts(source: dict[Any, Any], spot: _Spot, place: str) -> list[tuple[Any, Any]]:
    parts = [(_check_name(name, spot, place), part) for name, part in source.items()]
    if len({name for name, _ in parts}) < len(parts):
        raise spot.refuse(place, "two keys of the dict are the same text; keep one of the two")
    return parts


def _check_name(name: object, spot: _Spot, place: str) -> str:
    if not isinstance(name, str):
        reason = (
            f"the key {short_repr(name)} is of type {type(name).__name__}; use str() of it, keys are text"
        )
        raise spot.refuse(place, reason)
    if not _is_unicode(name):
        raise _Spot(None, name, spot).refuse(place, LONE_SURROGATE)
    return str.__str__(name)


def _copy_leaf(source: Any, spot: _Spot, place: str) -> object:
    if isinstance(source, str):
        if not _is_unicode(source):
            raise spot.refuse(place, LONE_SURROGATE)
    elif isinstance(source, int):
        return source if -(2**63) <= source < 2**64 else _write_integer(source, spot, place)
    elif isinstance(source, float):
        if not isfinite(source):
            raise spot.refuse(place, f"{source} is not JSON; store None or text")
        return float(source)
    elif isinstance(source, UUID):
        return str(source)
    elif source is not None:
        raise spot.refuse(place, f"{type(source).__name__} is not JSON; {_advise_on(source)}")
    return source


def _is_unicode(text: str) -> bool:
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True


def _write_integer(number: int, spot: _Spot, place: str) -> orjson.Fragment:
    try:
        if abs(number) < _INTEGER_BOUND:
            return orjson.Fragment(int.__repr__(number))
    except ValueError as error:  # this process lowered Python's own limit
        raise spot.refuse(place, str(error)) from error
    raise spot.refuse(place, TOO_LONG)


def _refuse_depth(spot: _Spot, place: str) -> InvalidCheckpoint:
    seen: set[int] = set()
    for outer in spot.trail():
        if id(outer.value) in seen:
            return outer.refuse(place, "the value contains itself; JSON cannot hold circular references")
        seen.add(id(outer.value))
    return spot.refuse(place, TOO_DEEP)


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
