"""Checkpoints that become several files: what is too large for one, and what is stored already.

The checkpoint lists the places that it left in `parts`: a state that only looks like a reference is never
taken for one.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

import orjson

from holdfast.format.checkpoint import PARTS_MEMBER, Envelope, stamp
from holdfast.format.part_files import PartFiles, PartStyle, make_parts
from holdfast.format.parts import Place, replace_spans
from holdfast.jsontext.members import find_members
from holdfast.jsontext.weight import is_heavier

# Each part is a file, and so a request: a small one is not worth it, nor are many.
_MOST_PARTS = 8
_WORTH_BYTES = 64 * 1024
_DEEPEST = 4
_STATE = "state_snapshot"
_SEALED = b'{"$sealed":'

# The name of a member, and where its text begins and ends.
_Member = tuple[str, int, int]


@dataclass(frozen=True, slots=True)
class Split:
    """A checkpoint whose body holds references, and the parts they refer to, by name within the run."""

    body: bytes
    parts: Mapping[str, bytes]


@dataclass(frozen=True, slots=True)
class Moved:
    """A value of the body that moves to parts: its place, where its text is, and the files of it."""

    place: Place
    start: int
    end: int
    parts: PartFiles


def split_body(body: bytes, *, limit_bytes: int, style: PartStyle, moved: Sequence[Moved] = ()) -> Split:
    """Return the checkpoint with as few of its largest members moved to parts as `limit_bytes` demands.

    What is `moved` in any case goes first. Where a few large members are not enough, all that holds them is
    moved as one. More is moved where what is left would take too much memory. The same body always gives the
    same result.
    """
    references = {(each.start, each.end): orjson.dumps(each.parts.reference) for each in moved}
    rest = replace_spans(body, references) if references else body
    places = [list(each.place) for each in moved]
    further = _shrink(rest, limit_bytes, len(_list_places(places)), style)
    if any(place[: len(taken)] == taken for taken in further.places for place in places):
        # What must go holds references: it goes as it was.
        return split_body(body, limit_bytes=limit_bytes, style=style)
    parts = {name: content for each in moved for name, content in each.parts.files.items()}
    places += further.places
    if not places:
        return Split(body, {})
    last = len(rest) - 1
    further.references[last, last] = _list_places(places)
    return Split(replace_spans(rest, further.references), parts | further.parts)


def stamp_in_parts(
    body: bytes,
    *,
    limit_bytes: int,
    style: PartStyle,
    moved: Sequence[Moved] = (),
    sign: Callable[[bytes], str] | None = None,
) -> Envelope:
    """Return the checkpoint as the repository will hold it, in several files if it is too large for one."""
    split = split_body(body, limit_bytes=limit_bytes, style=style, moved=moved)
    return replace(stamp(split.body, sign), parts=split.parts)


def _list_places(places: Sequence[Sequence[str | int]]) -> bytes:
    return b',"%b":%b' % (PARTS_MEMBER.encode(), orjson.dumps(places)) if places else b""


def _shrink(body: bytes, limit_bytes: int, listed_bytes: int, style: PartStyle) -> "_Shrinking":
    """Return what must go besides."""
    worth_bytes = min(_WORTH_BYTES, limit_bytes // 8)
    while True:
        excess_bytes = len(body) + listed_bytes - limit_bytes
        shrinking = _Shrinking(body, excess_bytes, worth_bytes, style)
        if excess_bytes > 0:
            ((_, start, end),) = find_members(body, lambda name, _: name == _STATE)
            shrinking.shrink(start, end, (_STATE,))
        rest = replace_spans(body, shrinking.references) if shrinking.references else body
        if limit_bytes <= worth_bytes or not is_heavier(rest):
            return shrinking
        limit_bytes = min(limit_bytes, len(body)) // 2


class _Shrinking:
    """Takes the largest values out of a state until enough is saved."""

    def __init__(self, body: bytes, excess_bytes: int, worth_bytes: int, style: PartStyle) -> None:
        self._body = body
        self._excess_bytes = excess_bytes + len(b',"":[]') + len(PARTS_MEMBER)
        self._worth_bytes = worth_bytes
        self._style = style
        self.parts: dict[str, bytes] = {}
        self.places: list[list[str | int]] = []
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
        return size_bytes - 256 - len(self._style.run_folder) - len(orjson.dumps(place))

    def _take(self, start: int, end: int, place: tuple[str, ...]) -> None:
        made = make_parts(memoryview(self._body)[start:end], self._style)
        self.parts |= made.files
        self.places.append(list(place))
        self._excess_bytes -= self._saving(end - start, place)
        self.references[start, end] = orjson.dumps(made.reference)


def _size(member: _Member) -> int:
    return member[2] - member[1]
