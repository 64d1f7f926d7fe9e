"""Oversized checkpoints: the largest members of the state move to files of their own, and come back.

A part is named by the digest of its content, so that the same large output in one checkpoint after the
other is stored once. The checkpoint lists the places that it left in `parts`: a state that only looks
like a reference is never taken for one.
"""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import itemgetter
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import PARTS_MEMBER, Envelope, stamp
from holdfast.format.paths import PARTS
from holdfast.jsontext.members import find_members, parse_document, sha256_hex
from holdfast.jsontext.parse import parse_value
from holdfast.jsontext.weight import is_heavier

MAX_FILE_BYTES = 10 * 1024 * 1024
# Each part is a file, and so a request: a small one is not worth it, nor are many.
_MOST_PARTS = 8
_WORTH_BYTES = 64 * 1024
_DEEPEST = 4
# More than these no writer makes; each part costs a request, and each level that the text is looked through.
MOST_PLACES = 1000
_DEEPEST_PLACE = 16
_STATE = "state_snapshot"
_SEALED = b'{"$sealed":'
_PARTS_NAME = b'"%b"' % PARTS_MEMBER.encode()


# The name of a member, and where its text begins and ends.
_Member = tuple[str, int, int]
_Span = tuple[int, int]
_Replacement = tuple[int, int, bytes]


@dataclass(frozen=True, slots=True)
class Split:
    """A checkpoint whose body holds references, and the parts they refer to, by name within the run."""

    body: bytes
    parts: Mapping[str, bytes]


