"""Large JSON texts, a run of members or items at a time: judged, outlined, and written in canonical form.

To read a large text whole takes up to twenty-four times its size in memory. So it is cut into runs, each of
which is judged on its own. Where to cut is only guessed from brackets, quotes and commas. A wrong guess does
no harm: what stands between two commas and is read without a flaw is whole members.
"""

import json
import re
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from itertools import groupby
from typing import Any, NamedTuple

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.parse import judge, parse_value, read

Update = Callable[[bytes | memoryview], object]

LARGE_BYTES = 2 * 1024**2
"""A text of this size or more is cut into runs."""

_RUN_BYTES = 512 * 1024
# How much of an object with many small members is sorted at once, and which share of its names shows how they
# are spread.
_SORTED_BYTES = 6 * 1024**2
_SAMPLED = 500
_PIECE_CHARACTERS = 64 * 1024
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
_TOKENS = rb'(?:(,)|%b|[^"\[\]{},]++|%b){0,64}([\[\]{}]?)' % (_SHORT_STRING, _SMALL)
_match_to_comma = re.compile(rb'[^"\[\]{},]*+(,?)([\[\]{}]?)').match
_match_string = re.compile(rb"%b()()" % _STRING, re.DOTALL).match


class _NotSure(Exception):
    """The text is not to be cut; perhaps it is not JSON."""


class Slice(NamedTuple):
    """Some members or items, with the commas between them; `is_plain` if orjson writes them as they are."""

    start: int
    end: int
    is_plain: bool


@dataclass(slots=True)
class Large:
    """A large value: a string, or an object or array with what it is made of, in order."""

    name: str | None
    start: int
    end: int
    children: "list[Slice | Large]" = field(default_factory=list)


def read_exact(text: bytes) -> Any:
    """Return the value of a text so that orjson writes every digit as it stands there."""
    return read(text, integer=orjson.Fragment, real=orjson.Fragment)


def write_sorted(value: object) -> bytes:
    """Return the canonical form of a value that orjson writes exactly."""
    return orjson.dumps(value, option=orjson.OPT_SORT_KEYS)


_LEVELS = {b"{": 1, b"[": 1, b"}": -1, b"]": -1, b"": 0}


def after_space(text: bytes, position: int) -> int:
    """Return where the white space ends that begins at `position`."""
    match = _skip_space(text, position)
    return match.end() if match else position


def _before_space(text: bytes, position: int) -> int:
    while text[position - 1] in b" \t\n\r":
        position -= 1
    return position


def cut_apart(text: bytes, opener: bytes, start: int = 0, end: int | None = None) -> Large | None:
    """Return a large text cut into runs; None if it begins otherwise, is small, or is not sure to be JSON."""
    end = len(text) if end is None else end
    if end - start < LARGE_BYTES or not text.startswith(opener, start) or opener not in _CLOSERS:
        return None
    try:
        return _cut(text, Large(None, start, _before_space(text, end)), 0)
    except (_NotSure, InvalidCheckpoint):
        return None


def _cut(text: bytes, node: Large, depth: int) -> Large:
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


def _judge_run(text: bytes, start: int, end: int, opener: bytes, depth: int) -> tuple[Any, Slice]:
    wrapped = wrap_run(text, start, end, opener)
    value, is_plain = judge(wrapped, levels_around=depth)
    if not is_plain:
        value = read(wrapped)
    if not value:
        raise _NotSure  # nothing stands between two commas, or all of it is white space
    return value, Slice(start, end, is_plain)


def _cut_item(text: bytes, start: int, end: int, depth: int, *, is_member: bool) -> Large | None:
    """Return a member or item that is a large string, object or array; None if it is no such thing."""
    name, value_start = None, after_space(text, start)
    if is_member:
        match = _match_name(text, start, end)
        if match is None:
            raise _NotSure
        name, value_start = parse_value(match[1]), match.end()
    child = Large(name, value_start, _before_space(text, end))
    opener = text[value_start : value_start + 1]
    if child.end - child.start <= _RUN_BYTES or depth == _DEEPEST:
        return None
    if opener in _CLOSERS:
        return _cut(text, child, depth + 1)
    return child if opener == b'"' and _is_string(memoryview(text)[child.start : child.end]) else None


def _is_string(text: memoryview) -> bool:
    try:
        _read_string(text)
    except ValueError:
        return False
    return True


