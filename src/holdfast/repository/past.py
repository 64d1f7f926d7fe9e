"""What came before the newest checkpoint of a run, as its index and the spool name it."""

from collections.abc import Iterable, Iterator
from contextlib import suppress

from holdfast.errors import (
    GatewayError,
    HoldfastError,
    IntegrityFailure,
    InvalidCheckpoint,
    SpoolDamaged,
    UnknownRun,
)
from holdfast.format.checkpoint import Envelope, read_header
from holdfast.format.index import Index, IndexEntry
from holdfast.format.paths import parse_checkpoint_name
from holdfast.format.receipt import QueueItem
from holdfast.format.review import Held
from holdfast.format.triggers import Trigger
from holdfast.repository.queued import SpooledRun
from holdfast.repository.stored_run import StoredRun
from holdfast.styles.review import Past, carry_review
from holdfast.styles.review_signs import TELLING, has_signs

# What ends a run, and what is sealed, says more than it shows.
_ENDS = (b'"status":"completed"', b'"$sealed"')


def look_back(run: StoredRun, waiting: SpooledRun) -> Past:
    """Return the checkpoints of a run, stored and spooled, without opening more of them than it takes."""
    index = _index_of(run)
    stored = index.entries if index else tuple(_named_by_files(run))
    known = {entry.checkpoint_id for entry in stored}
    spooled = [item for item in reversed(waiting.pending) if item.checkpoint_id not in known]
    entries = (*stored, *(_entry_of(item, waiting) for item in spooled))

    def read(entry: IndexEntry) -> Envelope | None:
        envelope = waiting.at(entry.checkpoint_id) if entry.checkpoint_id else None
        if envelope:
            return envelope
        with suppress(GatewayError, IntegrityFailure, UnknownRun):
            return run.at(entry.sequence)
        return None

    return Past(entries, carry_spooled(index.review if index else None, spooled, waiting), read)


def carry_spooled(before: Held | None, items: Iterable[QueueItem], waiting: SpooledRun) -> Held | None:
    """Return what a run waits for after these checkpoints of the spool, in the order of their numbers.

    Most of them say nothing of that, which shows without understanding them.
    """
    for item in items:
        with suppress(HoldfastError, ValueError):
            body = waiting.spool.read(item)
            if item.trigger in TELLING or has_signs(body) or any(sign in body for sign in _ENDS):
                envelope = waiting.open(item)
                before = carry_review(before, [envelope] if envelope else [])
    return before


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


def _entry_of(item: QueueItem, waiting: SpooledRun) -> IndexEntry:
    """Return a checkpoint of the spool as the index would name it; the phase only where that counts."""
    phase = timestamp = ""
    if item.trigger is Trigger.PHASE_COMPLETE:
        with suppress(SpoolDamaged, InvalidCheckpoint, UnknownRun, ValueError):
            header = read_header(waiting.spool.read(item))
            phase, timestamp = header.phase, header.timestamp
    return IndexEntry(item.sequence, item.checkpoint_id, item.trigger.value, timestamp, "", "", "", phase)
