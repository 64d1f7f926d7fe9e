"""Closed segments of an index: files of the same form that are written once and then stay."""

from collections.abc import Callable, Iterable
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, TypeVar

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.index_entries import UNREADABLE, IndexEntry, format_entries, parse_entries
from holdfast.format.paths import format_segment_name
from holdfast.format.versions import FORMAT_VERSION, refuse_newer
from holdfast.jsontext.members import sha256_hex

ParsedT = TypeVar("ParsedT")


# Neither an id nor the name of a file has one.
_BETWEEN = "/"


@dataclass(frozen=True)
class Outline:
    """What a writer must know of a segment: the ids of its checkpoints, and the names of their files.

    Each is one text: a process that begins asks for few ids, and finds them before the texts are taken apart.
    """

    ids_text: str
    names_text: str

    @classmethod
    def of(cls, ids: Iterable[str], names: Iterable[str]) -> "Outline":
        """Return the outline of these."""
        return cls(_BETWEEN.join(("", *ids, "")), _BETWEEN.join(("", *names, "")))

    def has_id(self, checkpoint_id: str) -> bool:
        """Whether this checkpoint is in the segment."""
        return f"{_BETWEEN}{checkpoint_id}{_BETWEEN}" in self.ids_text

    @cached_property
    def names(self) -> frozenset[str]:
        """Return the names of the files."""
        return frozenset(self.names_text.split(_BETWEEN)[1:-1])


@dataclass(frozen=True)
class Segment:
    """A closed part of the index, in a file of its own. `entries` is None until that file is read.

    Whoever has read it before may know its outline, which is as good for most.
    """

    file_path: str
    first: int
    last: int
    count: int
    sha256: str
    entries: tuple[IndexEntry, ...] | None = field(default=None, compare=False, repr=False)
    known: Outline | None = field(default=None, compare=False, repr=False)

    @property
    def name(self) -> str:
        """Return the name of its file."""
        return self.file_path.rpartition("/")[2]

    @cached_property
    def outline(self) -> Outline | None:
        """Return what is in here, in short; None if that is not known."""
        if self.entries is None:
            return self.known
        ids = [entry.checkpoint_id for entry in self.entries]
        return self.outline_of(ids, [entry.file_path for entry in self.entries])

    def outline_of(self, ids: Iterable[str], paths: Iterable[str]) -> Outline:
        """Return the outline of checkpoints with these ids, in the files at these paths."""
        folder = self.file_path.rpartition("/")[0] + "/"
        names = [path.removeprefix("/").removeprefix(folder) for path in dict.fromkeys(paths)]
        return Outline.of(ids, names)

    def outlined(self, known: Outline | None) -> "Segment":
        """Return the same, without its entries, with what is known of them."""
        return Segment(self.file_path, self.first, self.last, self.count, self.sha256, None, known)

    def in_short(self) -> "Segment":
        """Return the same without its entries."""
        return self if self.entries is None else self.outlined(self.outline)

    @cached_property
    def line(self) -> bytes:
        """Return what `index.json` says of it."""
        members = ("file_path", "first", "last", "count", "sha256")
        return orjson.dumps({name: getattr(self, name) for name in members})

    def has_id(self, checkpoint_id: str) -> bool:
        """Whether this checkpoint is in here, as far as that is known."""
        return self.outline is not None and self.outline.has_id(checkpoint_id)

    @cached_property
    def by_id(self) -> dict[str, IndexEntry]:
        """Return the entries by `checkpoint_id`; none if they were not read."""
        return {entry.checkpoint_id: entry for entry in self.entries or ()}

    def has_number(self, sequence: int) -> bool:
        """Whether a checkpoint in here has this number, or may have it, as its entries were not read."""
        return self.first <= sequence <= self.last and (
            self.entries is None or any(entry.sequence == sequence for entry in self.entries)
        )

    def to_bytes(self, run_id: str) -> bytes:
        """Return the file's content."""
        return _segment_bytes(run_id, self.entries or ())


def close_segment(run_id: str, run_folder: str, entries: tuple[IndexEntry, ...]) -> Segment:
    """Return the segment that these entries make, in the order of their numbers."""
    first, last = entries[0].sequence, entries[-1].sequence
    digest = sha256_hex(_segment_bytes(run_id, entries))
    path = f"{run_folder}/{format_segment_name(first, last)}"
    return Segment(path, first, last, len(entries), digest, entries)


def open_segment(segment: Segment, content: bytes, run_id: str) -> Segment:
    """Return a segment with its entries, from the content of its file.

    Raises IntegrityFailure, NewerFormat if a newer Holdfast wrote it.
    """
    return replace(segment, entries=_read(segment, content, run_id, parse_entries))


def outline_segment(segment: Segment, content: bytes, run_id: str) -> Segment:
    """Return a segment with its outline, from the content of its file: a tenth of the work of opening it.

    Raises like `open_segment`.
    """

    def parse(document: dict[str, Any]) -> Outline:
        checkpoints = document["checkpoints"]
        ids = [each["checkpoint_id"] for each in checkpoints]
        return segment.outline_of(ids, [each["file_path"] for each in checkpoints])

    return segment.outlined(_read(segment, content, run_id, parse))


def _read(
    segment: Segment, content: bytes, run_id: str, parse: Callable[[dict[str, Any]], ParsedT]
) -> ParsedT:
    _check_digest(segment, content)
    try:
        document = orjson.loads(content)
        refuse_newer(document, segment.file_path)
        found, count, found_run = parse(document), len(document["checkpoints"]), str(document["run_id"])
    except UNREADABLE as error:
        raise IntegrityFailure(segment.file_path, f"it is not an index: {error!r}") from error
    _check_segment(segment, found_run, count, run_id)
    return found


def _check_digest(segment: Segment, content: bytes) -> None:
    if sha256_hex(content) != segment.sha256:
        with suppress(ValueError):
            refuse_newer(orjson.loads(content), segment.file_path)
        raise IntegrityFailure(segment.file_path, "it is not the segment that index.json names")


def _check_segment(segment: Segment, found_run: str, count: int, run_id: str) -> None:
    if found_run != run_id:
        raise IntegrityFailure(segment.file_path, f"it is a segment of run {found_run!r}")
    if count != segment.count:
        reason = f"index.json counts {segment.count} checkpoints in it, but it names {count}"
        raise IntegrityFailure(segment.file_path, reason)


def parse_segment(segment: dict[str, Any]) -> Segment:
    """Return a segment as `index.json` names it."""
    return Segment(
        file_path=str(segment["file_path"]),
        first=int(segment["first"]),
        last=int(segment["last"]),
        count=int(segment["count"]),
        sha256=str(segment["sha256"]),
    )


def _segment_bytes(run_id: str, entries: tuple[IndexEntry, ...]) -> bytes:
    head = {"format_version": FORMAT_VERSION, "run_id": run_id, "checkpoint_count": len(entries)}
    return orjson.dumps(head)[:-1] + format_entries(entries)