def _read_string(text: memoryview) -> str:
    """Return the large string of a text that begins with a quote. Raises ValueError if it is none.

    orjson would take thirteen times its size in memory.
    """
    string: str = json.loads(str(text, "utf-8"))
    string.encode()  # raises for half a character
    return string


def _find_runs(text: bytes, start: int, end: int) -> Iterator[tuple[int, int, bool]]:
    """Yield runs of members or items between two brackets, and whether each is a single large one."""
    begin = item = position = start + 1
    level, last = 0, end - 1
    match_tokens = re.compile(_TOKENS).match  # compiled by the first large text: it takes milliseconds
    while position < last:
        is_large = not level and position - item > _RUN_BYTES
        match = (_match_to_comma if is_large else match_tokens)(text, position, last)
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


def wrap_run(text: bytes, start: int, end: int, opener: bytes) -> bytes:
    """Return a run as an object or array of its own, by the bracket that opens it."""
    return b"".join((opener, memoryview(text)[start:end], _CLOSERS[opener]))


def outline(text: bytes, node: Large, whole: Collection[str], levels: int) -> Any:
    """Return a large value with empty ones for the large values in it, down to so many levels.

    Members whose names are in `whole` are read however large they are.
    """
    opener = text[node.start : node.start + 1]
    if node.name in whole:
        return parse_value(text[node.start : node.end])
    if opener != b"{" or not levels:
        return {b"{": {}, b"[": []}.get(opener, "")
    value: dict[str, Any] = {}
    for child in node.children:
        if isinstance(child, Large):
            value[child.name or ""] = outline(text, child, whole, levels - 1)
        else:
            value |= parse_value(wrap_run(text, child.start, child.end, b"{"))
    return value


def write_canonical(text: bytes, node: Large, update: Update, leaving_out: str | None = None) -> None:
    """Hand the canonical form of a large value to `update`, a piece at a time."""
    opener = text[node.start : node.start + 1]
    if opener == b'"':
        _write_string(_read_string(memoryview(text)[node.start : node.end]), update)
        return
    separator = opener
    for piece in _sort_members(text, node, leaving_out) if opener == b"{" else _read_items(text, node):
        update(separator)
        if not isinstance(piece, Large):
            update(memoryview(write_sorted(piece))[1:-1])
        else:
            if piece.name is not None:
                update(orjson.dumps(piece.name) + b":")
            write_canonical(text, piece, update)
        separator = b","
    update(_CLOSERS[opener])


def _write_string(string: str, update: Update) -> None:
    """Hand a large string to `update`, a piece at a time: orjson takes up to 14 times what it writes."""
    update(b'"')
    for start in range(0, len(string), _PIECE_CHARACTERS):
        update(memoryview(orjson.dumps(string[start : start + _PIECE_CHARACTERS]))[1:-1])
    update(b'"')


def _read_items(text: bytes, node: Large) -> Iterator[Any]:
    """Yield what an array is made of: lists of small items, and large ones."""
    for child in node.children:
        yield child if isinstance(child, Large) else _read_run(text, child, b"[")


def _sort_members(text: bytes, node: Large, leaving_out: str | None) -> Iterator[Any]:
    """Yield what an object is made of, ordered by name: objects of small members, and large ones."""
    large = {child.name or "": child for child in node.children if isinstance(child, Large)}
    runs = [child for child in node.children if isinstance(child, Slice)]
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


def _ranges(text: bytes, runs: list[Slice]) -> Iterator[_Names]:
    """Yield ranges of names, in order, so that the small members of each take little memory together."""
    count = -(-sum(run.end - run.start for run in runs) // _SORTED_BYTES)
    bounds = [""]
    if count > 1:
        sample = sorted(name for run in runs for name in list(_read_run(text, run, b"{"))[::_SAMPLED])
        bounds += sorted({sample[len(sample) * number // count] for number in range(1, count)} - {""})
    yield from map(_Names, bounds, [*bounds[1:], None])


def _read_run(text: bytes, run: Slice, opener: bytes) -> Any:
    """Return a run as an object or array that orjson writes with every digit as it stands in the text."""
    wrapped = wrap_run(text, run.start, run.end, opener)
    return orjson.loads(wrapped) if run.is_plain else read_exact(wrapped)
