"""Checks of single values: each returns the value as it is meant, or raises ValueError with what is wrong.

Written by hand: what stands before many a command has no time to load a library for it.
"""

import math
from collections.abc import Callable, Iterable
from contextlib import suppress
from enum import StrEnum
from typing import Any, NoReturn, TypeVar

Check = Callable[[Any], Any]
EnumT = TypeVar("EnumT", bound=StrEnum)

_TRUE = frozenset({"true", "t", "yes", "y", "on", "1"})
_FALSE = frozenset({"false", "f", "no", "n", "off", "0"})


def text(*, least: int = 0, most: int | None = None) -> Check:
    """Return the check of a text with so many characters."""

    def check(value: object) -> str:
        if not isinstance(value, str):
            _refuse("Input should be a valid string")
        if len(value) < least:
            raise ValueError(f"String should have at least {_count(least)}")
        if most is not None and len(value) > most:
            raise ValueError(f"String should have at most {_count(most)}")
        if not value.isascii():
            _check_unicode(value)
        return value

    return check


def whole_number(*, least: int, most: int | None = None) -> Check:
    """Return the check of a whole number, and of nothing that only looks like one."""

    def check(value: object) -> int:
        if not isinstance(value, int) or isinstance(value, bool):
            _refuse("Input should be a valid integer")
        _check_range(value, least, most)
        return value

    return check


def number(value: object) -> float:
    """Return a number, and nothing that only looks like one."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        _refuse("Input should be a valid number")
    _read_number(value)
    return value


def written_whole_number(*, least: int, most: int | None = None) -> Check:
    """Return the check of a whole number that may be written as text."""

    def check(value: object) -> int:
        whole = _read_whole_number(value)
        _check_range(whole, least, most)
        return whole

    return check


def written_number(*, least: float, most: float | None = None, above: bool = False) -> Check:
    """Return the check of a number that may be written as text; with `above`, it is more than `least`."""

    def check(value: object) -> float:
        number = _read_number(value)
        if above and number <= least:
            raise ValueError(f"Input should be greater than {least:g}")
        _check_range(number, least, most)
        return number

    return check


def written_flag(value: object) -> bool:
    """Return a yes or no that may be written as text."""
    if isinstance(value, bool):
        return value
    word = str(value).strip().lower()
    if word not in _TRUE | _FALSE:
        raise ValueError("Input should be true or false")
    return word in _TRUE


def one_of(*words: str) -> Check:
    """Return the check of one of these words."""

    def check(value: object) -> object:
        if value not in words:
            raise ValueError(f"Input should be {_listed(words)}")
        return value

    return check


def member_of(kind: type[EnumT]) -> Check:
    """Return the check of a member of an enumeration, which may be written as text."""
    members = {each: each for each in kind}  # by their text, as each is equal to it

    def check(value: Any) -> EnumT:
        try:
            return members[value]
        except (KeyError, TypeError):
            raise ValueError(f"Input should be {_listed(kind)}") from None

    return check


def _read_whole_number(value: object) -> int:
    number = _read_number(value)
    if isinstance(value, int | str):
        with suppress(ValueError):
            return int(value)  # exactly, where a float would round
    if not number.is_integer():
        _refuse("Input should be a valid integer")
    return int(number)


def _read_number(value: object) -> float:
    if isinstance(value, int | float | str) and not isinstance(value, bool):
        with suppress(ValueError, OverflowError):
            number = float(value)
            if math.isfinite(number):
                return number
    raise ValueError("Input should be a valid number")


def _refuse(reason: str) -> NoReturn:
    """Raise the one kind of error, whether a value or its type is wrong."""
    raise ValueError(reason)


def _check_range(number: float, least: float, most: float | None) -> None:
    if number < least:
        raise ValueError(f"Input should be greater than or equal to {least:,}")
    if most is not None and number > most:
        raise ValueError(f"Input should be less than or equal to {most:,}")


def _check_unicode(value: str) -> None:
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(
            "Input should be a valid string, without half a character (a lone surrogate)"
        ) from None


def _count(number: int) -> str:
    return f"{number} character{'' if number == 1 else 's'}"


def _listed(words: Iterable[str]) -> str:
    *others, last = [f"'{word}'" for word in words]
    return f"{', '.join(others)} or {last}"
