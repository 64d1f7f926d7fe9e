"""Large JSON texts, a piece at a time: to read one whole takes up to twenty-four times its size in memory.

A text is taken apart into runs of members or items, each of which orjson or the scanner judges on its own.
Where to cut is only guessed from brackets, quotes and commas. A wrong guess does no harm: JSON is read from
left to right, so that what begins where a member may begin, and is read without a flaw, is whole members.
"""

import re
from array import array
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from typing import Any

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.python_values import LISTS_AROUND, wrap
from holdfast.jsontext.scan import scan_value

LARGE_BYTES = 2 * 1024**2
"""A text of this size or more is worth taking apart."""

_PIECE_BYTES = 512 * 1024
_BUCKETS = 64

_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_skip_space = re.compile(_SPACE).match
_match_name = re.compile(rb"%b(%b)%b:%b" % (_SPACE, _STRING, _SPACE, _SPACE), re.DOTALL).match
# Up to a bracket, a long string or a limit. The groups are the last comma on the way, and the bracket.
_match_run = re.compile(rb'(?:(,)|"[^"\\]{0,999}+"|[^"\[\]{},]++){0,64}([\[\]{}]?)').match
_match_tail = re.compile(rb'[^"\[\]{},]*+(,?)([\[\]{}]?)').match
_match_string = re.compile(rb"%b()()" % _STRING, re.DOTALL).match
_COMMA, _BRACKET = 1, 2
# What stands between two items, by what the first of them begins with.
_BETWEEN_ITEMS = {b"{": b"},{", b"[": b"],[", b'"': b'","'}
_BETWEEN_MEMBERS = {b"{": b'},"', b"[": b'],"', b'"': b'","'}
_MOST_WRONG_GUESSES = 3
# Each level looks ahead once more, and has a few frames of the stack; what is deeper is read whole.
_DEEPEST = 8


class _NotSure(Exception):
    """The text is not to be taken apart; perhaps it is not JSON."""


@dataclass(frozen=True, slots=True)
class Run:
    """Some members or items, with the commas between them; `is_plain` if orjson writes them as they are."""

    start: int
    end: int
    is_plain: bool


@dataclass(slots=True)
class Large:
    """A large value: a string, or an object or array with what it is made of."""

    name: str | None
    start: int
    end: int = 0
    children: "list[Run | Large]" = field(default_factory=list)

    @property
    def is_plain(self) -> bool:
        """Whether orjson reads every number in it exactly."""
        return all(child.is_plain for child in self.children)


def take_apart(text: bytes, start: int = 0, end: int | None = None) -> Large | None:
    """Return the object or array that a large JSON text holds, or the part of it from `start` to `end`.

    None unless it is found to be valid.
    """
    try:
        return _Walk(text).whole(start, len(text) if end is None else end)
    except (_NotSure, InvalidCheckpoint):
        return None


def wrap_run(text: bytes, run: Run, opener: bytes) -> bytes:
    """Return a run as an object or array of its own, by the bracket that opens it."""
    return b"".join((opener, memoryview(text)[run.start : run.end], b"}" if opener == b"{" else b"]"))


class _Names:
    """Tells whether the names of one object are all different, for a few bytes each."""

    def __init__(self) -> None:
        self._buckets = [array("q") for _ in range(_BUCKETS)]

    def add(self, names: Iterable[str]) -> None:
        for name in names:
            digest = hash(name)
            self._buckets[digest % _BUCKETS].append(digest)

    def are_distinct(self) -> bool:
        return all(len(set(bucket)) == len(bucket) for bucket in self._buckets)


