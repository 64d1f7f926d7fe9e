"""Read JSON text exactly as it is written, and say where and why it is refused.

This is the judge of what is valid: RFC 8259 to the letter, and on top of that no duplicate names, no lone
surrogates, no nesting beyond `MAX_DEPTH` and no integer beyond `MAX_INTEGER_DIGITS`. It never recurses, and
the time it takes grows with the length of the text alone.
"""

import re
from collections.abc import Callable, Iterable, Iterator
from typing import Any, cast

import orjson

from holdfast.errors import InvalidCheckpoint, MalformedJson

MAX_DEPTH = 200
# Python's own default: https://docs.python.org/3/library/stdtypes.html#int-max-str-digits
MAX_INTEGER_DIGITS = 4300
TOO_DEEP = f"nesting goes beyond {MAX_DEPTH} levels; store a flatter state"
TOO_LONG = f"the integer has more than {MAX_INTEGER_DIGITS:,} digits; store it as text"
LONE_SURROGATE = "the text holds a lone surrogate, which UTF-8 cannot carry; remove or replace it"

# Possessive quantifiers never give back what they took, so no hostile text makes a pattern try twice. A group
# is not repeated by one: up to Python 3.11.4 that forgets where a repetition that failed began.
_SPACE = r"[ \t\n\r]*+"
_PLAIN = r'[^"\\\x00-\x1f]*+'
_STRING = rf'"({_PLAIN}(?:\\(?:["\\/bfnrt]|u[0-9a-fA-F]{{4}}){_PLAIN})*)'
_NUMBER = r"(-?(?:0|[1-9][0-9]*+)(\.[0-9]++(?:[eE][-+]?[0-9]++)?|[eE][-+]?[0-9]++)?)"
_OPENER = rf"(\{{{_SPACE}\}}|\[{_SPACE}\]|[\[{{])"
# The empty group is where the value ends.
_DELIMITER = rf"(){_SPACE}([,\]}}]?)"
_VALUE = rf'()(?:{_STRING}"|{_NUMBER}|(true|false|null)|{_OPENER}){_DELIMITER}'
# One match takes a whole member or item; the empty first group gives both kinds the same groups.
_match_item = re.compile(rf"{_SPACE}(){_VALUE}").match
_match_member = re.compile(rf'{_SPACE}{_STRING}"{_SPACE}:{_SPACE}{_VALUE}').match
_match_delimiter = re.compile(_DELIMITER).match
_NAME_GROUP, _VALUE_GROUP, _OPENER_GROUP = 1, 2, 7

# These find out what is wrong with a text that the patterns above refuse.
_match_space = re.compile(_SPACE).match
_match_unclosed_string = re.compile(_STRING).match
_match_word = re.compile(r"-?[A-Za-z_]{1,40}+|[-+.0-9eE]{1,40}+").match

_LITERALS = {"true": True, "false": False, "null": None}
_OPENERS = ("{", "[")
_BYTE_ORDER_MARK = "\ufeff"
_SHOWN_NAME, _SHOWN_PLACE = 80, 400
_SIMPLE_NAME = re.compile(rf"[\w-]{{1,{_SHOWN_NAME}}}").fullmatch

Convert = Callable[[str], object]


def format_place(place: str, path: Iterable[str | int]) -> str:
    """Return `place` extended by the names and indexes of `path`, cut in the middle if it gets very long.

    >>> format_place("state", ["tasks", 3, "due date"])
    'state.tasks[3]["due date"]'
    """
    for step in path:
        if isinstance(step, int):
            place = f"{place}[{step}]"
        elif _SIMPLE_NAME(step):
            place = f"{place}.{step}" if place else step
        else:
            place = f"{place}[{_quote(step)}]"
    if len(place) > _SHOWN_PLACE:
        place = f"{place[: _SHOWN_PLACE // 2]}…{place[-_SHOWN_PLACE // 2 :]}"
    return place


def _quote(name: str) -> str:
    shown = name if len(name) <= _SHOWN_NAME else name[:_SHOWN_NAME] + "…"
    return orjson.dumps(shown.encode("utf-8", "backslashreplace").decode()).decode()


def scan_value(text: bytes, place: str = "", *, integer: Convert = int, real: Convert = float) -> Any:
    """Return the one value that `text` holds; `integer` and `real` make its numbers from their text.

    Raises InvalidCheckpoint with a place that begins with `place` and a reason that names the byte.
    """
    return _Scanner(_decode(text, place), place, integer, real).scan()


