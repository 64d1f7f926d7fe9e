"""The entries of an index: what it says of each checkpoint, in a line."""

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger

UNREADABLE = (ValueError, KeyError, TypeError, AttributeError)
"""What is raised where a file that was parsed has another form than ours."""


@dataclass(frozen=True, slots=True)
class IndexEntry:
    """Where one checkpoint lies. `blob_sha` is the git id of its own bytes, also when it lies in a batch.

    `fence` is that of the claim under which it was saved, 0 if there was none.
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
    fence: int = 0
    others: bytes = b""

    @property
    def ends_run(self) -> bool:
        """Whether nothing is to follow: the run is completed, or given up for good."""
        return self.trigger == Trigger.RUN_COMPLETE or self.status == RunStatus.COMPLETED


_ENTRY_MEMBERS = IndexEntry.__slots__[:-2]
_KNOWN_MEMBERS = IndexEntry.__slots__[:-1]


def format_entries(entries: Iterable[IndexEntry]) -> bytes:
    """Return the end of a file, with one line for each checkpoint: people and diffs can follow."""
    return b',"checkpoints":[\n' + b",\n".join(map(_format_entry, entries)) + b"\n]}\n"


def parse_entries(document: dict[str, Any]) -> tuple[IndexEntry, ...]:
    """Return the entries of a parsed file in their order. Raises one of UNREADABLE."""
    return tuple(sorted((_parse_entry(entry) for entry in document["checkpoints"]), key=by_number))


def by_number(entry: IndexEntry) -> tuple[int, str]:
    """Return what entries are ordered by."""
    return entry.sequence, entry.checkpoint_id


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
        fence=int(entry.get("fence", 0)),
        others=_others_of(entry),
    )


def _others_of(entry: dict[str, Any]) -> bytes:
    others = {name: value for name, value in entry.items() if name not in _KNOWN_MEMBERS}
    return orjson.dumps(others)[1:-1] if others else b""


def _format_entry(entry: IndexEntry) -> bytes:
    members = _KNOWN_MEMBERS if entry.fence else _ENTRY_MEMBERS
    text = orjson.dumps({name: getattr(entry, name) for name in members})
    return text[:-1] + b"," + entry.others + b"}" if entry.others else text