def split_body(body: bytes, *, limit_bytes: int, run_folder: str) -> Split:
    """Return the checkpoint with as few of its largest members moved to parts as `limit_bytes` demands.

    Where a few large members are not enough, all that holds them is moved as one part, which may be larger
    than the limit. More is moved where what is left would take too much memory. The same body always gives
    the same result.
    """
    worth_bytes = min(_WORTH_BYTES, limit_bytes // 8)
    split = _split(body, limit_bytes, worth_bytes, run_folder)
    while limit_bytes > worth_bytes and is_heavier(split.body):
        limit_bytes = min(limit_bytes, len(body)) // 2
        split = _split(body, limit_bytes, worth_bytes, run_folder)
    return split


def _split(body: bytes, limit_bytes: int, worth_bytes: int, run_folder: str) -> Split:
    if len(body) <= limit_bytes:
        return Split(body, {})
    ((_, start, end),) = find_members(body, lambda name, _: name == _STATE)
    shrinking = _Shrinking(body, len(body) - limit_bytes, worth_bytes, run_folder)
    shrinking.shrink(start, end, (_STATE,))
    last = len(body) - 1
    shrinking.references[last, last] = b',"%b":%b' % (PARTS_MEMBER.encode(), orjson.dumps(shrinking.places))
    return Split(_replace(body, shrinking.references), shrinking.parts)


def stamp_in_parts(
    body: bytes, *, limit_bytes: int, run_folder: str, sign: Callable[[bytes], str] | None = None
) -> Envelope:
    """Return the checkpoint as the repository will hold it, in several files if it is too large for one."""
    split = split_body(body, limit_bytes=limit_bytes, run_folder=run_folder)
    return replace(stamp(split.body, sign), parts=split.parts)


def join_envelope(envelope: Envelope, read: Callable[[str], bytes], path: str) -> Envelope:
    """Return the checkpoint put together again, if it was stored in parts. Raises IntegrityFailure."""
    # To look for the bytes first saves parsing nearly every checkpoint once more.
    if _PARTS_NAME not in envelope.content or PARTS_MEMBER not in parse_document(envelope.content).members:
        return envelope
    return stamp(join_parts(envelope.content, read, path))


def join_parts(content: bytes, read: Callable[[str], bytes], path: str) -> bytes:
    """Return the body of a stored checkpoint with its parts in their places again, without its integrity.

    `read` gives the content of a part by its path. Raises IntegrityFailure for a part that is not as it was.
    """
    places = _parse_places(parse_document(content).members.get(PARTS_MEMBER, b"[]"), path)
    tree = _Tree()
    for place in places:
        tree.grow(place, path)
    spans = _find_references(content, tree, (0, len(content)), path) if tree else ()
    parts = [(start, end, _read_part(content[start:end], read, path)) for start, end in sorted(spans)]
    members = find_members(content, lambda name, _: name not in ("integrity", PARTS_MEMBER))
    pieces: list[bytes | memoryview] = []
    for name, start, end in members:
        pieces += (b"," if pieces else b"{", orjson.dumps(name), b":", *_pieces(content, parts, start, end))
    return b"".join((*pieces, b"}"))


def part_paths(document: Mapping[str, Any], path: str) -> list[str]:
    """Return the paths of the parts that a parsed checkpoint, in the file at `path`, refers to.

    Raises IntegrityFailure.
    """
    paths = []
    try:
        for place in document.get(PARTS_MEMBER, []):
            value: Any = document
            for name in place:
                value = value[name]
            paths.append(str(value["$part"]))
    except (LookupError, TypeError) as error:
        raise IntegrityFailure(path, "it lists a part where there is no reference to one") from error
    return paths


class _Shrinking:
    """Takes the largest values out of a state until enough is saved."""

    def __init__(self, body: bytes, excess_bytes: int, worth_bytes: int, run_folder: str) -> None:
        self._body = body
        self._excess_bytes = excess_bytes + len(b',"":[]') + len(PARTS_MEMBER)
        self._worth_bytes = worth_bytes
        self._run_folder = run_folder
        self.parts: dict[str, bytes] = {}
        self.places: list[list[str]] = []
        self.references: dict[tuple[int, int], bytes] = {}

    def shrink(self, start: int, end: int, place: tuple[str, ...]) -> None:
        """Replace the largest members of a part of the body; all of it if these do not save enough."""
        chosen = self._choose(start, end, place)
        if not chosen:
            self._take(start, end, place)
        # The largest first: only for the last is it ever enough to move a part of it.
        for name, begins, ends in chosen:
            self.shrink(begins, ends, (*place, name))

    def _choose(self, start: int, end: int, place: tuple[str, ...]) -> list[_Member]:
        """Return the members to move, the largest first and as few as can be; none if all must go."""
        if not self._body.startswith(b"{", start) or len(place) > _DEEPEST:
            return []
        if self._body.startswith(_SEALED, start):
            return []  # a part of it is worth nothing
        members = find_members(self._body, lambda _, size_bytes: size_bytes >= self._worth_bytes, start, end)
        members.sort(key=_size, reverse=True)
        # Further down, only one member that makes most of the whole is better to move than all of it.
        if not members or (len(place) > 1 and 2 * _size(members[0]) < end - start):
            return []
        saved_bytes = 0
        for count, member in enumerate(members[: _MOST_PARTS - len(self.places)], 1):
            saved_bytes += self._saving(_size(member), (*place, member[0]))
            if saved_bytes >= self._excess_bytes:
                return members[:count]
        return []

    def _saving(self, size_bytes: int, place: tuple[str, ...]) -> int:
        # The reference, and the place in the list of places.
        return size_bytes - 256 - len(self._run_folder) - len(orjson.dumps(place))

    def _take(self, start: int, end: int, place: tuple[str, ...]) -> None:
        text = self._body[start:end]
        digest = sha256_hex(text)
        name = f"{PARTS}/{digest}.json"
        self.parts[name] = text
        self.places.append(list(place))
        reference = {"$part": f"{self._run_folder}/{name}", "sha256": digest, "bytes": len(text)}
        self._excess_bytes -= self._saving(len(text), place)
        self.references[start, end] = orjson.dumps(reference)


def _size(member: _Member) -> int:
    return member[2] - member[1]


def _replace(text: bytes, replacements: Mapping[tuple[int, int], bytes]) -> bytes:
    ordered = sorted((start, end, replacement) for (start, end), replacement in replacements.items())
    return b"".join(_pieces(text, ordered, 0, len(text)))


def _pieces(
    text: bytes, replacements: Sequence[_Replacement], start: int, end: int
) -> Iterator[bytes | memoryview]:
    """Yield a part of the text, with what is to replace parts of that; the replacements are in order."""
    view, rest = memoryview(text), start
    for begins, ends, replacement in replacements[bisect_left(replacements, start, key=itemgetter(0)) :]:
        if begins > end:
            break
        yield view[rest:begins]
        yield replacement
        rest = ends
    yield view[rest:end]


def _parse_places(text: bytes, path: str) -> list[list[str]]:
    """Return the list of places, each a list of names. Raises IntegrityFailure."""
    places = parse_value(text)
    if not isinstance(places, list) or not all(
        isinstance(place, list) and place and all(isinstance(name, str) for name in place) for place in places
    ):
        raise IntegrityFailure(path, "its list of parts makes no sense")
    if len(places) > MOST_PLACES:
        raise IntegrityFailure(path, f"it lists {len(places):,} parts, and {MOST_PLACES:,} are the most")
    if any(len(place) > _DEEPEST_PLACE for place in places):
        raise IntegrityFailure(path, "it lists a part that lies deeper than any")
    return places


class _Tree(dict[str, "_Tree"]):
    """The places within one object, by the name of its members; a member without any is a reference."""

    def grow(self, place: Sequence[str], path: str) -> None:
        """Add a place. Raises IntegrityFailure if it lies within another one, or another one in it."""
        node, is_new = self, False
        for name in place:
            if not node and node is not self and not is_new:
                raise IntegrityFailure(path, "it lists a part that lies within another one")
            is_new = name not in node
            node = node.setdefault(name, _Tree())
        if node:
            raise IntegrityFailure(path, "it lists a part that lies within another one")


def _find_references(content: bytes, tree: _Tree, span: _Span, path: str) -> Iterator[_Span]:
    """Yield where each place of the tree begins and ends, looking through each object once.

    Raises IntegrityFailure.
    """
    if not tree:
        yield span
        return
    is_object = content.startswith(b"{", span[0])
    found = find_members(content, lambda name, _: name in tree, *span) if is_object else []
    if len(found) < len(tree):
        missing = next(iter(tree.keys() - {name for name, _, _ in found}))
        raise IntegrityFailure(path, f"it lists a part at {missing}, where there is nothing")
    for name, start, end in found:
        yield from _find_references(content, tree[name], (start, end), path)


def _read_part(reference: bytes, read: Callable[[str], bytes], path: str) -> bytes:
    try:
        stated = parse_value(reference)
        part_path, digest, size = str(stated["$part"]), stated["sha256"], stated["bytes"]
    except (TypeError, KeyError, InvalidCheckpoint) as error:
        raise IntegrityFailure(path, "it lists a part where there is no reference to one") from error
    content = read(part_path)
    if len(content) != size or sha256_hex(content) != digest:
        raise IntegrityFailure(part_path, f"it is not the part that {path} refers to")
    return content
