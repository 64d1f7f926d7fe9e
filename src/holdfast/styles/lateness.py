"""Checkpoints that come late: of a machine that was offline while the run went on elsewhere."""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from datetime import timedelta

import orjson

from holdfast.format.header import Header
from holdfast.format.index import IndexEntry
from holdfast.format.moments import epoch

# Clocks differ, and callers may have their own idea of when a checkpoint was made.
_TOLERANCE_S = 60.0
_MACHINE = b'"machine":'


def find_overtaken(timestamp: str, before: Iterable[IndexEntry]) -> IndexEntry | None:
    """Return the newest of the checkpoints `before` one, if it was made well after that one."""
    newest = max(before, key=lambda entry: epoch(entry.timestamp), default=None)
    saved_at = epoch(timestamp)
    if newest is None or not saved_at or epoch(newest.timestamp) - saved_at <= _TOLERANCE_S:
        return None
    return newest


def mark_late(added: Sequence[IndexEntry], stored: Sequence[IndexEntry], machine: str) -> list[IndexEntry]:
    """Return the entries that are added, those that come late with the name of the machine they come from."""
    return [
        _from_machine(entry, machine)
        if find_overtaken(entry.timestamp, (e for e in stored if e.sequence < entry.sequence))
        else entry
        for entry in added
    ]


def tell_late(newest: Header, entries: Sequence[IndexEntry]) -> list[str]:
    """Return a warning if the newest checkpoint was made long before those that it came after."""
    number = newest.sequence_number or 0
    before = find_overtaken(newest.timestamp, (e for e in entries if e.sequence < number and e.timestamp))
    if before is None:
        return []
    own = next((entry for entry in entries if entry.checkpoint_id == newest.checkpoint_id), None)
    machine = machine_of(own) if own else ""
    gap = timedelta(seconds=round(epoch(before.timestamp) - epoch(newest.timestamp)))
    whose = f"of the machine {machine}" if machine else "of another machine"
    reached = f"checkpoint {before.sequence} ({before.trigger}, {before.status})"
    warning = (
        f"checkpoint {number} came late: it is {whose}, was saved at {newest.timestamp}, {gap} before "
        f"{reached}, which the run had reached by then; to go on from there, roll the run back to it"
    )
    return [warning]


def machine_of(entry: IndexEntry) -> str:
    """Return the machine that a late checkpoint came from, as far as the index says."""
    if _MACHINE not in entry.others:
        return ""
    return str(orjson.loads(b"{" + entry.others + b"}").get("machine", ""))


def _from_machine(entry: IndexEntry, machine: str) -> IndexEntry:
    named = orjson.dumps({"machine": machine})[1:-1]
    return replace(entry, others=b",".join(filter(None, (entry.others, named)))) if machine else entry
