"""JSON texts taken apart: members and items as they were written, and the canonical form of all of them.

To read a large text whole takes up to twenty-four times its size in memory. So it is cut into runs of members
or items, each of which is judged on its own. Where to cut is only guessed from brackets, quotes and commas.
A wrong guess does no harm: what stands between two commas and is read without a flaw is whole members.
"""

import re
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from hashlib import sha256
from itertools import groupby
from typing import Any

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.parse import find_end, judge, parse_value, read, read_parts

LARGE_BYTES = 2 * 1024**2
"""A text of this size or more is cut into runs."""

_RUN_BYTES = 512 * 1024
# How much of an object with many small members is sorted at once, and which share of its names shows how they
# are spread.
_SORTED_BYTES = 6 * 1024**2
_SAMPLED = 500
# Each level is looked through once more; what lies deeper is read whole.
_DEEPEST = 8
_CLOSERS = {b"{": b"}", b"[": b"]"}

_SPACE = rb"[ \t\n\r]*+"
_STRING = rb'"(?:[^"\\]++|\\.)*+"'
_skip_space = re.compile(_SPACE).match
_match_name = re.compile(rb"%b(%b)%b:%b" % (_SPACE, _STRING, _SPACE, _SPACE), re.DOTALL).match
_SHORT_STRING = rb'"[^"\\]{0,999}+(?:\\.[^"\\]{0,99}+){0,9}"'
_BETWEEN = rb'%b|[^"\[\]{}]++' % _SHORT_STRING
# A small object or array with nothing nested in it, or with one level more.
_FLAT = rb"[\[{](?:%b){0,64}[\]}]" % _BETWEEN
_SMALL = rb"[\[{](?:%b|%b){0,64}[\]}]" % (_BETWEEN, _FLAT)
# Up to a bracket, a long string or a limit. The groups are the last comma on the way, and the bracket.
_match_tokens = re.compile(rb'(?:(,)|%b|[^"\[\]{},]++|%b){0,64}([\[\]{}]?)' % (_SHORT_STRING, _SMALL)).match
_match_to_comma = re.compile(rb'[^"\[\]{},]*+(,?)([\[\]{}]?)').match
_match_string = re.compile(rb"%b()()" % _STRING, re.DOTALL).match

Update = Callable[[bytes | memoryview], object]
Span = tuple[int, int]
Member = tuple[str, int, int]


class _NotSure(Exception):
    """The text is not to be cut; perhaps it is not JSON."""


@dataclass(frozen=True, slots=True)
class _Run:
    """Some members or items, with the commas between them; `is_plain` if orjson writes them as they are."""

    start: int
    end: int
    is_plain: bool


@dataclass(slots=True)
class _Large:
    """A large value: a string, or an object or array with what it is made of, in order."""

    name: str | None
    start: int
    end: int
    children: "list[_Run | _Large]" = field(default_factory=list)


class Document:
    """A JSON object, with each member's text exactly as it was written.

    `value` is there to look into; unless it `is_exact`, it is never encoded again, since a number in it may
    be an approximation. Of a large object only those members are read that are asked for.
    """

    def __init__(self, text: bytes) -> None:
        """Read `text`. Raises InvalidCheckpoint with the place and the byte."""
        self._text = text
        self._root = _cut_apart(text, b"{")
        self.is_exact = False
        self.value: Mapping[str, Any]
        if self._root:
            self._spans = _by_name(_find_in(text, self._root))
            self.value = _Values(text, self._spans)
        else:
            self.value, members, self.is_exact = _read_members(text)
            self._spans = _by_name(members)
        self.members: Mapping[str, bytes] = _Members(text, self._spans)

    def view(self, name: str) -> memoryview:
        """Return the text of a member where it stands, without a copy of it."""
        start, end = self._spans[name]
        return memoryview(self._text)[start:end]

    def outline(self, whole: Collection[str] = ()) -> Mapping[str, Any]:
        """Return the value with an empty one of its kind for each large value.

        Members whose names are in `whole` are read however large they are, down to the third level.
        """
        return _outline(self._text, self._root, whole, 3) if self._root else self.value

    def sha256_without(self, name: str) -> str:
        """Return the digest of its canonical form without the member called `name`."""
        if self._root:
            digest = sha256()
            _write(self._text, self._root, digest.update, leaving_out=name)
            return digest.hexdigest()
        if self.is_exact:
            return sha256_hex(write_sorted({each: self.value[each] for each in self.value if each != name}))
        return canonical_sha256(join_members({each: self.view(each) for each in self._spans if each != name}))