class _Walk:
    """One way through a text, from its beginning to its end. Raises _NotSure or InvalidCheckpoint."""

    def __init__(self, text: bytes) -> None:
        self._text = text

    def whole(self, start: int, end: int) -> Large:
        text = self._text
        root = self._container(None, _after(_skip_space(text, start)), 1)
        if _after(_skip_space(text, root.end)) < end or root.end > end:
            raise _NotSure
        return root

    def _container(self, name: str | None, start: int, depth: int) -> Large:
        """Return the object or array that begins at `start`."""
        opener = self._text[start : start + 1]
        if opener not in (b"{", b"[") or depth > _DEEPEST:
            raise _NotSure
        return _Container(self._text, Large(name, start), opener, depth, self._container).read()


class _Container:
    """An object or array that is being read: its items from `begin` on are not judged yet."""

    def __init__(
        self,
        text: bytes,
        node: Large,
        opener: bytes,
        depth: int,
        descend: Callable[[str | None, int, int], Large],
    ) -> None:
        self._text = text
        self._node = node
        self._opener = opener
        self._closer = b"}" if opener == b"{" else b"]"
        self._depth = depth
        self._descend = descend
        self._names = _Names()
        # Where what is not judged yet begins, and where the item that is being read does.
        self._begin = self._item = node.start + 1
        self._wrong_guesses = 0

    def read(self) -> Large:
        position: int | None = self._begin
        while position is not None:
            position = self._step(position)
        if not self._names.are_distinct():
            raise _NotSure
        return self._node

    def _step(self, position: int) -> int | None:
        """Read on from `position`; return where to go on, None at the end."""
        if position == self._begin and self._wrong_guesses < _MOST_WRONG_GUESSES:
            if comma := self._guess(position):
                self._begin = self._item = comma + 1
                return comma + 1
            self._wrong_guesses += 1
        # After a large item its comma alone is looked for, so that nothing else is taken for a part of it.
        is_large = position - self._item > _PIECE_BYTES
        match = _read_on(self._text, position, _match_tail if is_large else _match_run)
        if match[_COMMA]:
            self._pass_comma(match.start(_COMMA), is_large=is_large)
        bracket = match[_BRACKET]
        if bracket in (b"{", b"["):
            return self._nested(match.end())
        if bracket and bracket != self._closer:
            raise _NotSure
        if bracket:
            self._close(match.end() - 1, is_large=is_large and not match[_COMMA])
            return None
        return match.end()

    def _guess(self, start: int) -> int | None:
        """Return a comma after many items, if all that is before it proves to be just that."""
        name_end = _after(_match_name(self._text, start)) if self._opener == b"{" else start
        between = _BETWEEN_MEMBERS if self._opener == b"{" else _BETWEEN_ITEMS
        separator = between.get(self._text[name_end : name_end + 1], b",")
        found = self._text.rfind(separator, start, start + _PIECE_BYTES)
        comma = found + separator.index(b",")
        return comma if found > 0 and self._add_run(start, comma) else None

    def _pass_comma(self, comma: int, *, is_large: bool) -> None:
        if is_large:
            self._judge_large(comma)
        elif comma - self._begin > _PIECE_BYTES:
            self._judge(self._begin, comma)
            self._begin = comma + 1
        self._item = comma + 1

    def _judge_large(self, end: int) -> None:
        """Judge the item that has come to its end apart from those before it."""
        self._judge_before()
        name, start = self._head()
        if self._text[start : start + 1] == b'"':
            _judge_string(memoryview(self._text)[start:end])
            self._add(Large(name, start, end))
        else:
            self._judge(self._item, end)
        self._begin = end + 1

    def _judge_before(self) -> None:
        if self._item > self._begin:
            self._judge(self._begin, self._item - 1)
        self._begin = self._item

    def _head(self) -> tuple[str | None, int]:
        """Return the name of the item that is being read, if it is a member, and where its value begins."""
        if self._opener == b"[":
            return None, _after(_skip_space(self._text, self._item))
        match = _match_name(self._text, self._item)
        if match is None:
            raise _NotSure
        (name,) = scan_value(b"[%b]" % match[1])
        return name, match.end()

    def _nested(self, position: int) -> int | None:
        """Read what is inside of a bracket that ends at `position`; apart from the rest if it is large."""
        end = _find_close(self._text, position)
        if end is not None:
            return end
        self._judge_before()
        name, start = self._head()
        if start != position - 1:
            raise _NotSure
        child = self._descend(name, start, self._depth + 1)
        self._add(child)
        end = _after(_skip_space(self._text, child.end))
        self._begin = self._item = end + 1
        delimiter = self._text[end : end + 1]
        if delimiter == self._closer:
            self._node.end = end + 1
            return None
        if delimiter != b",":
            raise _NotSure
        return end + 1

    def _close(self, end: int, *, is_large: bool) -> None:
        if is_large:
            self._judge_large(end)
        else:
            self._judge(self._begin, end)
        self._node.end = end + 1

    def _add(self, child: Large) -> None:
        if child.name is not None:
            self._names.add((child.name,))
        self._node.children.append(child)

    def _judge(self, start: int, end: int) -> None:
        """Add a run, if that is what is there. Raises InvalidCheckpoint, _NotSure."""
        if self._add_run(start, end):
            return
        run = Run(start, end, is_plain=False)
        around = self._depth - 1
        value = scan_value(b"[" * around + wrap_run(self._text, run, self._opener) + b"]" * around)
        for _ in range(around):
            (value,) = value
        self._take(run, value)

    def _add_run(self, start: int, end: int) -> bool:
        """Add a run if it is a plain one; tell whether it is."""
        run = Run(start, end, is_plain=True)
        value = _load_plain(wrap_run(self._text, run, self._opener), LISTS_AROUND + self._depth - 1)
        if value is None:
            return False
        self._take(run, value)
        return True

    def _take(self, run: Run, value: Any) -> None:
        if not value:
            raise _NotSure  # only a whole container may be empty, and that is not large
        if self._opener == b"{":
            self._names.add(value)
        self._node.children.append(run)


