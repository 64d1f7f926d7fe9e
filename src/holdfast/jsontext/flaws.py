"""Where and why a JSON text is refused: the path to the flaw, its byte, and what to do.

What is asked for is RFC 8259 to the letter, and on top of that no duplicate names, no lone surrogates, no
nesting beyond `MAX_DEPTH` and no integer beyond `MAX_INTEGER_DIGITS`. Nothing here recurses, and the time it
takes grows with the length of the text alone.
"""

import re
from collections.abc import Iterable
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

_OPENERS = ("{", "[")
_BYTE_ORDER_MARK = "\ufeff"
_SHOWN_NAME, _SHOWN_PLACE = 80, 400
_SIMPLE_NAME = re.compile(rf"[\w-]{{1,{_SHOWN_NAME}}}").fullmatch


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


def find_flaw(
    text: bytes, place: str = "", *, levels_around: int = 0, most_digits: int = MAX_INTEGER_DIGITS
) -> None:
    """Raise InvalidCheckpoint for the first flaw of `text`, if it has any; the place begins with `place`."""
    deepest = MAX_DEPTH - levels_around
    try:
        written = text.decode()
    except UnicodeDecodeError as error:
        scanner = _FlawFinder(text[: error.start].decode(), place, deepest, most_digits)
        try:
            scanner.scan()
        except InvalidCheckpoint as flaw:
            if not scanner.ends_too_early:
                raise
            place = flaw.place
        raise MalformedJson(place, f"at byte {error.start}: this is not UTF-8; send UTF-8 text") from error
    _FlawFinder(written, place, deepest, most_digits).scan()


class _FlawFinder:
    """Reads one text, once, up to its first flaw."""

    def __init__(self, text: str, place: str, deepest: int, most_digits: int) -> None:
        self.ends_too_early = False
        self._text = text
        self._place = place
        self._deepest = deepest
        self._most_digits = most_digits
        # Of an open object its names, of an open array how many items it has. The first is no part of the
        # text: the value of the whole text becomes its only item.
        self._opened: list[dict[str, None] | list[int]] = [[0]]

    def _count_bytes(self, start: int, end: int) -> int:
        return end - start if self._text.isascii() else len(self._text[start:end].encode())

    def scan(self) -> None:
        """Raise InvalidCheckpoint for the first flaw."""
        text, opened = self._text, self._opened
        current: Any = opened[0]
        position = 0
        while True:
            match = (_match_member if type(current) is dict else _match_item)(text, position)
            if match is None:
                raise self._diagnose(position)
            name, _, string, number, fraction, _, opener, _, delimiter = match.groups()
            if type(current) is dict:
                if "\\" in name or name in current:
                    name = self._make_name(match)
                current[name] = None
            else:
                current[0] += 1
            if string is not None and "\\" in string:
                self._check_escapes(match, string)
            elif number is not None and not fraction:
                self._check_length(match, number)
            elif opener is not None and len(opened) > self._deepest:
                raise self._flaw(match.start(_VALUE_GROUP), TOO_DEEP)
            if opener in _OPENERS:
                current = {} if opener == "{" else [0]
                opened.append(current)
                position = match.end(_OPENER_GROUP)
            elif delimiter == "," and len(opened) > 1:
                position = match.end()
            else:
                position = self._close(match)
                current = opened[-1]
                if len(opened) == 1:
                    return

    def _check_escapes(self, match: re.Match[str], string: str) -> None:
        try:
            _unescape(string)
        except ValueError as error:
            raise self._flaw(match.start(_VALUE_GROUP), str(error)) from error

    def _check_length(self, match: re.Match[str], number: str) -> None:
        if len(number) - number.startswith("-") > self._most_digits:
            reason = TOO_LONG.replace(f"{MAX_INTEGER_DIGITS:,}", f"{self._most_digits:,}")
            raise self._flaw(match.start(_VALUE_GROUP), reason)

    def _make_name(self, match: re.Match[str]) -> str:
        written, start = match[_NAME_GROUP], match.start(_NAME_GROUP) - 1
        path = _path_to(self._opened[1:-1])
        try:
            name = _unescape(written)
        except ValueError as error:
            raise self._error(start, str(error), [*path, written]) from error
        if name in self._opened[-1]:
            reason = "this name occurs twice in the same object; keep one of the two"
            raise self._error(start, reason, [*path, name])
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
            if delimiter == ",":
                return match.end()
            closer = "}" if type(opened[-1]) is dict else "]"
            if delimiter != closer:
                raise self._diagnose_end(end, f"',' or '{closer}'")
            opened.pop()
            match = cast("re.Match[str]", _match_delimiter(self._text, match.end()))

    def _flaw(self, position: int, reason: str) -> InvalidCheckpoint:
        """Return the error for the value that was counted last."""
        return self._error(position, reason, _path_to(self._opened[1:]))

    def _flaw_of_next(self, position: int, reason: str, name: str | None) -> InvalidCheckpoint:
        """Return the error for a member called `name`, or an item, that could not be read."""
        path = _path_to(self._opened[1:-1])
        innermost = self._opened[-1]
        if len(self._opened) > 1 and type(innermost) is list:
            path.append(innermost[0])
        elif len(self._opened) > 1 and name is not None:
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
            return self._flaw_of_next(position, f"{word[0]} is not JSON; {_advise_on(word[0])}", name)
        return self._unexpected(position, "a value", name)

    def _diagnose_string(self, position: int, name: str | None = None) -> InvalidCheckpoint:
        """Find out why the string that is being read cannot go on at `position`."""
        found = self._text[position : position + 1]
        if not found:
            return self._unexpected(position, "the end of a string", name)
        if found == "\\":
            escape = self._text[position : position + 2]
            return self._flaw_of_next(position, f"{escape!a} begins no escape that JSON knows", name)
        return self._flaw_of_next(position, f"write the control character as \\u{ord(found):04x}", name)

    def _diagnose_end(self, position: int, expected: str) -> InvalidCheckpoint:
        """Find out why the text cannot go on at `position`, after a whole value."""
        path = _path_to(self._opened[1:])
        word = _match_word(self._text, position)
        if word and self._text[position - 1].isdigit():
            return self._error(position, f"no JSON number goes on with {word[0]}", path)
        position = _skip_space(self._text, position)
        return self._error(position, self._contrast(position, expected), path)

    def _unexpected(self, position: int, expected: str, name: str | None = None) -> InvalidCheckpoint:
        return self._flaw_of_next(position, self._contrast(position, expected), name)

    def _contrast(self, position: int, expected: str) -> str:
        found = self._text[position : position + 1]
        if found == _BYTE_ORDER_MARK:
            return "there is a byte order mark; send UTF-8 without it"
        self.ends_too_early = not found
        return f"expected {expected}, found {ascii(found) if found else 'the end of the text'}"


def _path_to(containers: Iterable[dict[str, None] | list[int]]) -> list[str | int]:
    """Return the steps from each of these containers to what was read last in it."""
    return [next(reversed(each)) if isinstance(each, dict) else each[0] - 1 for each in containers]


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


def _advise_on(word: str) -> str:
    if word.lstrip("-") in ("NaN", "Infinity"):
        return "store null or text"
    return "write numbers like -1.5e3" if word[0] in "-+.0123456789" else "write text in double quotes"