class _Spans(Mapping[str, Any]):
    """What a text holds at each of some places, by name."""

    def __init__(self, text: bytes, spans: Mapping[str, Span]) -> None:
        self._text = text
        self._spans = spans

    def __contains__(self, name: object) -> bool:
        return name in self._spans

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)

    def __getitem__(self, name: str) -> Any:
        raise NotImplementedError


class _Members(_Spans):
    """The texts of the members of an object, each cut out when it is asked for."""

    def __getitem__(self, name: str) -> bytes:
        start, end = self._spans[name]
        return self._text[start:end]


class _Values(_Spans):
    """The values of the members of a large object, each read when it is asked for."""

    def __getitem__(self, name: str) -> Any:
        start, end = self._spans[name]
        return parse_value(self._text[start:end])


def parse_document(text: bytes) -> Document:
    """Return the JSON object that `text` holds; raises InvalidCheckpoint with the place and the byte."""
    return Document(text)


def check_value(text: bytes, place: str = "") -> None:
    """Raise InvalidCheckpoint, with the place and the byte, unless `text` holds one JSON value."""
    if not _cut_apart(text, text[:1]):
        parse_value(text, place)


def find_members(
    text: bytes, is_wanted: Callable[[str, int], bool], start: int = 0, end: int | None = None
) -> list[tuple[str, int, int]]:
    """Return the members of a JSON object that are wanted by their name and size, and where their text is.

    >>> find_members(b'{"a": 1, "b": [2, 3]}', lambda name, size_bytes: size_bytes > 1)
    [('b', 14, 20)]

    With `start` and `end` the object is that part of the text. Raises like `parse_document`.
    """
    if root := _cut_apart(text, b"{", start, end):
        members: Iterable[Member] = _find_in(text, root)
        offset = 0
    else:
        members, offset = _read_members(text[start:end])[1], start
    return [
        (name, first + offset, last + offset)
        for name, first, last in members
        if is_wanted(name, last - first)
    ]


def split_items(text: bytes) -> list[bytes]:
    """Return the items of the JSON array that `text` holds, each as its text was written.

    >>> split_items(b'[1.10, {"a": 1}]')
    [b'1.10', b'{"a": 1}']

    Raises InvalidCheckpoint with the place and the byte.
    """
    judge(text)
    if not text.startswith(b"[", _after_space(text, 0)):
        raise InvalidCheckpoint("", "the outermost value must be a JSON array")
    return [text[start:end] for _, _, start, end in read_parts(text)[0]]


def join_members(members: Mapping[str, bytes | memoryview]) -> bytes:
    """Return one JSON object made of the texts of its members.

    >>> join_members({"a": b"1.10", "b": b"[]"})
    b'{"a":1.10,"b":[]}'
    """
    pieces: list[bytes | memoryview] = []
    for name, text in members.items():
        pieces += (b",", orjson.dumps(name), b":", text)
    return b"".join((b"{", *pieces[1:], b"}"))


def canonical(text: bytes) -> bytes:
    """Return valid JSON `text` in the one form that all its spellings share, but for the numbers.

    Names are sorted by code point, white space is gone, escapes are the fewest, numbers stay as written.

    >>> canonical(b'{"b": 1.10, "a": "\\\\u0041"}')
    b'{"a":"A","b":1.10}'
    """
    value, is_plain = judge(text)
    return write_sorted(value if is_plain else _read_exact(text))


def canonical_sha256(text: bytes) -> str:
    """Return the digest of the canonical form of valid JSON `text`."""
    if root := _cut_apart(text, text[:1]):
        digest = sha256()
        _write(text, root, digest.update)
        return digest.hexdigest()
    return sha256_hex(canonical(text))


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 digest of `content` in lower-case hexadecimal."""
    return sha256(content).hexdigest()


def _read_exact(text: bytes) -> Any:
    """Return the value of a text so that orjson writes every digit as it stands there."""
    return read(text, integer=orjson.Fragment, real=orjson.Fragment)


def write_sorted(value: object) -> bytes:
    """Return the canonical form of a value that orjson writes exactly."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


def _by_name(members: Iterable[Member]) -> dict[str, Span]:
    return {name: (start, end) for name, start, end in members}


