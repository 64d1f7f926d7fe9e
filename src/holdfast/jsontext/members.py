"""JSON objects and arrays taken apart and put together, each member's text as it was written."""

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from hashlib import sha256
from typing import Any

import orjson

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.large import (
    Large,
    after_space,
    cut_apart,
    outline,
    read_exact,
    wrap_run,
    write_canonical,
    write_sorted,
)
from holdfast.jsontext.parse import find_end, judge, parse_value, read_parts

Span = tuple[int, int]
Member = tuple[str, int, int]


class Document:
    """A JSON object, with each member's text exactly as it was written.

    `value` is there to look into; unless it `is_exact`, it is never encoded again, since a number in it may
    be an approximation. Of a large object only those members are read that are asked for.
    """

    def __init__(self, text: bytes) -> None:
        """Read `text`. Raises InvalidCheckpoint with the place and the byte."""
        self._text = text
        self._root = cut_apart(text, b"{")
        self.is_exact = False
        self.value: Mapping[str, Any]
        if self._root:
            self._spans = _by_name(_find_in(text, self._root))
            self.value = _Values(text, self._spans)
        else:
            self.value, members, self.is_exact = _read_members(text)
            self._spans = _by_name(members)
        self.members: Mapping[str, bytes] = _Members(text, self._spans)

    @property
    def is_large(self) -> bool:
        """Whether it is so large that its values are read one by one."""
        return self._root is not None

    def view(self, name: str) -> memoryview:
        """Return the text of a member where it stands, without a copy of it."""
        start, end = self._spans[name]
        return memoryview(self._text)[start:end]

    def outline(self, whole: Collection[str] = ()) -> Mapping[str, Any]:
        """Return the value with an empty one of its kind for each large value.

        Members whose names are in `whole` are read however large they are, down to the third level.
        """
        return outline(self._text, self._root, whole, 3) if self._root else self.value

    def sha256_without(self, name: str) -> str:
        """Return the digest of its canonical form without the member called `name`."""
        if self._root:
            digest = sha256()
            write_canonical(self._text, self._root, digest.update, leaving_out=name)
            return digest.hexdigest()
        if self.is_exact:
            return sha256_hex(write_sorted({each: self.value[each] for each in self.value if each != name}))
        return canonical_sha256(join_members({each: self.view(each) for each in self._spans if each != name}))

    def canonical_without(self, name: str) -> bytes:
        """Return its canonical form without the member called `name`."""
        return canonical_bytes(join_members({each: self.view(each) for each in self._spans if each != name}))


def canonical_bytes(text: bytes) -> bytes:
    """Return the canonical form of valid JSON `text`, of any size."""
    if root := cut_apart(text, text[:1]):
        pieces = bytearray()
        write_canonical(text, root, pieces.extend)
        return bytes(pieces)
    return canonical(text)


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
    if not cut_apart(text, text[:1]):
        parse_value(text, place)


def find_members(
    text: bytes, is_wanted: Callable[[str, int], bool], start: int = 0, end: int | None = None
) -> list[tuple[str, int, int]]:
    """Return the members of a JSON object that are wanted by their name and size, and where their text is.

    >>> find_members(b'{"a": 1, "b": [2, 3]}', lambda name, size_bytes: size_bytes > 1)
    [('b', 14, 20)]

    With `start` and `end` the object is that part of the text. Raises like `parse_document`.
    """
    if root := cut_apart(text, b"{", start, end):
        members: Iterable[Member] = _find_in(text, root)
        offset = 0
    else:
        members, offset = _read_members(text[start:end])[1], start
    return [
        (name, first + offset, last + offset)
        for name, first, last in members
        if is_wanted(name, last - first)
    ]


def find_items(text: bytes, least_bytes: int, start: int, end: int) -> list[tuple[int, int, int]]:
    """Return the items of a JSON array with at least so many bytes: their numbers, and where their text is.

    >>> find_items(b'[1, "two", [3]]', 3, 0, 15)
    [(1, 4, 9), (2, 11, 14)]

    The array is a part of the text, from `start` to `end`. Raises like `parse_document`.
    """
    spans = enumerate(_find_items(text, start, end))
    return [(number, first, last) for number, (first, last) in spans if last - first >= least_bytes]


