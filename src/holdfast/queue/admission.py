"""Accepting checkpoints into the spool: known or new, which number, is there room; then one transaction."""

import os
from collections.abc import Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Protocol

from holdfast.cache.store import Store
from holdfast.disk import digest_of
from holdfast.errors import CheckpointChanged, HoldfastError, SpoolError, SpoolFull, SpoolUnwritable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress, QueueItem, Receipt
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue import keys
from holdfast.queue.records import Record, RunNumbers, Totals

_MAX_REMEMBERED = 10_000


@dataclass(frozen=True, slots=True)
class SpoolLimits:
    """How much the spool takes, and what must stay free on its disk so that draining stays possible."""

    max_bytes: int = 1024**3
    max_items: int = 100_000
    min_free_bytes: int = 64 * 1024**2


class Entry(Protocol):
    """A checkpoint that asks to be accepted."""

    @property
    def checkpoint_id(self) -> str:
        """Return the id, the caller's or the one made for it."""
        ...

    @property
    def run_id(self) -> str:
        """Return the run that it belongs to."""
        ...

    @property
    def trigger(self) -> Trigger:
        """Return why it was made."""
        ...

    @property
    def priority(self) -> Priority:
        """Return how urgent it is."""
        ...

    @property
    def sequence(self) -> int | None:
        """Return the number that it asks for; None for the run's next."""
        ...

    @property
    def fingerprint(self) -> str | None:
        """Return a digest of the content that identifies it; None when its id was made here."""
        ...

    def body(self, sequence: int) -> bytes:
        """Return the bytes to store, under this number."""
        ...

    def without_number(self) -> "Entry":
        """Return the same checkpoint, asking for the run's next number."""
        ...


@dataclass(frozen=True, slots=True)
class Terms:
    """What holds for all checkpoints that are accepted together.

    `next_numbers` remembers, by run, which number is likely to come next. It may be wrong, as other
    processes take numbers too; then the body is made a second time. `are_new` says that ids which were made
    here were made for this very call: the receipt of one that is known would speak of a number it has not.
    """

    limits: SpoolLimits
    layout: Layout
    now: float
    persistence: Persistence
    next_numbers: dict[str, int]
    are_new: bool = False


@dataclass(frozen=True, slots=True)
class Prepared:
    """An entry with all that is costly to make, made before any lock is taken."""

    entry: Entry
    number: int
    body: bytes
    digest: bytes
    fingerprint: str | None


@dataclass(frozen=True, slots=True)
class Accepted:
    """A checkpoint that is to be stored: its record and its body, with the body's digest."""

    record: Record
    body: bytes
    digest: bytes
    is_damaged: bool = False


Outcome = Receipt | HoldfastError


def prepare(store: Store, entries: Sequence[Entry], terms: Terms) -> list[Prepared | HoldfastError]:
    """Return each entry with its likely number and body, or what is wrong with it.

    Raises SpoolUnwritable when there is no room for them on the disk.
    """
    guess = _Guess(store, terms.next_numbers)
    prepared = [_prepare(entry, guess) for entry in entries]
    size_bytes = sum(len(each.body) for each in prepared if isinstance(each, Prepared))
    _check_free_space(store.folder, size_bytes, terms.limits)
    return prepared


class _Guess:
    """The likely numbers of entries that are prepared together."""

    def __init__(self, store: Store, known: dict[str, int]) -> None:
        self._store = store
        self._known = known
        self._next: dict[str, int] = {}

    def number_for(self, entry: Entry) -> int:
        """Return the number that `entry` is likely to get."""
        number = self._next.get(entry.run_id) or self._known.get(entry.run_id)
        if number is None:
            number = RunNumbers.decode(self._store.get(keys.RUN + entry.run_id)).highest + 1
        likely = number if entry.sequence is None else entry.sequence
        self._next[entry.run_id] = max(number, likely + 1)
        return likely


def _prepare(entry: Entry, guess: _Guess) -> Prepared | HoldfastError:
    try:
        keys.check_ids(entry.run_id, entry.checkpoint_id)
        number = guess.number_for(entry)
        body = entry.body(number)
        return Prepared(entry, number, body, digest_of(body), entry.fingerprint)
    except SpoolError:
        raise
    except HoldfastError as error:
        return error


