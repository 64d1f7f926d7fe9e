"""Rebuilding the spool from a damaged database: sound rows are saved, lost ones counted and named."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass, field, replace
from pathlib import Path

import orjson

from holdfast.cache.database import DATABASE
from holdfast.cache.store import open_store
from holdfast.disk import SEAL_BYTES, DatabaseDamaged, RowDamaged, digest_of, sync_folder, unseal
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress, Receipt
from holdfast.queue import keys
from holdfast.queue.carving import carve
from holdfast.queue.records import DAMAGED, Record, RunNumbers, Totals

REPORT = "salvage.json"
LOST = "lost: the spool's database was damaged, and this checkpoint could not be read from it"

_BATCH_BYTES = 8 * 1024**2


@dataclass(slots=True)
class SalvageReport:
    """What became of the items of a damaged database. Nothing of it is deleted."""

    salvaged: int = 0
    set_aside: int = 0
    lost: int = 0
    lost_checkpoints: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        """Return the counts, for the log."""
        return {"salvaged": self.salvaged, "set_aside": self.set_aside, "lost": self.lost}

    def write_to(self, folder: Path) -> None:
        """Leave the report beside the damaged database; it marks the salvage as finished."""
        (folder / REPORT).write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        sync_folder(folder)


def salvage(damaged: Path, target: Path, *, layout: Layout, now: float) -> SalvageReport:
    """Save every sound row of the database in `damaged` into a new one in `target`.

    Raises SpoolUnwritable if there is no room for it.
    """
    find = _Find(damaged / DATABASE)
    plan = _Plan(find, layout, now)
    store = open_store(target, is_durable=True)
    try:
        for rows in _in_batches(plan.bodies(find)):
            store.set_many(rows)
        plan.settle()
        store.set_many(plan.small_rows())
    finally:
        store.close()
    return plan.report


class _Find:
    """What a first reading of the damaged file found: small rows, and which bodies are sound."""

    def __init__(self, database: Path) -> None:
        self._database = database
        self.small: dict[str, bytes] = {}
        self.records: dict[str, Record] = {}
        self.bodies: dict[str, bool] = {}
        for key, sealed in carve(database):
            self._sort_in(key, sealed)

    def read_bodies(self) -> Iterator[tuple[str, bytes]]:
        """Yield every body again, sound or not, without its digest."""
        for key, sealed in carve(self._database):
            if key in self.bodies and _is_sound(key, sealed) == self.bodies[key]:
                yield key, sealed[SEAL_BYTES:]

    def _sort_in(self, key: str, sealed: bytes) -> None:
        is_sound = _is_sound(key, sealed)
        if key.startswith((keys.TICKET, keys.ASIDE)):
            if _is_slot(key):
                self.bodies[key] = is_sound or self.bodies.get(key, False)
        elif is_sound and key.startswith(keys.RECEIPT):
            record = Record.decode(sealed[SEAL_BYTES:])
            known = self.records.get(record.receipt.checkpoint_id)
            if known is None or known.updated_at <= record.updated_at:
                self.records[record.receipt.checkpoint_id] = record
        elif is_sound:
            self.small[key] = sealed[SEAL_BYTES:]


class _Plan:
    """What the new database is to hold: one body at most for each checkpoint, and receipts that agree."""

    def __init__(self, find: _Find, layout: Layout, now: float) -> None:
        self.report = SalvageReport()
        self._layout = layout
        self._now = now
        self._records = dict(find.records)
        self._small = dict(find.small)
        self._old_totals = Totals.decode(find.small.get(keys.TOTALS))
        self._totals = replace(self._old_totals, depth=0, depth_bytes=0, aside=0, aside_bytes=0)
        self._chosen = self._choose(find.bodies)
        self._written: set[str] = set()

    def bodies(self, find: _Find) -> Iterator[tuple[str, bytes]]:
        """Yield the bodies under their new keys, and bring the receipts into line with them."""
        for old_key, body in find.read_bodies():
            slot = keys.parse_slot(old_key)
            checkpoint_id = slot.item.checkpoint_id
            if self._chosen.get(checkpoint_id) != old_key or checkpoint_id in self._written:
                continue
            self._written.add(checkpoint_id)
            record = self._records.get(checkpoint_id) or self._make_record(slot, body)
            is_sound = find.bodies[old_key]
            if is_sound and old_key.startswith(keys.TICKET):
                self._keep(replace(record, slot=slot.name, body_sha256=digest_of(body).hex()), len(body))
                yield keys.TICKET + slot.name, body
            else:
                reason = record.receipt.reason if is_sound else DAMAGED
                self._set_aside(replace(record, slot=slot.name), len(body), reason or DAMAGED)
                yield keys.ASIDE + slot.name, body

    def settle(self) -> None:
        """Name as lost what has a receipt that waits, but no body; count what not even that is left of."""
        for checkpoint_id, record in self._records.items():
            is_waiting = record.receipt.status in {Progress.SPOOLED, Progress.COMMITTED}
            if is_waiting and checkpoint_id not in self._written:
                self._records[checkpoint_id] = record.with_receipt(
                    self._now, status=Progress.REFUSED, reason=LOST
                )
                self.report.lost_checkpoints.append(checkpoint_id)
        before = self._old_totals.depth + self._old_totals.aside
        unaccounted = before - self._totals.depth - self._totals.aside
        self.report.lost = max(len(self.report.lost_checkpoints), unaccounted)
        self._totals.salvaged += self.report.salvaged
        self._totals.lost += self.report.lost

    def small_rows(self) -> dict[str, bytes]:
        """Return all rows but the bodies."""
        rows = {key: row for key, row in self._small.items() if not key.startswith(keys.HOLD)}
        numbers = {
            key: RunNumbers.decode(row) for key, row in self._small.items() if key.startswith(keys.RUN)
        }
        for checkpoint_id, record in self._records.items():
            rows[keys.RECEIPT + checkpoint_id] = record.encode()
            run = numbers.setdefault(keys.RUN + record.receipt.run_id, RunNumbers())
            run.mark(record.receipt.sequence_number)
        rows |= {key: each.encode() for key, each in numbers.items()}
        rows[keys.TOTALS] = self._totals.encode()
        return rows

    def _choose(self, bodies: dict[str, bool]) -> dict[str, str]:
        """Return the key of the best body for each checkpoint that is not verified."""
        chosen: dict[str, str] = {}
        for key in sorted(bodies, key=lambda each: (bodies[each], self._is_current(each))):
            slot = keys.parse_slot(key)
            self._totals.arrivals = max(self._totals.arrivals, slot.arrival)
            record = self._records.get(slot.item.checkpoint_id)
            is_verified = record is not None and record.receipt.status == Progress.VERIFIED
            # A damaged body without a receipt may have a damaged name, too: it stays in the old file.
            if not is_verified and (record or bodies[key]):
                chosen[slot.item.checkpoint_id] = key
        return chosen

    def _is_current(self, key: str) -> bool:
        slot = keys.parse_slot(key)
        record = self._records.get(slot.item.checkpoint_id)
        return record is not None and record.slot == slot.name

    def _keep(self, record: Record, size_bytes: int) -> None:
        self._totals.enter(size_bytes)
        self.report.salvaged += 1
        if record.receipt.status == Progress.REFUSED:
            record = record.with_receipt(self._now, status=Progress.SPOOLED, reason=None)
        self._records[record.receipt.checkpoint_id] = record

    def _set_aside(self, record: Record, size_bytes: int, reason: str) -> None:
        self._totals.enter(size_bytes)
        self._totals.shelve(size_bytes)
        self.report.set_aside += 1
        record = record.with_receipt(self._now, status=Progress.REFUSED, reason=reason)
        self._records[record.receipt.checkpoint_id] = record

    def _make_record(self, slot: keys.Slot, body: bytes) -> Record:
        item = slot.item
        path = self._layout.checkpoint_path(item.run_id, item.sequence, item.trigger)
        receipt = Receipt(
            item.checkpoint_id,
            item.run_id,
            item.sequence,
            Progress.SPOOLED,
            Persistence.NORMAL,
            path,
        )
        return Record(receipt, slot.name, digest_of(body).hex(), None, self._now)


def _is_sound(key: str, sealed: bytes) -> bool:
    try:
        unseal(key, sealed)
    except RowDamaged:
        return False
    return True


def _is_slot(key: str) -> bool:
    try:
        keys.parse_slot(key)
    except DatabaseDamaged:
        return False
    return True


def _in_batches(rows: Iterator[tuple[str, bytes]]) -> Iterator[dict[str, bytes]]:
    """Gather rows into batches that fit into memory, each stored by one transaction."""
    batch: dict[str, bytes] = {}
    size_bytes = 0
    for key, value in rows:
        batch[key] = value
        size_bytes += len(value)
        if size_bytes >= _BATCH_BYTES:
            yield batch
            batch, size_bytes = {}, 0
    if batch:
        yield batch