_Match = Callable[[bytes, int], re.Match[bytes] | None]


def _read_on(text: bytes, position: int, match_most: _Match = _match_run) -> re.Match[bytes]:
    """Match as much as can be matched at once, up to a bracket."""
    match = _match_before(len(text), text, position, match_most)
    if match is None:
        raise _NotSure
    return match


def _match_before(
    end: int, text: bytes, position: int, match_most: _Match = _match_run
) -> re.Match[bytes] | None:
    """Match like `_read_on`; None if a string does not end before `end`."""
    match = match_most(text, position)
    return _match_string(text, position, end) if match is None or match.end() == position else match


def _find_close(text: bytes, position: int) -> int | None:
    """Return where the container ends whose inside begins at `position`; None if it is large."""
    level, limit = 1, position + _PIECE_BYTES
    while position < limit:
        match = _match_before(limit, text, position)
        if match is None:
            return None
        position, bracket = match.end(), match[_BRACKET]
        if bracket:
            level += 1 if bracket in (b"{", b"[") else -1
            if not level:
                return position if position <= limit else None
    return None


def _load_plain(text: bytes, lists_around: int) -> Any:
    """Return the object or array if orjson, with so many lists around it, writes it as it was; else None."""
    try:
        value = orjson.loads(text)
        written = orjson.dumps(wrap(value, lists_around))[lists_around:-lists_around]
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return value if written == text else None


def _judge_string(text: memoryview) -> None:
    """Raise InvalidCheckpoint unless `text` is a JSON string."""
    try:
        if _is_same(orjson.dumps(orjson.loads(text)), text):
            return
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        pass
    scan_value(bytes(text))


def _is_same(written: bytes, text: memoryview) -> bool:
    """Compare piece by piece: a view is compared byte by byte, and a copy of all would be large."""
    return len(written) == len(text) and all(
        written[start : start + _PIECE_BYTES] == bytes(text[start : start + _PIECE_BYTES])
        for start in range(0, len(text), _PIECE_BYTES)
    )


def _after(match: re.Match[bytes] | None) -> int:
    return match.end() if match else 0
