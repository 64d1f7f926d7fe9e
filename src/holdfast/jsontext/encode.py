"""Exact JSON: what a caller writes is kept byte for byte, and what cannot be kept is refused with its place.

orjson does the work wherever its result can be proved to be exact; everything else is left to the scanner.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from hashlib import sha256
from typing import Any

import orjson

from holdfast.jsontext.canonical import write_canonical
from holdfast.jsontext.pieces import LARGE_BYTES, Large, Run, take_apart, wrap_run
from holdfast.jsontext.python_values import LISTS_AROUND, copy_to_dump, dump_plain, wrap
from holdfast.jsontext.scan import MAX_DEPTH, scan_items, scan_members, scan_value

__all__ = [
    "MAX_DEPTH",
    "Document",
    "LargeMembers",
    "canonical",
    "canonical_sha256",
    "check_value",
    "encode",
    "find_members",
    "join_members",
    "parse_document",
    "parse_value",
    "sha256_hex",
    "split_items",
]

_COMPARED_BYTES = 1024 * 1024


class _OtherSpelling(Exception):
    """The text is not what orjson would write."""


_NOT_PLAIN = (orjson.JSONDecodeError, orjson.JSONEncodeError, _OtherSpelling)


@dataclass(frozen=True, slots=True)
class Document:
    """A JSON object, with each member's text exactly as it was written.

    `value` is there to look into; it is never encoded again, since a number in it may be an approximation.
    """

    value: Mapping[str, Any]
    members: Mapping[str, bytes]

    def sha256_without(self, name: str) -> str:
        """Return the digest of its canonical form without the member called `name`."""
        if isinstance(self.members, LargeMembers):
            digest = sha256()
            write_canonical(self.members.text, self.members.root, digest.update, leaving_out=name)
            return digest.hexdigest()
        return canonical_sha256(
            join_members({each: self.members[each] for each in self.members if each != name})
        )


class LargeMembers(Mapping[str, bytes]):
    """The texts of the members of a large object, each cut out when it is asked for."""

    def __init__(self, text: bytes, root: Large, is_wanted: Callable[[str, int], bool] | None = None) -> None:
        self.text = text
        self.root = root
        found = _find_in_pieces(text, root, is_wanted or _any)
        self._spans = {name: (start, end) for name, start, end in found}

    def size_bytes(self, name: str) -> int:
        """Return how large a member is."""
        start, end = self._spans[name]
        return end - start

    def is_object(self, name: str) -> bool:
        """Tell whether a member is an object."""
        return self.text.startswith(b"{", self._spans[name][0])

    def is_array(self, name: str) -> bool:
        """Tell whether a member is an array."""
        return self.text.startswith(b"[", self._spans[name][0])

    def read(self, name: str) -> Any:
        """Return the value of a member."""
        start, end = self._spans[name]
        large = (child for child in self.root.children if isinstance(child, Large))
        if any(child.start == start and child.is_plain for child in large):
            return orjson.loads(memoryview(self.text)[start:end])
        return parse_value(self.text[start:end])

    def inside(self, name: str, is_wanted: Callable[[str, int], bool]) -> "LargeMembers":
        """Return those members that are wanted of a member, a large object."""
        children = (child for child in self.root.children if isinstance(child, Large))
        return LargeMembers(self.text, next(child for child in children if child.name == name), is_wanted)

    def __getitem__(self, name: str) -> bytes:
        start, end = self._spans[name]
        return self.text[start:end]

    def __contains__(self, name: object) -> bool:
        return name in self._spans

    def __iter__(self) -> Iterator[str]:
        return iter(self._spans)

    def __len__(self) -> int:
        return len(self._spans)


class _Values(Mapping[str, Any]):
    """The values of the members of a large object, each read when it is asked for."""

    def __init__(self, members: LargeMembers) -> None:
        self._members = members

    def __getitem__(self, name: str) -> Any:
        return self._members.read(name)

    def __contains__(self, name: object) -> bool:
        return name in self._members

    def __iter__(self) -> Iterator[str]:
        return iter(self._members)

    def __len__(self) -> int:
        return len(self._members)


def encode(value: object, place: str = "") -> bytes:
    """Return `value` as compact UTF-8 JSON, its keys in the order they have.

    Raises InvalidCheckpoint with `place` extended by the path to the part that is not JSON.

    >>> encode({"b": 2**64, "a": [1.5, None, "é"]}).decode()
    '{"b":18446744073709551616,"a":[1.5,null,"é"]}'
    """
    # A long integer, a NaN, a lone surrogate or a strange key: the copy cures it or says where it is.
    return dump_plain(value) or orjson.dumps(copy_to_dump(value, place))


def parse_document(text: bytes) -> Document:
    """Return the JSON object that `text` holds; raises InvalidCheckpoint with the place and the byte."""
    if root := _take_apart(text, b"{"):
        members = LargeMembers(text, root)
        return Document(_Values(members), members)
    if document := _parse_plain_document(text):
        return document
    value, spans = scan_members(text)
    return Document(value, {name: text[start:end] for name, (start, end) in zip(value, spans, strict=True)})


def _parse_plain_document(text: bytes) -> Document | None:
    """Return the object if orjson, which forgives some flaws and rounds some numbers, writes it as it was.

    A text that equals its own encoding has no flaw and no number that was changed.
    """
    try:
        value = orjson.loads(text)
        if not isinstance(value, dict):
            return None
        spans = _find_plain_members(text, value)
        return Document(value, {name: text[start:end] for name, start, end in spans})
    except _NOT_PLAIN:
        return None


def check_value(text: bytes, place: str = "") -> None:
    """Raise InvalidCheckpoint, with the place and the byte, unless `text` holds one JSON value."""
    if not _take_apart(text, text[:1]):
        parse_value(text, place)


def _take_apart(text: bytes, opener: bytes, start: int = 0, end: int | None = None) -> Large | None:
    """Return a large text taken apart; None if it does not begin like that, is not large, or not JSON."""
    end = len(text) if end is None else end
    is_due = end - start >= LARGE_BYTES and text.startswith(opener, start)
    return take_apart(text, start, end) if is_due else None


def _find_in_pieces(
    text: bytes, root: Large, is_wanted: Callable[[str, int], bool]
) -> Iterator[tuple[str, int, int]]:
    for child in root.children:
        if isinstance(child, Run):
            offset = child.start - 1
            for name, start, end in _find_at_once(wrap_run(text, child, b"{"), is_wanted):
                yield name, start + offset, end + offset
        elif is_wanted(child.name or "", child.end - child.start):
            yield child.name or "", child.start, child.end


def _any(_name: str, _size_bytes: int) -> bool:
    return True


def find_members(
    text: bytes, is_wanted: Callable[[str, int], bool], start: int = 0, end: int | None = None
) -> list[tuple[str, int, int]]:
    """Return the members of a JSON object that are wanted by their name and size, and where their text is.

    >>> find_members(b'{"a": 1, "b": [2, 3]}', lambda name, size_bytes: size_bytes > 1)
    [('b', 14, 20)]

    The others' text takes no memory. With `start` and `end` the object is that part of the text.
    Raises InvalidCheckpoint like `parse_document`.
    """
    if root := _take_apart(text, b"{", start, end):
        return list(_find_in_pieces(text, root, is_wanted))
    found = _find_at_once(text[start:end], is_wanted)
    return [(name, begins + start, ends + start) for name, begins, ends in found] if start else found


def _find_at_once(text: bytes, is_wanted: Callable[[str, int], bool]) -> list[tuple[str, int, int]]:
    if (found := _find_wanted_if_plain(text, is_wanted)) is not None:
        return found
    value, spans = scan_members(text)
    members = zip(value, spans, strict=True)
    return [(name, start, end) for name, (start, end) in members if is_wanted(name, end - start)]


def _find_wanted_if_plain(
    text: bytes, is_wanted: Callable[[str, int], bool]
) -> list[tuple[str, int, int]] | None:
    try:
        value = orjson.loads(text)
        if not isinstance(value, dict):
            return None
        members = _find_plain_members(text, value)
        return [(name, start, end) for name, start, end in members if is_wanted(name, end - start)]
    except _NOT_PLAIN:
        return None


def _find_plain_members(text: bytes, value: dict[str, Any]) -> Iterator[tuple[str, int, int]]:
    heads = (b"%b:" % orjson.dumps(name) for name in value)
    spans = _find_plain(text, zip(heads, value.values(), strict=True))
    return ((name, start, end) for name, (start, end) in zip(value, spans, strict=True))


def _find_plain(text: bytes, values: Iterable[tuple[bytes, object]]) -> Iterator[tuple[int, int]]:
    """Yield where each value is that `text` holds after its head; raises _OtherSpelling."""
    separator, end = text[:1], 0
    for head, value in values:
        start = end + 1 + len(head)
        if text[end:start] != separator + head:
            raise _OtherSpelling
        end = _find_end(value, text, start)
        yield start, end
        separator = b","
    if len(text) != max(end, 1) + 1:
        raise _OtherSpelling


def split_items(text: bytes) -> list[bytes]:
    """Return the items of the JSON array that `text` holds, each as its text was written.

    >>> split_items(b'[1.10, {"a": 1}]')
    [b'1.10', b'{"a": 1}']

    Raises InvalidCheckpoint with the place and the byte.
    """
    try:
        value = orjson.loads(text)
        if isinstance(value, list):
            return [text[start:end] for start, end in _find_plain(text, ((b"", item) for item in value))]
    except _NOT_PLAIN:
        pass
    return scan_items(text)


def parse_value(text: bytes, place: str = "") -> Any:
    """Return the JSON value that `text` holds; raises InvalidCheckpoint with the place and the byte."""
    try:
        value = orjson.loads(text)
        if _find_end(value, text, 0) == len(text):
            return value
    except _NOT_PLAIN:
        pass
    value = None  # it can be large, and must not be in memory twice
    return scan_value(text, place)


def _find_end(value: object, text: bytes, start: int) -> int:
    """Return where the encoding of `value` ends that begins at `start`.

    Raises _OtherSpelling if there is none, JSONEncodeError if it might be nested too deeply.
    """
    is_nested = isinstance(value, dict | list)
    written, around = orjson.dumps(wrap(value) if is_nested else value), LISTS_AROUND * is_nested
    end = start + len(written) - 2 * around
    # Piece by piece, since to cut the lists off would copy all of it.
    for position in range(start, end, _COMPARED_BYTES):
        size = min(_COMPARED_BYTES, end - position)
        offset = position - start + around
        if written[offset : offset + size] != text[position : position + size]:
            raise _OtherSpelling
    return end


def canonical(text: bytes) -> bytes:
    """Return valid JSON `text` in the one form that all its spellings share, but for the numbers.

    Names are sorted by code point, white space is gone, escapes are the fewest, numbers stay as written.

    >>> canonical(b'{"b": 1.10, "a": "\\\\u0041"}')
    b'{"a":"A","b":1.10}'
    """
    if ordered := _order_plain(text):
        return ordered
    exact = scan_value(text, integer=orjson.Fragment, real=orjson.Fragment)
    return orjson.dumps(exact, option=orjson.OPT_SORT_KEYS)


def canonical_sha256(text: bytes) -> str:
    """Return the digest of the canonical form of valid JSON `text`."""
    if root := _take_apart(text, text[:1]):
        digest = sha256()
        write_canonical(text, root, digest.update)
        return digest.hexdigest()
    return sha256_hex(canonical(text))


def _order_plain(text: bytes) -> bytes | None:
    try:
        value = orjson.loads(text)
        return orjson.dumps(value, option=orjson.OPT_SORT_KEYS) if orjson.dumps(value) == text else None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None


def join_members(members: Mapping[str, bytes]) -> bytes:
    """Return one JSON object made of the texts of its members.

    >>> join_members({"a": b"1.10", "b": b"[]"})
    b'{"a":1.10,"b":[]}'
    """
    pieces: list[bytes] = []
    for name, text in members.items():
        pieces += (b",", orjson.dumps(name), b":", text)
    return b"".join((b"{", *pieces[1:], b"}"))


def sha256_hex(content: bytes) -> str:
    """Return the SHA-256 digest of `content` in lower-case hexadecimal."""
    return sha256(content).hexdigest()