def _find_items(text: bytes, start: int, end: int) -> Iterator[Span]:
    """Yield where the text of each item of an array is; a large one is read a run at a time."""
    root = cut_apart(text, b"[", start, end)
    if root is None:
        yield from ((start + first, start + last) for _, _, first, last in read_parts(text[start:end])[0])
        return
    for child in root.children:
        if isinstance(child, Large):
            yield child.start, child.end
            continue
        offset = child.start - 1
        for _, _, first, last in read_parts(wrap_run(text, child.start, child.end, b"["))[0]:
            yield offset + first, offset + last


def split_items(text: bytes) -> list[bytes]:
    """Return the items of the JSON array that `text` holds, each as its text was written.

    >>> split_items(b'[1.10, {"a": 1}]')
    [b'1.10', b'{"a": 1}']

    Raises InvalidCheckpoint with the place and the byte.
    """
    judge(text)
    if not text.startswith(b"[", after_space(text, 0)):
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
    return write_sorted(value if is_plain else read_exact(text))


def canonical_sha256(text: bytes) -> str:
    """Return the digest of the canonical form of valid JSON `text`."""
    if root := cut_apart(text, text[:1]):
        digest = sha256()
        write_canonical(text, root, digest.update)
        return digest.hexdigest()
    return sha256_hex(canonical(text))


def sha256_hex(content: bytes | memoryview) -> str:
    """Return the SHA-256 digest of `content` in lower-case hexadecimal."""
    return sha256(content).hexdigest()


def _by_name(members: Iterable[Member]) -> dict[str, Span]:
    return {name: (start, end) for name, start, end in members}


def _read_members(text: bytes) -> tuple[dict[str, Any], Iterable[Member], bool]:
    """Return the object that a text holds, where each member's text is, and whether it is exact.

    Raises InvalidCheckpoint.
    """
    if (plain := _read_plain(text)) is not None:
        return *plain, True
    judge(text)
    if not text.startswith(b"{", after_space(text, 0)):
        raise InvalidCheckpoint("", "the outermost value must be a JSON object")
    parts, is_exact = read_parts(text)
    value = {name or "": part for name, part, _, _ in parts}
    return value, ((name or "", start, end) for name, _, start, end in parts), is_exact


def _read_plain(text: bytes) -> tuple[dict[str, Any], list[Member]] | None:
    """Return the object that a text holds, and its members, if orjson writes it just as it is; else None."""
    try:
        value = orjson.loads(text)
        if not isinstance(value, dict) or find_end(value, text) != len(text):
            return None
    except (orjson.JSONDecodeError, orjson.JSONEncodeError):
        return None
    return value, _measure(value, len(text))


def _measure(value: dict[str, Any], size_bytes: int) -> list[Member]:
    """Return where each member's text is in the text of an object, which orjson writes just as it stands.

    Each is written once more for its length, but for the first object or array, mostly the largest by far: it
    has what the others leave.
    """
    heads = [len(orjson.dumps(name)) + 2 for name in value]  # after a brace or comma, before a colon
    left_out = next((name for name, part in value.items() if isinstance(part, dict | list)), None)
    lengths = [0 if name == left_out else len(orjson.dumps(part)) for name, part in value.items()]
    rest = size_bytes - 1 - sum(heads) - sum(lengths)
    members: list[Member] = []
    position = 0
    for name, head, length in zip(value, heads, lengths, strict=True):
        start = position + head
        position = start + (rest if name == left_out else length)
        members.append((name, start, position))
    return members


def _find_in(text: bytes, node: Large) -> Iterator[Member]:
    """Yield each member of a large object, and where its text is."""
    for child in node.children:
        if isinstance(child, Large):
            yield child.name or "", child.start, child.end
        else:
            offset = child.start - 1
            for name, start, end in _read_members(wrap_run(text, child.start, child.end, b"{"))[1]:
                yield name, start + offset, end + offset
