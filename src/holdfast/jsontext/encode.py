"""Python values as JSON text: every value exactly as it is, or a refusal that says where and why.

orjson alone does not do: it writes NaN as null, refuses integers beyond 64 bits, and does not limit the
nesting of tuples, so that a deep one overwrites memory. So it is found out first how deep a value goes.
An `orjson.Fragment` is its caller's word that it holds JSON.
"""

import gc
from collections.abc import Iterable
from dataclasses import is_dataclass
from datetime import date, time
from decimal import Decimal
from enum import Enum
from math import isfinite
from reprlib import repr as short_repr
from typing import Any
from uuid import UUID

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.flaws import (
    LONE_SURROGATE,
    MAX_DEPTH,
    MAX_INTEGER_DIGITS,
    TOO_DEEP,
    TOO_LONG,
    format_place,
)
from holdfast.jsontext.parse import Number

_PLAIN = frozenset({str, int, bool, type(None), float, dict, list, tuple})
_CONTAINERS = frozenset({dict, list, tuple})
_FAITHFUL = (
    orjson.OPT_PASSTHROUGH_SUBCLASS | orjson.OPT_PASSTHROUGH_DATACLASS | orjson.OPT_PASSTHROUGH_DATETIME
)
# To look whether a value is a float takes as long as to look for nulls in so many bytes.
_BYTES_PER_LOOK = 40
_GROWTH = 8
_MANY = 10_000
_TOO_MANY = 8_000_000
_INTEGER_BOUND = 10**MAX_INTEGER_DIGITS


def encode(value: object, place: str = "") -> bytes:
    """Return `value` as compact UTF-8 JSON, its keys in the order they have.

    Raises InvalidCheckpoint with `place` extended by the path to the part that is not JSON.

    >>> encode({"b": 2**64, "a": [1.5, None, "é"]}).decode()
    '{"b":18446744073709551616,"a":[1.5,null,"é"]}'
    """
    return dump_plain(value) or orjson.dumps(_Copy(place).of(value))


def encode_exact(value: object, *, is_indented: bool = False) -> bytes:
    """Return a value, which may be made of exact numbers, as JSON.

    >>> encode_exact({"b": Number("1.10"), "a": [True, 2]})
    b'{"b":1.10,"a":[true,2]}'
    """
    return orjson.dumps(value, default=_as_written, option=orjson.OPT_INDENT_2 if is_indented else None)


def _as_written(value: object) -> object:
    if isinstance(value, Number):
        return orjson.Fragment(value.text)
    raise TypeError(type(value).__name__)


def dump_plain(value: object) -> bytes | None:
    """Return what orjson makes of `value` if that is certain to be faithful, else None."""
    levels = _find_levels(value)
    if levels is None:
        return None
    try:
        text = orjson.dumps(value, _refuse, _FAITHFUL)
    except orjson.JSONEncodeError:
        return None
    return text if _are_finite(levels, text) else None


def _refuse(value: object) -> object:
    raise TypeError(type(value).__name__)


def _find_levels(value: object) -> list[list[Any]] | None:
    """Return all values inside a value, by how deep they lie; None if it is deep, or surely not plain JSON.

    Nothing is asked of each value: what orjson does not write faithfully it refuses by itself.
    """
    level: list[Any] = [value]
    levels: list[list[Any]] = []
    visited = 0
    while level and len(levels) < (MAX_DEPTH if _SEES_LEAVES else 0):
        levels.append(level)
        visited += len(level)
        # A list that holds itself a thousand times grows as much with each level.
        if visited > _MANY and (not _are_plain(level) or visited + _count_inside(level) > _TOO_MANY):
            return None
        inside = gc.get_referents(*level)
        # Behind anything but plain values lies its class, and behind that the whole program.
        if len(inside) > _GROWTH * len(level) and not _are_plain(level):
            return None
        level = inside
    return None if level else levels


def _are_plain(level: list[Any]) -> bool:
    return set(map(type, level)) <= _PLAIN


