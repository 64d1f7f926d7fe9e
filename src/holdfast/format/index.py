"""The index of a run: every checkpoint that is verified in the repository, by number.

`index.json` is written anew with each checkpoint. So that it does not grow with the run, it lists only the
newest checkpoints; the others lie in segments, files of the same form that are closed once and then stay.
"""

from collections import ChainMap
from collections.abc import Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from itertools import chain
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.header import RunStatus
from holdfast.format.index_entries import UNREADABLE, IndexEntry, by_number, format_entries, parse_entries
from holdfast.format.index_segments import Segment, close_segment, parse_segment
from holdfast.format.review import Held, parse_held
from holdfast.format.versions import FORMAT_VERSION, refuse_newer

__all__ = ["MOST_LISTED", "Index", "IndexEntry", "highest_fence", "parse_index"]

MOST_LISTED = 100
"""How many checkpoints `index.json` lists at most; a run of no more has no segments."""

# Whoever looks at the newest twenty needs no segment.
_LEAST_LISTED = 20
# Fewer would be less to write with each checkpoint, but would make more segments, which are listed as well.
_MOST_LISTED_BESIDE_SEGMENTS = 70
_MOST_IN_A_SEGMENT = 1000

_HEAD_MEMBERS = frozenset(
    {
        *("format_version", "run_id", "status", "workflow", "last_updated"),
        *("checkpoint_count", "pruned_through", "review", "segments", "checkpoints"),
    }
)


@dataclass(frozen=True)
class Index:
    """The checkpoints of one run, in the order of their numbers: those listed, and those in segments.

    `entries` are those that `index.json` lists itself: the newest. Retention has removed checkpoints with
    numbers up to `pruned_through`: none of these is given again. `others` are members that this version does
    not know: a rewrite keeps them. `review` is what the run waits for that needs a person, or that one has
    stopped it. `fence_before` is the highest fence of those that a list of the newest leaves out.
    """

    run_id: str
    entries: tuple[IndexEntry, ...] = ()
    workflow: str | None = None
    last_updated: str = ""
    pruned_through: int = 0
    others: Mapping[str, Any] = field(default_factory=dict)
    review: Held | None = None
    segments: tuple[Segment, ...] = ()
    fence_before: int = 0

    @property
    def newest(self) -> IndexEntry | None:
        """Return the entry with the highest number."""
        return self.entries[-1] if self.entries else None

    @cached_property
    def current(self) -> IndexEntry | None:
        """Return the newest entry that counts: one with an older fence than one before it came too late."""
        for place in range(len(self.entries) - 1, -1, -1):
            entry = self.entries[place]
            before = max(self.fence_before, highest_fence(self.entries[:place]))
            if not entry.fence or entry.fence >= before:
                return entry
        return None

    @cached_property
    def fenced(self) -> frozenset[str]:
        """Return the ids of the entries that came too late: nobody resumes from these checkpoints."""
        late, highest = set(), self.fence_before
        for entry in self.entries:
            if 0 < entry.fence < highest:
                late.add(entry.checkpoint_id)
            highest = max(highest, entry.fence)
        return frozenset(late)

    @property
    def status(self) -> RunStatus:
        """Return how the run stands according to its newest checkpoint that counts."""
        return RunStatus(self.current.status) if self.current else RunStatus.IN_PROGRESS

    @property
    def checkpoint_count(self) -> int:
        """Return how many checkpoints there are, in segments or not."""
        return len(self.entries) + sum([segment.count for segment in self.segments])

    @property
    def is_whole(self) -> bool:
        """Whether every segment was read, so that nothing of the run is unknown."""
        return len(self.read_segments) == len(self.segments)

    @property
    def is_outlined(self) -> bool:
        """Whether it is known of every checkpoint of the run that it is there."""
        return all(segment.outline is not None for segment in self.segments)

    @cached_property
    def read_segments(self) -> list[Segment]:
        """Return the segments that were read; of a long run they are few."""
        return [segment for segment in self.segments if segment.entries is not None]

    def has_id(self, checkpoint_id: str) -> bool:
        """Whether this checkpoint is in the index, as far as its segments are known."""
        return checkpoint_id in self.by_id or any(each.has_id(checkpoint_id) for each in self.segments)

    @property
    def outlined_names(self) -> list[frozenset[str]]:
        """Return the names of files in those segments of which only the outline is known."""
        unread = (segment for segment in self.segments if segment.entries is None)
        return [segment.outline.names for segment in unread if segment.outline]

    @cached_property
    def by_id(self) -> Mapping[str, IndexEntry]:
        """Return the entries by `checkpoint_id`, with those of the segments that were read."""
        listed = {entry.checkpoint_id: entry for entry in self.entries}
        read = self.read_segments
        return ChainMap(listed, *(segment.by_id for segment in read)) if read else listed

    @cached_property
    def all_entries(self) -> tuple[IndexEntry, ...]:
        """Return the entries with those of the segments that were read."""
        if not self.read_segments:
            return self.entries
        closed = (segment.entries or () for segment in self.read_segments)
        return tuple(sorted(chain(*closed, self.entries), key=by_number))

    def unfolded(self, newest: int | None = None) -> "Index":
        """Return the index with all that is known in `entries`, or so many of the `newest`; for who looks."""
        left_out = self.all_entries[:-newest] if newest else ()
        entries = self.all_entries[len(left_out) :]
        return replace(self, entries=entries, segments=(), fence_before=highest_fence(left_out))

    def newest_first(self) -> Iterator[IndexEntry]:
        """Yield the entries with those of the segments that were read, the newest first."""
        closed = (reversed(segment.entries or ()) for segment in reversed(self.read_segments))
        return chain(reversed(self.entries), *closed)

    def has_number(self, sequence: int) -> bool:
        """Whether a checkpoint in a segment has this number, or may have it if that was not read."""
        return any(segment.has_number(sequence) for segment in self.segments)

    def with_entries(self, added: Iterable[IndexEntry], *, workflow: str | None, now: str) -> "Index":
        """Return the union, by `checkpoint_id`; what is there already stays as it is."""
        new = {entry.checkpoint_id: entry for entry in added if not self.has_id(entry.checkpoint_id)}
        entries = tuple(sorted((*self.entries, *new.values()), key=by_number))
        return replace(self, entries=entries, workflow=workflow or self.workflow, last_updated=now)

    def without(self, removed: Container[str]) -> "Index":
        """Return the index without the checkpoints with these ids; their numbers stay taken.

        A segment that loses some is made anew, and one that loses all goes; they must have been read.
        """
        kept = tuple(entry for entry in self.entries if entry.checkpoint_id not in removed)
        gone = (entry.sequence for entry in self.all_entries if entry.checkpoint_id in removed)
        segments = tuple(
            rest for segment in self.segments if (rest := _without(segment, removed, self.run_id)) is not None
        )
        pruned_through = max(self.pruned_through, *gone, 0)
        return replace(self, entries=kept, segments=segments, pruned_through=pruned_through)

    def with_moved(self, moved: Mapping[str, IndexEntry]) -> "Index":
        """Return the index with these entries, by `checkpoint_id`, in place of those that it has.

        A segment that has some of them is made anew.
        """
        entries = tuple(moved.get(entry.checkpoint_id, entry) for entry in self.entries)
        segments = tuple(_with_moved(segment, moved, self.run_id) for segment in self.segments)
        return replace(self, entries=entries, segments=segments)

    def folded(self, run_folder: str) -> "Index":
        """Return the index with its oldest entries in new segments, if it lists too many of them."""
        if len(self.entries) <= (_MOST_LISTED_BESIDE_SEGMENTS if self.segments else MOST_LISTED):
            return self
        closing, rest = self.entries[:-_LEAST_LISTED], self.entries[-_LEAST_LISTED:]
        closed = [
            close_segment(self.run_id, run_folder, closing[start : start + _MOST_IN_A_SEGMENT])
            for start in range(0, len(closing), _MOST_IN_A_SEGMENT)
        ]
        segments = sorted((*self.segments, *closed), key=lambda segment: (segment.first, segment.last))
        return replace(self, entries=rest, segments=tuple(segments))

    def to_bytes(self) -> bytes:
        """Return the file's content: one line for each checkpoint, so that people and diffs can follow."""
        head: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "run_id": self.run_id,
            "status": self.status,
            "workflow": self.workflow,
            "last_updated": self.last_updated,
            "checkpoint_count": self.checkpoint_count,
        }
        if self.pruned_through:
            head["pruned_through"] = self.pruned_through
        if self.review:
            head["review"] = self.review.to_mapping()
        closed = b""
        if self.segments:
            lines = b",\n".join(segment.line for segment in self.segments)
            closed = b',"segments":[\n' + lines + b"\n]"
        return orjson.dumps(head | dict(self.others))[:-1] + closed + format_entries(self.entries)


