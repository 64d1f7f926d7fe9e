"""Checkpoints in several files, put together again: each part goes back to the place that it left."""

from bisect import bisect_left
from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache
from operator import itemgetter
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure, InvalidCheckpoint
from holdfast.format.checkpoint import PARTS_MEMBER, Envelope, stamp
from holdfast.format.part_files import MAX_PARTS_BYTES, Reference, list_files, read_text
from holdfast.jsontext.members import find_items, find_members, parse_document
from holdfast.jsontext.parse import parse_value

# More than these no writer makes; each part costs a request, and each level that the text is looked through.
MOST_PLACES = 1000
_DEEPEST_PLACE = 16
_PARTS_NAME = b'"%b"' % PARTS_MEMBER.encode()


Place = tuple[str | int, ...]
"""The names, and in arrays the numbers, that lead to a value."""

Fetch = Callable[[Sequence[Reference]], None]
"""Is told which parts will be read."""

_Span = tuple[int, int]
_Replacement = tuple[int, int, Sequence[bytes]]


def join_envelope(
    envelope: Envelope, read: Callable[[str], bytes], path: str, fetch: Fetch = lambda _: None
) -> Envelope:
    """Return the checkpoint put together again, if it was stored in parts. Raises IntegrityFailure.

    `fetch` is told beforehand which parts will be read.
    """
    # To look for the bytes first saves parsing nearly every checkpoint once more.
    if _PARTS_NAME not in envelope.content or PARTS_MEMBER not in parse_document(envelope.content).members:
        return envelope
    return stamp(join_parts(envelope.content, read, path, fetch))


def join_parts(
    content: bytes, read: Callable[[str], bytes], path: str, fetch: Fetch = lambda _: None
) -> bytes:
    """Return the body of a stored checkpoint with its parts in their places again, without its integrity.

    `read` gives the content of a part by its path. Raises IntegrityFailure for a part that is not as it was.
    """
    places = _parse_places(parse_document(content).members.get(PARTS_MEMBER, b"[]"), path)
    tree = _Tree()
    for place in places:
        tree.grow(place, path)
    spans = _find_references(content, tree, (0, len(content)), path) if tree else ()
    references = [(start, end, _parse_reference(content[start:end], path)) for start, end in sorted(spans)]
    files = [file for _, _, reference in references for file in list_files(reference)]
    if sum(file["bytes"] for file in files) > MAX_PARTS_BYTES:
        raise IntegrityFailure(path, f"its parts have more than {MAX_PARTS_BYTES:,} bytes together")
    fetch(files)
    # Several places may refer to one part. Here it is let go before the whole is stamped, which takes room.
    read_once = cache(read)
    parts = [(start, end, read_text(reference, read_once, path)) for start, end, reference in references]
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
            paths += [str(file["$part"]) for file in value.get("$parts", [value])]
    except (LookupError, TypeError, ValueError, AttributeError) as error:
        raise IntegrityFailure(path, "it lists a part where there is no reference to one") from error
    return paths


def replace_spans(text: bytes, replacements: Mapping[tuple[int, int], bytes]) -> bytes:
    """Return the text with other texts in place of parts of it, by where these begin and end."""
    ordered = sorted((start, end, [replacement]) for (start, end), replacement in replacements.items())
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
        yield from replacement
        rest = ends
    yield view[rest:end]


def _parse_places(text: bytes, path: str) -> list[list[str | int]]:
    """Return the list of places, each a list of names, and of numbers in arrays. Raises IntegrityFailure."""
    places = parse_value(text)
    if not isinstance(places, list) or not all(
        isinstance(place, list)
        and place
        and isinstance(place[0], str)
        and all(type(name) in (str, int) for name in place)
        for place in places
    ):
        raise IntegrityFailure(path, "its list of parts makes no sense")
    if len(places) > MOST_PLACES:
        raise IntegrityFailure(path, f"it lists {len(places):,} parts, and {MOST_PLACES:,} are the most")
    if any(len(place) > _DEEPEST_PLACE for place in places):
        raise IntegrityFailure(path, "it lists a part that lies deeper than any")
    return places


class _Tree(dict[str | int, "_Tree"]):
    """The places within one value, by the names or numbers in it; what has none within it is a reference."""

    def grow(self, place: Sequence[str | int], path: str) -> None:
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
    found: list[tuple[str | int, int, int]] = []
    if content.startswith(b"{", span[0]):
        found += find_members(content, lambda name, _: name in tree, *span)
    elif content.startswith(b"[", span[0]):
        found += [item for item in find_items(content, 0, *span) if item[0] in tree]
    if len(found) < len(tree):
        missing = next(iter(tree.keys() - {name for name, _, _ in found}))
        raise IntegrityFailure(path, f"it lists a part at {missing}, where there is nothing")
    for name, start, end in found:
        yield from _find_references(content, tree[name], (start, end), path)


def _parse_reference(text: bytes, path: str) -> Any:
    """Return a reference that has all that it needs. Raises IntegrityFailure."""
    try:
        stated = parse_value(text)
        is_whole = all(isinstance(each["sha256"], str) and each["bytes"] >= 0 for each in list_files(stated))
    except (TypeError, LookupError, ValueError, AttributeError, InvalidCheckpoint):
        is_whole = False
    if not is_whole:
        raise IntegrityFailure(path, "it lists a part where there is no reference to one")
    return stated