def _count_inside(level: list[Any]) -> int:
    return sum(len(each) for each in level if type(each) in _CONTAINERS)


def _are_finite(levels: list[list[Any]], text: bytes) -> bool:
    """Whether no float of these levels has become a null in `text`, as orjson writes NaN."""
    if sum(map(len, levels)) * _BYTES_PER_LOOK < len(text):
        return all(map(_has_finite, levels))
    unexplained = text.count(b"null")
    # Each None is a null. Most lie in small levels, and once all nulls are explained no float is one.
    for level in sorted(levels, key=len):
        if not unexplained:
            return True
        unexplained -= level.count(None)
    return not unexplained or all(map(_has_finite, levels))


def _has_finite(level: list[Any]) -> bool:
    return all(map(isfinite, [part for part in level if type(part) is float]))


def _sees_leaves(leaf: float) -> bool:
    """Whether this Python's garbage collector visits numbers in a container; it need not."""
    containers: list[Any] = [[leaf] * 2, (leaf,) * 2, {"a": leaf, "b": leaf}]
    return all(gc.get_referents(each) == [leaf, leaf] for each in containers)


_SEES_LEAVES = _sees_leaves(0.5)


class _Copy:
    """Copies a value into one that orjson writes faithfully, or says where and why there is none."""

    def __init__(self, place: str) -> None:
        self._place = place
        self._path: list[str | int] = []
        self._around: list[object] = []

    def of(self, value: Any) -> Any:
        """Return the copy. Raises InvalidCheckpoint."""
        if isinstance(value, Enum):
            value = value.value
        if isinstance(value, dict):
            return self._inside(value, self._members)
        if isinstance(value, list) or type(value) is tuple:
            return self._inside(value, self._items)
        try:
            return _copy_leaf(value)
        except ValueError as error:
            raise self._refusal(str(error)) from error

    def _inside(self, container: Any, copy: Any) -> Any:
        if any(container is each for each in self._around):
            raise self._refusal(
                "the value contains itself, which JSON cannot express; store a reference by name"
            )
        if len(self._around) == MAX_DEPTH:
            raise self._refusal(TOO_DEEP)
        self._around.append(container)
        copied = copy(container)
        self._around.pop()
        return copied

    def _members(self, members: dict[Any, Any]) -> dict[str, Any]:
        copies: dict[str, Any] = {}
        for key, part in members.items():
            is_step = isinstance(key, str | int) and type(key) is not bool
            self._path.append(key if is_step else short_repr(key))
            try:
                name = _copy_name(key, copies)
            except ValueError as error:
                raise self._refusal(str(error)) from error
            copies[name] = self.of(part)
            self._path.pop()
        return copies

    def _items(self, items: Iterable[Any]) -> list[Any]:
        copies: list[Any] = []
        for index, part in enumerate(items):
            self._path.append(index)
            copies.append(self.of(part))
            self._path.pop()
        return copies

    def _refusal(self, reason: str) -> InvalidCheckpoint:
        return InvalidCheckpoint(format_place(self._place, self._path), reason)


def _copy_name(name: object, siblings: dict[str, Any]) -> str:
    if not isinstance(name, str):
        raise ValueError(f"the key is of type {type(name).__name__}; keys are text, use str() of it")  # noqa: TRY004
    text = _copy_text(name)
    if text in siblings:
        raise ValueError("the key occurs twice as text; keep one of the two")
    return text


def _copy_leaf(leaf: Any) -> Any:
    """Return the copy of a leaf; raises ValueError with the reason."""
    if leaf is None or leaf is True or leaf is False or type(leaf) is orjson.Fragment:
        return leaf
    if isinstance(leaf, str):
        return _copy_text(leaf)
    if isinstance(leaf, int):
        return _copy_integer(leaf)
    if isinstance(leaf, float):
        if not isfinite(leaf):
            raise ValueError(f"{leaf} is not JSON; store None or text")
        return float(leaf)
    if isinstance(leaf, UUID):
        return str(leaf)
    raise ValueError(f"{type(leaf).__name__} is not JSON; {_advise_on(leaf)}")


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