def _read_members(text: bytes) -> tuple[dict[str, Any], Iterable[Member], bool]:
    """Return the object that a text holds, where each member's text is, and whether it is exact.

    Raises InvalidCheckpoint.
    """
    if (plain := _read_plain(text)) is not None:
        return *plain, True
    judge(text)
    if not text.startswith(b"{", _after_space(text, 0)):
        raise InvalidCheckpoint("", "the outermost value must be a JSON object")
    parts, is_exact = read_parts(text)
    value = {name or "": part for name, part, _, _ in parts}
    return value, ((name or "", start, end) for name, _, start, end in parts), is_exact


def _read_plain(text: bytes) -> tuple[dict[str, Any], list[Member]] | None:
    """Return the object that a text holds, and its members, if orjson writes it just as it is; else None."""
    try:
        value = orjson.loads(text)
        members = _follow(text, value) if isinstance(value, dict) else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return None if members is None else (value, members)


def _follow(text: bytes, value: dict[str, Any]) -> list[Member] | None:
    """Return where each member's text is; None unless orjson writes all of them just as they stand there."""
    members: list[Member] = []
    position, separator = 0, b"{"
    for name, part in value.items():
        head = b"%b%b:" % (separator, orjson.dumps(name))
        start = position + len(head)
        end = find_end(part, text, start) if text.startswith(head, position) else None
        if end is None:
            return None
        members.append((name, start, end))
        position, separator = end, b","
    return members if text[position:] == (b"}" if members else b"{}") else None


_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1, b"": 0}


def _after_space(text: bytes, position: int) -> int:
    match = _skip_space(text, position)
    return match.end() if match else position


def _before_space(text: bytes, position: int) -> int:
    while text[position - 1] in b" \t\n\r":
        position -= 1
    return position


def _cut_apart(text: bytes, opener: bytes, start: int = 0, end: int | None = None) -> _Large | None:
    """Return a large text cut into runs; None if it begins otherwise, is small, or is not sure to be JSON."""
    end = len(text) if end is None else end
    if end - start < LARGE_BYTES or not text.startswith(opener, start) or opener not in _CLOSERS:
        return None
    try:
        return _cut(text, _Large(None, start, _before_space(text, end)), 0)
    except (_NotSure, InvalidCheckpoint):
        return None


def _cut(text: bytes, node: _Large, depth: int) -> _Large:
    """Judge what an object or array is made of. Raises _NotSure, InvalidCheckpoint."""
    opener = text[node.start : node.start + 1]
    if not text.startswith(_CLOSERS[opener], node.end - 1):
        raise _NotSure
    names: list[str] = []
    for start, end, is_large in _find_runs(text, node.start, node.end):
        large = _cut_item(text, start, end, depth, is_member=opener == b"{") if is_large else None
        if large is None:
            value, run = _judge_run(text, start, end, opener, depth)
            names += value if opener == b"{" else ()
            node.children.append(run)
            continue
        names += () if large.name is None else (large.name,)
        node.children.append(large)
    if len(set(names)) < len(names):
        raise _NotSure
    return node


def _judge_run(text: bytes, start: int, end: int, opener: bytes, depth: int) -> tuple[Any, _Run]:
    wrapped = _wrap(text, start, end, opener)
    value, is_plain = judge(wrapped, levels_around=depth)
    if not is_plain:
        value = read(wrapped)
    if not value:
        raise _NotSure  # nothing stands between two commas, or all of it is white space
    return value, _Run(start, end, is_plain)


def _cut_item(text: bytes, start: int, end: int, depth: int, *, is_member: bool) -> _Large | None:
    """Return a member or item that is a large string, object or array; None if it is no such thing."""
    name, value_start = None, _after_space(text, start)
    if is_member:
        match = _match_name(text, start, end)
        if match is None:
            raise _NotSure
        name, value_start = parse_value(match[1]), match.end()
    child = _Large(name, value_start, _before_space(text, end))
    opener = text[value_start : value_start + 1]
    if child.end - child.start <= _RUN_BYTES or depth == _DEEPEST:
        return None
    if opener in _CLOSERS:
        return _cut(text, child, depth + 1)
    return child if opener == b'"' and _is_string(memoryview(text)[child.start : child.end]) else None


def _is_string(text: memoryview) -> bool:
    try:
        return isinstance(orjson.loads(text), str)
    except orjson.JSONDecodeError:
        return False


