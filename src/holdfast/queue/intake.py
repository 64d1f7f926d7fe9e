"""Taking checkpoints in: acknowledged in the journal, and absorbed by the database when someone looks there.

The database alone would do; a commit of it writes every page with a header, and pages of its trees besides.
The journal is one write, so that its caller waits half as long.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import TypeVar

from holdfast.cache.store import Store
from holdfast.disk import StoreMoved, digest_of
from holdfast.errors import SpoolUnwritable
from holdfast.format.receipt import Progress, Receipt
from holdfast.logs import log
from holdfast.queue import journal, keys
from holdfast.queue.admission import Accepted, Books, Entry, Outcome, Terms, prepare
from holdfast.queue.journal import Journal, Mark
from holdfast.queue.records import DAMAGED, Record, RunNumbers, Totals

MOST_TOGETHER = 3
"""How many share a sync of the journal at most: for more, it would only be one more copy of all."""

T = TypeVar("T")


@dataclass(slots=True)
class _Unabsorbed:
    """What one generation of the journal has accepted, and the database does not know of yet."""

    generation: int = 1
    start: int = 0
    end: int = 0
    count: int = 0
    size_bytes: int = 0
    numbers: dict[str, RunNumbers] = field(default_factory=dict)
    records: dict[str, Record] = field(default_factory=dict)

    def add(self, record: Record, size_bytes: int, end: int) -> None:
        """Count one more in."""
        receipt = record.receipt
        self.count += 1
        self.size_bytes += size_bytes
        self.numbers.setdefault(receipt.run_id, RunNumbers()).mark(receipt.sequence_number)
        self.records[receipt.checkpoint_id] = record
        self.end = end


class Intake:
    """The way into one spool, for one process."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._absorbed = Mark()
        self._unabsorbed = _Unabsorbed()
        self._is_surveyed = False
        self._is_warm = False
        self._has_failed = False
        self._version: tuple[int, ...] = ()
        self._totals = Totals()
        self._numbers: dict[str, RunNumbers] = {}

    def admit(self, store: Store, entries: Sequence[Entry], terms: Terms) -> list[Outcome]:
        """Store all `entries` with one sync and answer each: its receipt, or why it is refused.

        When this returns, the disk has confirmed what the receipts say. Raises SpoolUnwritable for all.
        """
        try:
            return self._admit(store, entries, terms)
        except BaseException:
            self._has_failed = True
            raise

    def _admit(self, store: Store, entries: Sequence[Entry], terms: Terms) -> list[Outcome]:
        prepared = prepare(store, entries, terms)
        with self._journal.held():
            self._follow(store)
            books = self._open_books(store, entries, terms)
            outcomes = [books.settle(each) for each in prepared]
            if books.accepted:
                self._store(store, books.accepted)
            elif any(
                isinstance(each, Receipt) and each.checkpoint_id in self._unabsorbed.records
                for each in outcomes
            ):
                # Whoever wrote it may have failed, or died, before the disk confirmed it.
                self._journal.confirm()
        books.remember_numbers()
        return outcomes

    def absorb(self, store: Store) -> None:
        """Let the database have whatever is in the journal. Raises SpoolUnwritable."""
        is_known = self._is_surveyed and not self._unabsorbed.count
        if is_known and not self._journal.has_more(self._absorbed):
            return
        with self._journal.held():
            self._follow(store)
            self._absorbed = Mark.decode(store.get(keys.JOURNAL))
            self._catch_up(store)
            self._absorb(store)

    def rehearse(self, store: Store, work: Callable[[Store], T], refusal: SpoolUnwritable) -> T:
        """Return what `work` reads from the database as it would be if it could absorb the journal.

        For a disk that takes nothing more: what was accepted must be readable. Whatever `work` would write
        is refused.
        """
        with self._journal.held(), store.rehearse(refusal):
            _enter(store, self._journal.survey(self._absorbed).entries)
            return work(store)

    def _follow(self, store: Store) -> None:
        """Go on with the journal that is in the folder, if ours is not. Raises StoreMoved: look again."""
        if self._journal.is_in_place():
            return
        # What was deleted has nobody else to read it. It sets no mark, which would speak of the new one.
        lost = self._journal.survey(self._absorbed).entries if self._journal.is_deleted() else []
        with store.transact():
            _enter(store, lost)
        self._journal.reopen()
        self._unabsorbed, self._is_surveyed = _Unabsorbed(), False
        log.warning("journal_replaced", path=str(self._journal.path), saved=len(lost))
        raise StoreMoved(f"{self._journal.path} was replaced")

    def _open_books(self, store: Store, entries: Sequence[Entry], terms: Terms) -> Books:
        ids = {entry.checkpoint_id for entry in entries}
        # An id that was just made is nowhere, unless this is tried again because the first time has failed.
        are_new = terms.are_new and not self._has_failed
        doubtful = [each.checkpoint_id for each in entries if each.fingerprint or not are_new]
        runs = {entry.run_id for entry in entries}
        self._look_up(store, runs)
        new = self._unabsorbed
        totals = self._totals.with_more(new.count, new.size_bytes)
        numbers = {each: self._numbers[each].joined(new.numbers.get(each)) for each in runs}
        known = {each: new.records[each] for each in ids if each in new.records}
        stored = store.get_many([keys.RECEIPT + each for each in doubtful])
        records = {key.removeprefix(keys.RECEIPT): Record.decode(row) for key, row in stored.items()}
        return Books(totals, numbers, known | records, terms)

    def _look_up(self, store: Store, runs: set[str]) -> None:
        """Know the totals, and the numbers of `runs`, as the database has them now."""
        version = store.version()
        if version != self._version:
            self._version, self._numbers = (), {}
            found = store.get_many([keys.TOTALS, keys.JOURNAL])
            self._totals = Totals.decode(found.get(keys.TOTALS))
            self._absorbed = Mark.decode(found.get(keys.JOURNAL))
        if self._catch_up(store):
            self._look_up(store, runs)
            return
        if missing := runs - self._numbers.keys():
            found = store.get_many([keys.RUN + each for each in missing])
            self._numbers |= {each: RunNumbers.decode(found.get(keys.RUN + each)) for each in missing}
        self._version = version

    def _catch_up(self, store: Store) -> bool:
        """Learn what other processes accepted or absorbed; tell whether the database has changed by it."""
        is_changed = not self._is_surveyed and self._survey(store)
        generation, start = self._journal.first_after(self._absorbed)
        if (self._unabsorbed.generation, self._unabsorbed.start) != (generation, start):
            self._unabsorbed = _Unabsorbed(generation, start, end=start)
        new = self._unabsorbed
        entries, is_torn = self._journal.read(new.generation, new.end)
        for entry in entries:
            new.add(Record.decode(entry.note), len(entry.body), entry.end)
        return (is_torn and self._survey(store)) or is_changed

    def _store(self, store: Store, accepted: list[Accepted]) -> None:
        """Make the disk confirm `accepted`, in the journal, or in the database if that is quicker."""
        is_large = sum(len(each.body) for each in accepted) > journal.CAPACITY_BYTES
        if not self._is_warm or is_large or len(accepted) > MOST_TOGETHER:
            # Who puts once and ends is quicker without the journal, and so are many that share a sync.
            self._is_warm = True
            self._absorb(store, accepted)
            return
        entries = [(each.record.encode(), each.body, each.digest) for each in accepted]
        block, ends = journal.encode(self._unabsorbed.generation, self._unabsorbed.end, entries)
        if len(block) > journal.CAPACITY_BYTES:
            self._absorb(store, accepted)
            return
        if ends[-1] > journal.CAPACITY_BYTES:
            self._absorb(store)
            block, ends = journal.encode(self._unabsorbed.generation, 0, entries)
        self._journal.append(block, ends[-1] - len(block))
        for each, end in zip(accepted, ends, strict=True):
            self._unabsorbed.add(each.record, len(each.body), end)

    def _absorb(self, store: Store, accepted: Sequence[Accepted] = ()) -> None:
        new = self._unabsorbed
        if not (new.end or accepted):
            return
        entries, lost = self._journal.read(new.generation, new.start)[0], 0
        if len(entries) < new.count:
            entries = self._journal.survey(self._absorbed).entries
            lost = max(0, new.count - len(entries))
            self._warn(entries, lost)
        with store.transact():
            _enter(store, entries, accepted, lost=lost)
            if new.end:
                store.set(keys.JOURNAL, Mark(new.generation, new.end).encode())
        if new.end:
            self._begin_after(Mark(new.generation, new.end))

    def _survey(self, store: Store) -> bool:
        """Absorb what earlier processes have left, and look for damage in it; tell whether there was any."""
        entries, lost, mark = self._journal.survey(self._absorbed)
        if lost or not all(entry.is_sound for entry in entries):
            self._warn(entries, lost)
        is_new = mark != self._absorbed
        if is_new:
            with store.transact():
                _enter(store, entries, lost=lost)
                store.set(keys.JOURNAL, mark.encode())
            self._begin_after(mark)
        self._is_surveyed = True
        return is_new

    def _warn(self, entries: Sequence[journal.Entry], lost: int) -> None:
        damaged = sum(not entry.is_sound for entry in entries)
        log.warning("journal_damage_found", path=str(self._journal.path), damaged=damaged, lost=lost)

    def _begin_after(self, mark: Mark) -> None:
        self._absorbed = mark
        self._unabsorbed = _Unabsorbed(mark.generation + 1)


