"""JSON texts as Python values, or a refusal that says where and why.

orjson reads, which forgives duplicate names and rounds some numbers. A text that it writes again just as it
was has neither. Every other text is read once more by the standard library, whose hooks see each name and
each number.
"""

import re
import sys
from collections.abc import Callable, Iterator
from json import JSONDecoder
from typing import Any

import orjson

from holdfast.jsontext.flaws import MAX_DEPTH, MAX_INTEGER_DIGITS, find_flaw

# orjson writes 254 levels, in some releases one more for an empty list. With so many lists around it, nothing
# is written that the limit of 200 forbids.
_LISTS_AROUND = 254 - MAX_DEPTH + 2

# No integer with so few digits is beyond 64 bits.
_SURELY_64_BITS = 18

_match_space = re.compile(r"[ \t\n\r]*").match

Convert = Callable[[str], object]
Part = tuple[str | None, Any, int, int]


class Number:
    """A number as it is written. Two spellings of one amount are two numbers.

    >>> Number("1.10") == Number("1.1"), Number("7") == Number("7")
    (False, True)
    """

    __slots__ = ("text",)

    def __init__(self, text: str) -> None:
        self.text = text

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Number) and other.text == self.text

    def __hash__(self) -> int:
        return hash(self.text)

    def __repr__(self) -> str:
        return self.text


# What takes a number's text as it is; Python itself limits the others' length.
_KEEPING_TEXT = (Number, orjson.Fragment)


def parse_value(text: bytes, place: str = "") -> Any:
    """Return the JSON value that `text` holds; raises InvalidCheckpoint with the place and the byte."""
    value, is_plain = judge(text, place)
    return value if is_plain else read(text, place)


def parse_exact(text: bytes, place: str = "") -> Any:
    """Return the value that `text` holds, each number as it is written. Raises like `parse_value`."""
    judge(text, place)
    return read(text, place, integer=Number, real=Number)


def judge(text: bytes, place: str = "", *, levels_around: int = 0) -> tuple[Any, bool]:
    """Return the value of `text` as orjson reads it, and whether it is plain: written again just as it was.

    A value that is not plain is an approximation, to be read again. Raises InvalidCheckpoint unless `text` is
    JSON, or goes too deep inside so many levels; duplicate names are for `read` to refuse.
    """
    try:
        value = orjson.loads(text)
        return value, find_end(value, text, levels_around=levels_around) == len(text)
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        # It also refuses numbers beyond the range of a float, which are JSON.
        find_flaw(text, place, levels_around=levels_around)
        return None, False


def find_end(value: object, text: bytes, start: int = 0, *, levels_around: int = 0) -> int | None:
    """Return where the text ends that orjson writes of `value`, if that stands at `start`; else None.

    Raises JSONEncodeError if the value might go too deep inside so many levels.
    """
    if not isinstance(value, dict | list):
        written = orjson.dumps(value)
        return start + len(written) if text.startswith(written, start) else None
    around = _LISTS_AROUND + levels_around
    written = orjson.dumps(_wrap(value, around))
    end = start + len(written) - 2 * around
    part = text[start:end] if start or end < len(text) else text
    # Compared where it stands: to cut the lists off would copy all of it.
    return end if written.startswith(part, around) and len(part) == end - start else None


def read(text: bytes, place: str = "", *, integer: Convert = int, real: Convert = float) -> Any:
    """Return the value of a text that `judge` took; `integer` and `real` make its numbers from their text.

    Raises InvalidCheckpoint for a name that occurs twice in an object, and for an integer that is too long.
    """
    try:
        return _decoder(integer, real).decode(text.decode())
    except ValueError:
        _refuse(text, place, integer)
        raise


def read_parts(text: bytes) -> tuple[list[Part], bool]:
    """Return what the object or array is made of that a text, which `judge` took, holds.

    Each part has its name, if it is a member, its value, and where its text begins and ends. The flag says
    whether orjson writes every number of these values as it stands in the text. Raises like `read`.
    """
    numbers = _Numbers()
    try:
        parts = list(_scan(text.decode(), _decoder(numbers.integer, numbers.real).raw_decode))
        _distinct([(name, None) for name, *_ in parts if name is not None])
    except ValueError:
        _refuse(text, "", int)
        raise
    return parts, numbers.are_usual


def _scan(text: str, decode_at: Callable[[str, int], tuple[Any, int]]) -> Iterator[Part]:
    start = _skip(text, 0)
    is_object, is_ascii = text[start] == "{", text.isascii()
    position = _skip(text, start + 1)
    offset = counted = 0
    while text[position] not in "]}":
        name = None
        if is_object:
            name, position = decode_at(text, position)
            position = _skip(text, _skip(text, position) + 1)
        value, end = decode_at(text, position)
        if is_ascii:
            yield name, value, position, end
        else:
            offset += len(text[counted:position].encode())
            size = len(text[position:end].encode())
            yield name, value, offset, offset + size
            offset, counted = offset + size, end
        position = _skip(text, end)
        if text[position] == ",":
            position = _skip(text, position + 1)


def _skip(text: str, position: int) -> int:
    match = _match_space(text, position)
    return match.end() if match else position


def _decoder(integer: Convert, real: Convert) -> JSONDecoder:
    return JSONDecoder(
        object_pairs_hook=_distinct,
        parse_int=_short(integer) if integer in _KEEPING_TEXT else integer,
        parse_float=real,
    )


def _refuse(text: bytes, place: str, integer: Convert) -> None:
    """Raise InvalidCheckpoint for a text that the standard library refuses."""
    limit = 0 if integer in _KEEPING_TEXT else sys.get_int_max_str_digits()
    find_flaw(text, place, most_digits=min(limit or MAX_INTEGER_DIGITS, MAX_INTEGER_DIGITS))


class _Numbers:
    """Makes numbers of their text, and notes whether all of them are spelled as orjson spells them."""

    def __init__(self) -> None:
        self.are_usual = True

    def integer(self, written: str) -> int:
        if len(written) > _SURELY_64_BITS or written == "-0":
            self.are_usual = False
        return int(written)

    def real(self, written: str) -> float:
        value = float(written)
        # Where Python writes no exponent, orjson writes the same.
        if repr(value) != written or "e" in written:
            self.are_usual = False
        return value


def _distinct(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) < len(pairs):
        raise ValueError
    return members


def _short(convert: Convert) -> Convert:
    def check(written: str) -> object:
        if len(written) - written.startswith("-") > MAX_INTEGER_DIGITS:
            raise ValueError
        return convert(written)

    return check


def _wrap(value: object, lists: int) -> object:
    """Return `value` inside so many lists that orjson refuses it if it is nested too deeply."""
    for _ in range(lists):
        value = [value]
    return value