def scan_members(text: bytes) -> tuple[dict[str, Any], Iterator[tuple[int, int]]]:
    """Return the one object that `text` holds, and where the text of each member begins and ends."""
    scanner = _Scanner(_decode(text, ""), "")
    value = scanner.scan()
    if not isinstance(value, dict):
        raise InvalidCheckpoint("", "the outermost value must be a JSON object")
    return value, scanner.spans_below_root()


def scan_items(text: bytes) -> list[bytes]:
    """Return the items of the one array that `text` holds, each as its text was written."""
    scanner = _Scanner(_decode(text, ""), "")
    if not isinstance(scanner.scan(), list):
        raise InvalidCheckpoint("", "the outermost value must be a JSON array")
    return [text[start:end] for start, end in scanner.spans_below_root()]


def _decode(text: bytes, place: str) -> str:
    try:
        return text.decode()
    except UnicodeDecodeError as error:
        scanner = _Scanner(text[: error.start].decode(), place)
        try:
            scanner.scan()
        except InvalidCheckpoint as flaw:
            if not scanner.ends_too_early:
                raise
            place = flaw.place
        raise MalformedJson(place, f"at byte {error.start}: this is not UTF-8; send UTF-8 text") from error


class _Scanner:
    """Reads one text, once, from its beginning to its end."""

    def __init__(self, text: str, place: str, integer: Convert = int, real: Convert = float) -> None:
        self.ends_too_early = False
        self._text = text
        self._place = place
        self._integer = integer
        self._real = real
        # The first list is no part of the text: the value of the whole text becomes its only item.
        self._opened: list[Any] = [[]]
        self._starts: list[int] = []
        self._ends: list[int] = []

    def spans_below_root(self) -> Iterator[tuple[int, int]]:
        """Yield where each member or item of the outermost value begins and ends, in bytes."""
        offset = position = 0
        for start, end in zip(self._starts, self._ends, strict=True):
            begins = offset + self._count_bytes(position, start)
            offset, position = begins + self._count_bytes(start, end), end
            yield begins, offset

    def _count_bytes(self, start: int, end: int) -> int:
        return end - start if self._text.isascii() else len(self._text[start:end].encode())

    def scan(self) -> Any:
        """Return the value of the whole text."""
        text, opened = self._text, self._opened
        current, position = opened[0], 0
        while True:
            is_object = type(current) is dict
            match = _match_member(text, position) if is_object else _match_item(text, position)
            if match is None:
                raise self._diagnose(position)
            name, _, string, number, fraction, literal, opener, _, delimiter = match.groups()
            if is_object and ("\\" in name or name in current):
                name = self._make_name(match)
            if string is not None and "\\" not in string:
                value = string
            elif opener is None:
                value = self._make_leaf(match, name, string, number, fraction, literal)
            else:
                value = self._make_container(match, name)
            if is_object:
                current[name] = value
            else:
                current.append(value)
            if len(opened) == 2:
                self._starts.append(match.start(_VALUE_GROUP))
            if opener in _OPENERS:
                opened.append(value)
                current, position = value, match.end(_OPENER_GROUP)
            elif delimiter == "," and len(opened) > 2:
                position = match.end()
            else:
                position = self._close(match)
                current = opened[-1]
                if len(opened) == 1:
                    return current[0]

    def _make_leaf(
        self,
        match: re.Match[str],
        name: str,
        string: str | None,
        number: str | None,
        fraction: str | None,
        literal: str,
    ) -> object:
        try:
            if string is not None:
                return _unescape(string)
            if number is None:
                return _LITERALS[literal]
            return self._real(number) if fraction else _convert_integer(number, self._integer)
        except ValueError as error:
            raise self._flaw(match.start(_VALUE_GROUP), str(error), name) from error

    def _make_container(self, match: re.Match[str], name: str) -> dict[str, Any] | list[Any]:
        if len(self._opened) > MAX_DEPTH:
            raise self._flaw(match.start(_VALUE_GROUP), TOO_DEEP, name)
        return {} if match[_OPENER_GROUP].startswith("{") else []

    def _make_name(self, match: re.Match[str]) -> str:
        written, start = match[_NAME_GROUP], match.start(_NAME_GROUP) - 1
        try:
            name = _unescape(written)
        except ValueError as error:
            raise self._flaw(start, str(error), written) from error
        if name in self._opened[-1]:
            raise self._flaw(start, "this name occurs twice in the same object; keep one of the two", name)
        return name

    def _close(self, match: re.Match[str]) -> int:
        """Close all that ends with the value which `match` took; return where to read on."""
        opened = self._opened
        while True:
            end, delimiter = match.start(match.re.groups), match[match.re.groups]
            if len(opened) == 1:
                if end < len(self._text):
                    raise self._diagnose_end(end, "the end of the text")
                return end
            if len(opened) == 2:
                self._ends.append(match.start(match.re.groups - 1))
            if delimiter == ",":
                return match.end()
            closer = "}" if type(opened[-1]) is dict else "]"
            if delimiter != closer:
                raise self._diagnose_end(end, f"',' or '{closer}'")
            opened.pop()
            match = cast("re.Match[str]", _match_delimiter(self._text, match.end()))

    def _flaw(self, position: int, reason: str, name: str | None = None) -> InvalidCheckpoint:
        """Return the error for a member called `name`, or an item, which is being read at `position`."""
        path = _path_to_last_read(self._opened[1:-1])
        if type(self._opened[-1]) is list and len(self._opened) > 1:
            path.append(len(self._opened[-1]))
        elif name is not None and len(self._opened) > 1:
            path.append(name)
        return self._error(position, reason, path)

    def _error(self, position: int, reason: str, path: list[str | int]) -> MalformedJson:
        offset = self._count_bytes(0, position)
        return MalformedJson(format_place(self._place, path), f"at byte {offset}: {reason}")

    def _diagnose(self, position: int) -> InvalidCheckpoint:
        """Find out why no member or item can be read at `position`."""
        text, name = self._text, None
        position = _skip_space(text, position)
        if type(self._opened[-1]) is dict:
            string = _match_unclosed_string(text, position)
            if string is None:
                return self._unexpected(position, "a name in double quotes")
            if not text.startswith('"', string.end()):
                return self._diagnose_string(string.end())
            name = string[1]
            position = _skip_space(text, string.end() + 1)
            if not text.startswith(":", position):
                return self._unexpected(position, "':'", name)
            position = _skip_space(text, position + 1)
        if string := _match_unclosed_string(text, position):
            return self._diagnose_string(string.end(), name)
        if word := _match_word(text, position):
            return self._flaw(position, f"{word[0]} is not JSON; {_advise_on(word[0])}", name)
        return self._unexpected(position, "a value", name)

    def _diagnose_string(self, position: int, name: str | None = None) -> InvalidCheckpoint:
        """Find out why the string that is being read cannot go on at `position`."""
        found = self._text[position : position + 1]
        if not found:
            return self._unexpected(position, "the end of a string", name)
        if found == "\\":
            escape = self._text[position : position + 2]
            return self._flaw(position, f"{escape!a} begins no escape that JSON knows", name)
        return self._flaw(position, f"write the control character as \\u{ord(found):04x}", name)

    def _diagnose_end(self, position: int, expected: str) -> InvalidCheckpoint:
        """Find out why the text cannot go on at `position`, after a whole value."""
        path = _path_to_last_read(self._opened[1:])
        word = _match_word(self._text, position)
        if word and self._text[position - 1].isdigit():
            return self._error(position, f"no JSON number goes on with {word[0]}", path)
        position = _skip_space(self._text, position)
        return self._error(position, self._contrast(position, expected), path)

    def _unexpected(self, position: int, expected: str, name: str | None = None) -> InvalidCheckpoint:
        return self._flaw(position, self._contrast(position, expected), name)

    def _contrast(self, position: int, expected: str) -> str:
        found = self._text[position : position + 1]
        if found == _BYTE_ORDER_MARK:
            return "there is a byte order mark; send UTF-8 without it"
        self.ends_too_early = not found
        return f"expected {expected}, found {ascii(found) if found else 'the end of the text'}"


def _path_to_last_read(containers: Iterable[Any]) -> list[str | int]:
    return [next(reversed(outer)) if type(outer) is dict else len(outer) - 1 for outer in containers]


def _skip_space(text: str, position: int) -> int:
    match = _match_space(text, position)
    return match.end() if match else position


def _unescape(written: str) -> str:
    try:
        unescaped: str = orjson.loads(f'"{written}"')
    except orjson.JSONDecodeError as error:
        # The grammar of escapes is known to hold, so that only a half of a surrogate pair can be wrong.
        raise ValueError(LONE_SURROGATE) from error
    return unescaped


def _convert_integer(written: str, integer: Convert) -> object:
    if len(written) - written.startswith("-") > MAX_INTEGER_DIGITS:
        raise ValueError(TOO_LONG)
    return integer(written)


def _advise_on(word: str) -> str:
    if word.lstrip("-") in ("NaN", "Infinity"):
        return "store null or text"
    return "write numbers like -1.5e3" if word[0] in "-+.0123456789" else "write text in double quotes"