def _open_entry(entry: journal.Entry) -> Accepted:
    return Accepted(Record.decode(entry.note), entry.body, entry.digest, is_damaged=not entry.is_sound)


def _enter(
    store: Store, entries: Sequence[journal.Entry], accepted: Sequence[Accepted] = (), *, lost: int = 0
) -> None:
    """Write the rows of checkpoints that were accepted; those that are known already are passed over."""
    accepted = [*map(_open_entry, entries), *accepted]
    ids = [keys.RECEIPT + each.record.receipt.checkpoint_id for each in accepted]
    runs = {keys.RUN + each.record.receipt.run_id for each in accepted}
    found = store.get_many([keys.TOTALS, *ids, *runs])
    totals = Totals.decode(found.get(keys.TOTALS))
    numbers = {key: RunNumbers.decode(found.get(key)) for key in runs}
    rows: dict[str, bytes] = {}
    digests: dict[str, bytes] = {}
    for key, each in zip(ids, accepted, strict=True):
        record, place = each.record, each.record.place
        if key in found or key in rows:
            continue
        totals.arrivals = max(totals.arrivals, place.arrival)
        totals.enter(len(each.body))
        numbers[keys.RUN + record.receipt.run_id].mark(record.receipt.sequence_number)
        row, digest = keys.TICKET + record.slot, each.digest
        if each.is_damaged:
            totals.shelve(len(each.body))
            record = record.with_receipt(record.updated_at, status=Progress.REFUSED, reason=DAMAGED)
            row, digest = keys.ASIDE + record.slot, digest_of(each.body)
        rows[row], digests[row] = each.body, digest
        rows[key] = record.encode()
    totals.lost += lost
    rows |= {key: each.encode() for key, each in numbers.items()}
    rows[keys.TOTALS] = totals.encode()
    store.set_many(rows, digests)