class Books:
    """What is known about a few entries at one moment, and which of them are accepted."""

    def __init__(
        self, totals: Totals, numbers: dict[str, RunNumbers], records: dict[str, Record], terms: Terms
    ) -> None:
        self._totals = totals
        self._numbers = numbers
        self._records = records
        self._terms = terms
        self.accepted: list[Accepted] = []

    def settle(self, prepared: Prepared | HoldfastError) -> Outcome:
        """Accept a prepared entry, under another number if its own was taken meanwhile."""
        if not isinstance(prepared, Prepared):
            return prepared
        entry = prepared.entry
        try:
            if record := self._records.get(entry.checkpoint_id):
                return _answer_again(entry, record)
            _check_totals(self._totals, len(prepared.body), self._terms.limits)
            numbers = self._numbers[entry.run_id]
            number = numbers.choose(entry.sequence)
            if number != prepared.number:
                body = entry.body(number)
                prepared = replace(prepared, number=number, body=body, digest=digest_of(body))
        except HoldfastError as error:
            return error
        numbers.mark(number)
        return self._accept(prepared)

    def remember_numbers(self) -> None:
        """Let the next guesses begin where these numbers end."""
        known = self._terms.next_numbers
        if len(known) > _MAX_REMEMBERED:
            known.clear()
        for run_id, numbers in self._numbers.items():
            known[run_id] = numbers.highest + 1

    def _accept(self, prepared: Prepared) -> Receipt:
        entry, totals, terms = prepared.entry, self._totals, self._terms
        totals.arrivals += 1
        totals.enter(len(prepared.body))
        slot = keys.Slot(totals.arrivals, self._item(prepared)).name
        path = terms.layout.checkpoint_path(entry.run_id, prepared.number, entry.trigger)
        receipt = Receipt(
            entry.checkpoint_id, entry.run_id, prepared.number, Progress.SPOOLED, terms.persistence, path
        )
        record = Record(receipt, slot, prepared.digest.hex(), prepared.fingerprint, terms.now)
        self._records[entry.checkpoint_id] = record
        self.accepted.append(Accepted(record, prepared.body, prepared.digest))
        return receipt

    def _item(self, prepared: Prepared) -> QueueItem:
        entry = prepared.entry
        return QueueItem(
            entry.checkpoint_id,
            entry.run_id,
            prepared.number,
            entry.trigger,
            entry.priority,
            len(prepared.body),
            self._terms.now,
            is_automatic=entry.sequence != prepared.number,
        )


def check_room(store: Store, limits: SpoolLimits) -> None:
    """Raise what even the smallest checkpoint would be refused with: SpoolFull, or SpoolUnwritable."""
    _check_free_space(store.folder, 1, limits)
    _check_totals(Totals.decode(store.get(keys.TOTALS)), 1, limits)


def _check_totals(totals: Totals, size_bytes: int, limits: SpoolLimits) -> None:
    items = totals.depth + totals.aside
    held_bytes = totals.depth_bytes + totals.aside_bytes
    if items >= limits.max_items or held_bytes + size_bytes > limits.max_bytes:
        raise SpoolFull(
            f"the spool holds {items:,} checkpoints in {held_bytes:,} bytes and takes at most "
            f"{limits.max_items:,} in {limits.max_bytes:,}; let it drain, or raise its limit"
        )


def _answer_again(entry: Entry, record: Record) -> Receipt:
    """Return the first receipt if `entry` says the same as then. Raises CheckpointChanged."""
    if entry.run_id == record.receipt.run_id:
        if entry.fingerprint and entry.fingerprint == record.fingerprint:
            return record.receipt
        # One of the two has an id that was made here, and so no fingerprint: compare what would be stored.
        is_unnamed = not (entry.fingerprint and record.fingerprint)
        if is_unnamed and _body_sha256(entry, record.receipt.sequence_number) == record.body_sha256:
            return record.receipt
    raise CheckpointChanged(entry.checkpoint_id)


def _body_sha256(entry: Entry, sequence: int) -> str:
    return digest_of(entry.body(sequence)).hex()


def _check_free_space(folder: Path, size_bytes: int, limits: SpoolLimits) -> None:
    """Refuse before the disk is full: an SQLite file needs room to be drained, too."""
    try:
        disk = os.statvfs(folder)
    except OSError as error:
        raise SpoolUnwritable(f"{folder} cannot be looked at: {error}") from error
    free_bytes = disk.f_bavail * disk.f_frsize
    if free_bytes - size_bytes < limits.min_free_bytes:
        raise SpoolUnwritable(
            f"the disk of {folder} has {free_bytes:,} bytes left, and "
            f"{limits.min_free_bytes:,} must stay free; "
            "free some space on it, or choose another disk with HOLDFAST_DATA_DIR"
        )