def highest_fence(entries: Iterable[IndexEntry]) -> int:
    """Return the highest fence that a checkpoint carries; 0 if none does."""
    return max((entry.fence for entry in entries), default=0)


def _without(segment: Segment, removed: Container[str], run_id: str) -> Segment | None:
    rest = tuple(entry for entry in segment.entries or () if entry.checkpoint_id not in removed)
    if segment.entries is None or len(rest) == len(segment.entries):
        return segment
    return close_segment(run_id, segment.file_path.rpartition("/")[0], rest) if rest else None


def _with_moved(segment: Segment, moved: Mapping[str, IndexEntry], run_id: str) -> Segment:
    entries = tuple(moved.get(entry.checkpoint_id, entry) for entry in segment.entries or ())
    if entries == (segment.entries or ()):
        return segment
    return close_segment(run_id, segment.file_path.rpartition("/")[0], entries)


def parse_index(content: bytes, path: str) -> Index:
    """Return the index that a file holds. Raises IntegrityFailure, NewerFormat if it is a later one."""
    try:
        document = orjson.loads(content)
        refuse_newer(document, path)
        return Index(
            str(document["run_id"]),
            parse_entries(document),
            document.get("workflow"),
            document.get("last_updated", ""),
            int(document.get("pruned_through", 0)),
            {name: value for name, value in document.items() if name not in _HEAD_MEMBERS},
            parse_held(document.get("review")),
            tuple(parse_segment(segment) for segment in document.get("segments") or ()),
        )
    except UNREADABLE as error:
        raise IntegrityFailure(path, f"it is not an index: {error!r}") from error