def _find_runs(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield runs of members or items between two brackets, and whether each is a single large one."""
    begin = item = position = start + 1
    level, last = 0, end - 1
    while position < last:
        is_large = not level and position - item > _RUN_BYTES
        match = (_match_to_comma if is_large else _match_tokens)(text, position, last)
        if match is None or match.end() == position:
            match = _match_string(text, position, last)
        if match is None:
            raise _NotSure
        comma = match.start(1)
        if match[1] and not level:
            if is_large and item > begin:
                yield begin, item - 1, False
            if is_large or comma - begin > _RUN_BYTES:
                yield item if is_large else begin, comma, is_large
                begin = comma + 1
            item = comma + 1
        level += _LEVELS[match[2]]
        position = match.end()
    is_large = last - item > _RUN_BYTES
    if is_large and item > begin:
        yield begin, item - 1, False
    yield item if is_large else begin, last, is_large


def _wrap(text: bytes, start: int, end: int, opener: bytes) -> bytes:
    return b"".join((opener, memoryview(text)[start:end], _CLOSERS[opener]))


def _find_in(text: bytes, node: _Large) -> Iterator[Member]:
    """Yield each member of a large object, and where its text is."""
    for child in node.children:
        if isinstance(child, _Large):
            yield child.name or "", child.start, child.end
        else:
            offset = child.start - 1
            for name, start, end in _read_members(_wrap(text, child.start, child.end, b"{"))[1]:
                yield name, start + offset, end + offset


def _outline(text: bytes, node: _Large, whole: Collection[str], levels: int) -> Any:
    opener = text[node.start : node.start + 1]
    if node.name in whole:
        return parse_value(text[node.start : node.end])
    if opener != b"{" or not levels:
        return {b"{": {}, b"[": []}.get(opener, "")
    value: dict[str, Any] = {}
    for child in node.children:
        if isinstance(child, _Large):
            value[child.name or ""] = _outline(text, child, whole, levels - 1)
        else:
            value |= parse_value(_wrap(text, child.start, child.end, b"{"))
    return value


def _write(text: bytes, node: _Large, update: Update, leaving_out: str | None = None) -> None:
    """Hand the canonical form of a large value to `update`, a piece at a time."""
    opener = text[node.start : node.start + 1]
    if opener == b'"':
        update(orjson.dumps(orjson.loads(memoryview(text)[node.start : node.end])))
        return
    separator = opener
    for piece in _sort_members(text, node, leaving_out) if opener == b"{" else _read_items(text, node):
        update(separator)
        if not isinstance(piece, _Large):
            update(memoryview(write_sorted(piece))[1:-1])
        else:
            if piece.name is not None:
                update(orjson.dumps(piece.name) + b":")
            _write(text, piece, update)
        separator = b","
    update(_CLOSERS[opener])


def _read_items(text: bytes, node: _Large) -> Iterator[Any]:
    """Yield what an array is made of: lists of small items, and large ones."""
    for child in node.children:
        yield child if isinstance(child, _Large) else _read_run(text, child, b"[")


def _sort_members(text: bytes, node: _Large, leaving_out: str | None) -> Iterator[Any]:
    """Yield what an object is made of, ordered by name: objects of small members, and large ones."""
    large = {child.name or "": child for child in node.children if isinstance(child, _Large)}
    runs = [child for child in node.children if isinstance(child, _Run)]
    for names in _ranges(text, runs):
        found = {
            name: value
            for run in runs
            for name, value in _read_run(text, run, b"{").items()
            if name in names and name != leaving_out
        }
        found |= {name: child for name, child in large.items() if name in names and name != leaving_out}
        for is_large, group in groupby(sorted(found), large.__contains__):
            if is_large:
                yield from (large[name] for name in group)
            else:
                yield {name: found[name] for name in group}


@dataclass(frozen=True, slots=True)
class _Names:
    """The names from one on, up to another."""

    first: str
    end: str | None

    def __contains__(self, name: str) -> bool:
        return name >= self.first and (self.end is None or name < self.end)


def _ranges(text: bytes, runs: list[_Run]) -> Iterator[_Names]:
    """Yield ranges of names, in order, so that the small members of each take little memory together."""
    count = -(-sum(run.end - run.start for run in runs) // _SORTED_BYTES)
    bounds = [""]
    if count > 1:
        sample = sorted(name for run in runs for name in list(_read_run(text, run, b"{"))[::_SAMPLED])
        bounds += sorted({sample[len(sample) * number // count] for number in range(1, count)} - {""})
    yield from map(_Names, bounds, [*bounds[1:], None])


def _read_run(text: bytes, run: _Run, opener: bytes) -> Any:
    """Return a run as an object or array that orjson writes with every digit as it stands in the text."""
    wrapped = _wrap(text, run.start, run.end, opener)
    return orjson.loads(wrapped) if run.is_plain else _read_exact(wrapped)
