"""Oversized checkpoints: the largest members of the state move to files of their own, and come back.

A part is named by the digest of its content, so that the same large output in one checkpoint after the
other is stored once. The checkpoint lists the places that it left in `parts`: a state that only looks
like a reference is never taken for one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from typing import Any

import orjson

from holdfast.core.encoding import join_members, parse_document, parse_value, sha256_hex
from holdfast.core.envelope import PARTS_MEMBER, Envelope, seal
from holdfast.core.layout import PARTS
from holdfast.core.weight import is_heavier
from holdfast.errors import IntegrityFailure, InvalidCheckpoint

MAX_FILE_BYTES = 10 * 1024 * 1024
_STATE = "state_snapshot"
_PARTS_NAME = b'"%b"' % PARTS_MEMBER.encode()


@dataclass(frozen=True, slots=True)
class Split:
    """A checkpoint whose body holds references, and the parts they refer to, by name within the run."""

    body: bytes
    parts: Mapping[str, bytes]


def split_body(body: bytes, *, limit_bytes: int, run_folder: str) -> Split:
    """Return the checkpoint with as few of its largest members moved to parts as `limit_bytes` demands.

    More are moved where what is left would take too much memory. The same body always gives the same result.
    """
    split = _split(body, limit_bytes, run_folder)
    while limit_bytes and is_heavier(split.body):
        limit_bytes = min(limit_bytes, len(body)) // 2
        split = _split(body, limit_bytes, run_folder)
    return split


def _split(body: bytes, limit_bytes: int, run_folder: str) -> Split:
    if len(body) <= limit_bytes:
        return Split(body, {})
    members = parse_document(body).members
    shrinking = _Shrinking(len(body) - limit_bytes, run_folder)
    members[_STATE] = shrinking.shrink(members[_STATE], (_STATE,))
    members[PARTS_MEMBER] = orjson.dumps(shrinking.places)
    return Split(join_members(members), shrinking.parts)


def seal_in_parts(body: bytes, *, limit_bytes: int, run_folder: str) -> Envelope:
    """Return the checkpoint as the repository will hold it, in several files if it is too large for one."""
    split = split_body(body, limit_bytes=limit_bytes, run_folder=run_folder)
    return replace(seal(split.body), parts=split.parts)


def join_envelope(envelope: Envelope, read: Callable[[str], bytes], path: str) -> Envelope:
    """Return the checkpoint put together again, if it was stored in parts. Raises IntegrityFailure."""
    # To look for the bytes first saves parsing nearly every checkpoint once more.
    if _PARTS_NAME not in envelope.content or PARTS_MEMBER not in parse_document(envelope.content).members:
        return envelope
    return seal(join_parts(envelope.content, read, path))


def join_parts(content: bytes, read: Callable[[str], bytes], path: str) -> bytes:
    """Return the body of a stored checkpoint with its parts in their places again, without its integrity.

    `read` gives the content of a part by its path. Raises IntegrityFailure for a part that is not as it was.
    """
    members = parse_document(content).members
    members.pop("integrity", None)
    places = parse_value(members.pop(PARTS_MEMBER, b"[]"))
    for place in places:
        members[_STATE] = _restore(members[_STATE], place[1:], read, path)
    return join_members(members)


def part_paths(document: Mapping[str, Any]) -> list[str]:
    """Return the paths of the parts that a parsed checkpoint refers to."""
    paths = []
    for place in document.get(PARTS_MEMBER, []):
        value: Any = document
        for name in place:
            value = value[name]
        paths.append(str(value["$part"]))
    return paths


class _Shrinking:
    """Takes the largest values out of a state until enough is saved."""

    def __init__(self, excess_bytes: int, run_folder: str) -> None:
        # What the list of places and the references themselves take is not much, but it counts.
        self._excess_bytes = excess_bytes + 4096
        self._run_folder = run_folder
        self.parts: dict[str, bytes] = {}
        self.places: list[list[str]] = []

    def shrink(self, text: bytes, place: tuple[str, ...]) -> bytes:
        """Return `text` with its largest members replaced; the whole of it if it has none."""
        members = parse_document(text).members if text[:1] == b"{" else {}
        if not members or (len(place) > 1 and not _is_mostly_one(members)):
            return self._take(text, place)
        for name in sorted(members, key=lambda name: len(members[name]), reverse=True):
            if self._excess_bytes <= 0:
                break
            members[name] = self.shrink(members[name], (*place, name))
        return join_members(members)

    def _take(self, text: bytes, place: tuple[str, ...]) -> bytes:
        digest = sha256_hex(text)
        name = f"{PARTS}/{digest}.json"
        self.parts[name] = text
        self.places.append(list(place))
        reference = {"$part": f"{self._run_folder}/{name}", "sha256": digest, "bytes": len(text)}
        self._excess_bytes -= len(text) - 200
        return orjson.dumps(reference)


def _is_mostly_one(members: Mapping[str, bytes]) -> bool:
    """Return whether one member alone makes most of the whole, so that it is better to move only that."""
    sizes = [len(text) for text in members.values()]
    return len(sizes) > 1 and 2 * max(sizes) > sum(sizes)


def _restore(text: bytes, place: list[str], read: Callable[[str], bytes], path: str) -> bytes:
    if not place:
        return _read_part(text, read, path)
    members = parse_document(text).members
    if place[0] not in members:
        raise IntegrityFailure(path, f"it lists a part at {'.'.join(place)}, where there is nothing")
    members[place[0]] = _restore(members[place[0]], place[1:], read, path)
    return join_members(members)


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
