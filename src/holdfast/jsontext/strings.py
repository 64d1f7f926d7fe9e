"""The strings of a JSON text where they stand: each with its place as a JSON pointer, escapes undone.

The text must be valid JSON. Nothing is parsed into values, so that whatever is not asked for keeps its bytes.
"""

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from holdfast.jsontext.parse import parse_value

Text = bytes | memoryview

_TOKEN = re.compile(rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"|[{}\[\]:,]|-?[0-9][0-9.eE+-]*+', re.DOTALL)
_ESCAPE = re.compile(rb"\\u([0-9a-fA-F]{4})|\\(.)|[^\\]+", re.DOTALL)
_SHORT = {
    b'"': b'"',
    b"\\": b"\\",
    b"/": b"/",
    b"b": b"\b",
    b"f": b"\f",
    b"n": b"\n",
    b"r": b"\r",
    b"t": b"\t",
}
_QUOTE, _OPEN_OBJECT, _OPEN_LIST, _COLON, _COMMA = b'"{[:,'
_CLOSING = frozenset(b"}]")


@dataclass(slots=True)
class Cursor:
    """A string or number of the text: from `start` to `end`, quotes included; `is_name` of a member or not.

    One cursor goes over the whole text: what it says holds until the next step.
    """

    text: Text
    start: int = 0
    end: int = 0
    is_name: bool = False
    # The way down to it: the text of a name, or the number in a list, for each level.
    trail: list[bytes | int] = field(default_factory=list)

    @property
    def raw(self) -> bytes:
        """Return its bytes as they stand."""
        return bytes(self.text[self.start : self.end])

    @property
    def name(self) -> bytes:
        """Return the text of the member's name that it is the value of; nothing in a list."""
        step = self.trail[-1] if self.trail else 0
        return step if isinstance(step, bytes) and not self.is_name else b""

    def rename(self, name: bytes) -> None:
        """Say that the member is to be called otherwise, from here on."""
        self.trail[-1] = name

    def pointer(self) -> str:
        """Return its place as a JSON pointer (RFC 6901)."""
        steps = (parse_value(step) if isinstance(step, bytes) else str(step) for step in self.trail)
        return "".join("/" + step.replace("~", "~0").replace("/", "~1") for step in steps)


def walk_strings(text: Text) -> Iterator[Cursor]:
    """Yield a cursor at every string and number of a JSON text, in their order.

    >>> [(each.pointer(), each.raw) for each in walk_strings(b'{"a": ["x", 7]}')]
    [('/a', b'"a"'), ('/a/0', b'"x"'), ('/a/1', b'7')]
    """
    cursor = Cursor(text)
    trail = cursor.trail
    is_name_next = False
    for token in _TOKEN.finditer(text):
        cursor.start, cursor.end = token.span()
        first = text[cursor.start]
        if first == _OPEN_OBJECT:
            trail.append(b'""')
            is_name_next = True
        elif first == _OPEN_LIST:
            trail.append(0)
            is_name_next = False
        elif first in _CLOSING:
            trail.pop()
        elif first == _COLON:
            is_name_next = False
        elif first == _COMMA:
            step = trail[-1]
            is_name_next = not isinstance(step, int)
            if isinstance(step, int):
                trail[-1] = step + 1
        else:
            cursor.is_name = is_name_next
            if is_name_next:
                trail[-1] = token.group()
            yield cursor


@dataclass(frozen=True, slots=True)
class Unescaped:
    """The content of a JSON string, and where each of its bytes stands in the text of the string."""

    content: bytes
    _places: list[int] | None

    def span_in_text(self, start: int, end: int) -> tuple[int, int]:
        """Return where a part of the content begins and ends in the string's text, quotes counted."""
        if self._places is None:
            return start + 1, end + 1
        return self._places[start], self._places[end]


def unescape(raw: bytes) -> Unescaped:
    r"""Return what a JSON string says, quotes and escapes undone.

    >>> unescape(rb'"a\u0062\/"').content
    b'ab/'
    """
    if b"\\" not in raw:
        return Unescaped(raw[1:-1], None)
    content = bytearray()
    places: list[int] = []
    for start, end, added in _pieces(raw):
        is_plain = end - start == len(added) and not raw.startswith(b"\\", start)
        places += range(start, end) if is_plain else [start] * len(added)
        content += added
    places.append(len(raw) - 1)
    return Unescaped(bytes(content), places)


def _pieces(raw: bytes) -> Iterator[tuple[int, int, bytes]]:
    """Yield where each stretch or escape of a string begins and ends, and what it says."""
    high, began = 0, 0  # the first half of a character that two escapes make, and where it stands
    for piece in _ESCAPE.finditer(raw, 1, len(raw) - 1):
        code, short = piece.groups()
        start, end = piece.span()
        point = int(code, 16) if code else 0
        if high and 0xDC00 <= point < 0xE000:
            yield began, end, chr(0x10000 + (high - 0xD800) * 0x400 + point - 0xDC00).encode()
            high = 0
        elif 0xD800 <= point < 0xDC00:
            high, began = point, start
        elif code:
            yield start, end, chr(point).encode("utf-8", "surrogatepass")
        else:
            yield start, end, _SHORT.get(short, short) if short else piece.group()
