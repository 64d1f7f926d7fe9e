"""What came before the newest checkpoint of a run, as its index and the spool name it."""

from collections import OrderedDict
from collections.abc import Iterator, Sequence
from contextlib import suppress
from threading import Lock
from typing import NamedTuple

from holdfast.errors import (
    GatewayError,
    HoldfastError,
    IntegrityFailure,
    InvalidCheckpoint,
    SpoolDamaged,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import read_header
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import parse_checkpoint_name
from holdfast.format.receipt import QueueItem
from holdfast.format.review import Held
from holdfast.format.triggers import Trigger
from holdfast.repository.queued import SpooledRun
from holdfast.repository.stored_run import StoredRun
from holdfast.styles.review import Past, Reviewed, open_reviewed, read_reviewed, review_after
from holdfast.styles.review_signs import TELLING, has_signs

# What ends a run, and what is sealed, says more than it shows.
_SEALED = b'"$sealed"'
_ENDS = (b'"status":"completed"', _SEALED)
_MOST_REMEMBERED = 64


class _Carried(NamedTuple):
    """The checkpoints of a spooled run in their order: ids, entries, and what it waits for.

    The first of `holds` is what the run waited for before them; then comes one for each checkpoint.
    """

    ids: list[str]
    entries: list[IndexEntry]
    holds: list[Held | None]


class SpooledPast:
    """What the spooled checkpoints of runs say, in memory: they do not change, so each is read once."""

    def __init__(self) -> None:
        self._known: OrderedDict[str, _Carried] = OrderedDict()
        self._lock = Lock()

    def carry(
        self, before: Held | None, items: Sequence[QueueItem], waiting: SpooledRun
    ) -> tuple[list[IndexEntry], Held | None]:
        """Return the spooled checkpoints as the index would name them, and what the run waits for then.

        They come in the order of their numbers; `before` is what the run waits for before them.
        """
        ids, entries, holds = self._recall(waiting.run_id, before, items)
        held, is_certain = holds[-1], True
        known = len(ids)
        for item in items[known:]:
            entry, is_read = _entry_of(item, waiting)
            held, is_understood = _carry_one(held, item, waiting)
            entries.append(entry)
            is_certain = is_certain and is_read and is_understood
            if is_certain:  # what could not be read now may be readable later
                ids.append(item.checkpoint_id)
                holds.append(held)
        if len(ids) > known:
            self._keep(waiting.run_id, _Carried(ids, entries[: len(ids)], holds))
        return entries, held

    def _recall(self, run_id: str, before: Held | None, items: Sequence[QueueItem]) -> _Carried:
        """Return what is known of the first items, without those that have left the spool before them."""
        known = self._known.get(run_id)
        if known and items and items[0].checkpoint_id in known.ids:
            start = known.ids.index(items[0].checkpoint_id)
            length = len(known.ids) - start
            wanted = [(item.checkpoint_id, item.sequence) for item in items[:length]]
            found = [(entry.checkpoint_id, entry.sequence) for entry in known.entries[start:]]
            if known.holds[start] == before and wanted == found:
                return _Carried(known.ids[start:], known.entries[start:], known.holds[start:])
        return _Carried([], [], [before])

    def _keep(self, run_id: str, carried: _Carried) -> None:
        with self._lock:
            self._known[run_id] = carried
            self._known.move_to_end(run_id)
            if len(self._known) > _MOST_REMEMBERED:
                self._known.popitem(last=False)


def look_back(run: StoredRun, waiting: SpooledRun, past: SpooledPast) -> Past:
    """Return the checkpoints of a run, stored and spooled, without opening more of them than it takes."""
    index = _index_of(run)
    stored = index.entries if index else tuple(_named_by_files(run))
    known = {entry.checkpoint_id for entry in stored}
    spooled = [item for item in reversed(waiting.pending) if item.checkpoint_id not in known]
    entries, held = past.carry(index.review if index else None, spooled, waiting)

    def read(entry: IndexEntry) -> Envelope | None:
        envelope = waiting.at(entry.checkpoint_id) if entry.checkpoint_id else None
        if envelope:
            return envelope
        with suppress(GatewayError, IntegrityFailure, UnknownRun):
            return run.at(entry.sequence)
        return None

    return Past((*stored, *entries), held, read)


def carry_spooled(before: Held | None, items: Sequence[QueueItem], waiting: SpooledRun) -> Held | None:
    """Return what a run waits for after these checkpoints of the spool, in the order of their numbers."""
    for item in items:
        before, _ = _carry_one(before, item, waiting)
    return before


def _carry_one(before: Held | None, item: QueueItem, waiting: SpooledRun) -> tuple[Held | None, bool]:
    """Return what a run waits for after one more checkpoint, and whether that could be read.

    Most say nothing of that, which their bytes show without parsing them.
    """
    try:
        body = waiting.spool.read(item)
        if not (item.trigger in TELLING or has_signs(body) or any(sign in body for sign in _ENDS)):
            return before, True
        moment = _understand(item, body, waiting)
    except (HoldfastError, ValueError):
        return before, False
    return (review_after(before, moment), True) if moment else (before, False)


def _understand(item: QueueItem, body: bytes, waiting: SpooledRun) -> Reviewed | None:
    """Return what a checkpoint says of a review, read as it is: to stamp it first takes thrice as long."""
    if _SEALED in body:
        envelope = waiting.open(item)
        return open_reviewed(envelope) if envelope else None
    return read_reviewed(read_header(body), body)


def _index_of(run: StoredRun) -> Index | None:
    try:
        return run.read_index()
    except (GatewayError, IntegrityFailure):
        return None


def _named_by_files(run: StoredRun) -> Iterator[IndexEntry]:
    """Yield what the names of files tell where there is no index: numbers and triggers."""
    try:
        names = sorted(run.files)
    except GatewayError:
        return
    for name in names:
        if found := parse_checkpoint_name(name):
            yield IndexEntry(found[0], "", found[1], "", name, "", "")


def _entry_of(item: QueueItem, waiting: SpooledRun) -> tuple[IndexEntry, bool]:
    """Return a checkpoint of the spool as the index would name it, and whether it could be read.

    The phase is told only where that counts.
    """
    phase = timestamp = ""
    is_read = True
    if item.trigger is Trigger.PHASE_COMPLETE:
        try:
            header = read_header(waiting.spool.read(item))
            phase, timestamp = header.phase, header.timestamp
        except (SpoolDamaged, InvalidCheckpoint, UnknownRun, ValueError):
            is_read = False
    number, trigger = item.sequence, item.trigger.value
    return IndexEntry(number, item.checkpoint_id, trigger, timestamp, "", "", "", phase), is_read
