"""The index of a run: every checkpoint that is verified in the repository, by number."""

from collections.abc import Container, Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import orjson

from holdfast.errors import IntegrityFailure
from holdfast.format.checkpoint import RunStatus
from holdfast.format.review import Review, parse_review
from holdfast.format.versions import FORMAT_VERSION, refuse_newer


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Where one checkpoint lies. `blob_sha` is the git id of its own bytes, also when it lies in a batch.

    `others` are members that this version does not know, as text: a rewrite keeps them.
    """

    sequence: int
    checkpoint_id: str
    trigger: str
    timestamp: str
    file_path: str
    status: str
    blob_sha: str
    phase: str = ""
    others: bytes = b""


_ENTRY_MEMBERS = IndexEntry.__slots__[:-1]
_HEAD_MEMBERS = frozenset(
    {
        *("format_version", "run_id", "status", "workflow", "last_updated"),
        *("checkpoint_count", "pruned_through", "review", "checkpoints"),
    }
)


@dataclass(frozen=True)
class Index:
    """All checkpoints of one run, in the order of their numbers.

    Retention has removed checkpoints with numbers up to `pruned_through`: none of these is given again.
    `others` are members that this version does not know: a rewrite keeps them. `review` is what the run waits
    for that needs a person.
    """

    run_id: str
    entries: tuple[IndexEntry, ...] = ()
    workflow: str | None = None
    last_updated: str = ""
    pruned_through: int = 0
    others: Mapping[str, Any] = field(default_factory=dict)
    review: Review | None = None

    @property
    def newest(self) -> IndexEntry | None:
        """Return the entry with the highest number."""
        return self.entries[-1] if self.entries else None

    @property
    def status(self) -> RunStatus:
        """Return how the run stands according to its newest checkpoint."""
        return RunStatus(self.newest.status) if self.newest else RunStatus.IN_PROGRESS

    @cached_property
    def by_id(self) -> dict[str, IndexEntry]:
        """Return the entries by `checkpoint_id`."""
        return {entry.checkpoint_id: entry for entry in self.entries}

    def with_entries(self, added: Iterable[IndexEntry], *, workflow: str | None, now: str) -> "Index":
        """Return the union, by `checkpoint_id`; what is there already stays as it is."""
        united = {entry.checkpoint_id: entry for entry in added} | self.by_id
        entries = sorted(united.values(), key=_by_number)
        return replace(self, entries=tuple(entries), workflow=workflow or self.workflow, last_updated=now)

    def without(self, removed: Container[str]) -> "Index":
        """Return the index without the checkpoints with these ids; their numbers stay taken."""
        kept = tuple(entry for entry in self.entries if entry.checkpoint_id not in removed)
        gone = (entry.sequence for entry in self.entries if entry.checkpoint_id in removed)
        return replace(self, entries=kept, pruned_through=max(self.pruned_through, *gone, 0))

    def to_bytes(self) -> bytes:
        """Return the file's content: one line for each checkpoint, so that people and diffs can follow."""
        head: dict[str, Any] = {
            "format_version": FORMAT_VERSION,
            "run_id": self.run_id,
            "status": self.status,
            "workflow": self.workflow,
            "last_updated": self.last_updated,
            "checkpoint_count": len(self.entries),
        }
        if self.pruned_through:
            head["pruned_through"] = self.pruned_through
        if self.review:
            head["review"] = self.review.to_mapping()
        lines = b",\n".join(map(_format_entry, self.entries))
        return orjson.dumps(head | dict(self.others))[:-1] + b',"checkpoints":[\n' + lines + b"\n]}\n"


def _by_number(entry: IndexEntry) -> tuple[int, str]:
    return entry.sequence, entry.checkpoint_id


def parse_index(content: bytes, path: str) -> Index:
    """Return the index that a file holds. Raises IntegrityFailure, NewerFormat if it is a later one."""
    try:
        document = orjson.loads(content)
        refuse_newer(document, path)
        entries = tuple(_parse_entry(entry) for entry in document["checkpoints"])
        ordered = sorted(entries, key=_by_number)
        return Index(
            str(document["run_id"]),
            tuple(ordered),
            document.get("workflow"),
            document.get("last_updated", ""),
            int(document.get("pruned_through", 0)),
            {name: value for name, value in document.items() if name not in _HEAD_MEMBERS},
            parse_review(document.get("review")),
        )
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise IntegrityFailure(path, f"it is not an index: {error!r}") from error


def _parse_entry(entry: dict[str, Any]) -> IndexEntry:
    # The first five fields are the specification's; an index made by others may have no more.
    return IndexEntry(
        sequence=int(entry["sequence"]),
        checkpoint_id=str(entry["checkpoint_id"]),
        trigger=str(entry["trigger"]),
        timestamp=str(entry["timestamp"]),
        file_path=str(entry["file_path"]),
        status=RunStatus(entry.get("status", RunStatus.IN_PROGRESS)).value,
        blob_sha=str(entry.get("blob_sha", "")),
        phase=str(entry.get("phase", "")),
        others=_others_of(entry),
    )


def _others_of(entry: dict[str, Any]) -> bytes:
    others = {name: value for name, value in entry.items() if name not in _ENTRY_MEMBERS}
    return orjson.dumps(others)[1:-1] if others else b""


def _format_entry(entry: IndexEntry) -> bytes:
    text = orjson.dumps({name: getattr(entry, name) for name in _ENTRY_MEMBERS})
    return text[:-1] + b"," + entry.others + b"}" if entry.others else text
