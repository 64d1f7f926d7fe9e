"""Rebuilding the queue from a damaged file: sound rows are saved, lost ones counted and named.

A row of `item`, `run` or `note` is believed if it matches its seal, a body if it matches its digest. Where
only the body of a checkpoint is left, its JSON text says the rest.
"""

import hashlib
import sqlite3
from collections.abc import Iterator
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

import orjson

from holdfast.disk import sync_folder
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress
from holdfast.format.triggers import Priority, Trigger
from holdfast.queue import tables
from holdfast.queue.contract import DAMAGED, LOST
from holdfast.queue.rows import ItemRow, Totals, make_seal
from holdfast.queue.sqlite_pages import Column, carve
from holdfast.queue.tables import raise_runs, write_body, write_notes

REPORT = "salvage.json"

# Which of several versions of a row is the newest, if the time does not say.
_STATUSES = (Progress.SPOOLED, Progress.COMMITTED, Progress.REFUSED, Progress.VERIFIED)


@dataclass(slots=True)
class SalvageReport:
    """What became of the items of a damaged file. Nothing of it is deleted."""

    salvaged: int = 0
    set_aside: int = 0
    lost: int = 0
    lost_checkpoints: list[str] = field(default_factory=list)

    def numbers(self) -> dict[str, int]:
        """Return the counts, for the log."""
        return {"salvaged": self.salvaged, "set_aside": self.set_aside, "lost": self.lost}

    def write_to(self, folder: Path) -> None:
        """Leave the report beside the damaged file; it marks the salvage as finished."""
        (folder / REPORT).write_bytes(orjson.dumps(asdict(self), option=orjson.OPT_INDENT_2))
        sync_folder(folder)

    @staticmethod
    def leave_unwritten(folder: Path) -> None:
        """Mark a salvage as finished of which no report was written."""
        (folder / REPORT).touch()
        sync_folder(folder)


class Salvage:
    """What a damaged file still says, read twice: first all but the bodies, which may be many, then those."""

    def __init__(self, damaged: Path, layout: Layout, now: float) -> None:
        self.report = SalvageReport()
        self._damaged = damaged
        self._layout = layout
        self._now = now
        self._rows: dict[str, ItemRow] = {}
        self._runs: list[tuple[str, int, int]] = []
        self._notes: dict[str, bytes] = {}
        self._before = Totals()
        self._sound_bodies: dict[int, set[bytes]] = {}
        self._kept: set[str] = set()
        for rowid, columns in carve(damaged):
            self._sort_in(rowid, columns)
        self._by_arrival = {row.arrival: row for row in sorted(self._rows.values(), key=_age)}
        self._after = self._before._replace(depth=0, bytes=0, set_aside=0, set_aside_bytes=0)

    def write_to(self, database: sqlite3.Connection) -> None:
        """Write all that is sound into a new database."""
        for arrival, digest, body in self._bodies():
            self._keep(database, arrival, digest, body)
        for row in self._rows.values():
            if row.checkpoint_id not in self._kept:
                self._keep_receipt(database, row)
        before = self._before.depth + self._before.set_aside
        unaccounted = before - self._after.depth - self._after.set_aside
        report = self.report
        report.lost = max(len(report.lost_checkpoints), unaccounted)
        raise_runs(database, self._runs)
        write_notes(database, self._notes.items())
        salvaged, lost = self._after.salvaged + report.salvaged, self._after.lost + report.lost
        database.execute(tables.ADD_TO_TOTAL, self._after._replace(salvaged=salvaged, lost=lost))

    def _sort_in(self, rowid: int, columns: tuple[Column, ...]) -> None:
        if row := _as_item(rowid, columns):
            known = self._rows.get(row.checkpoint_id)
            if known is None or _age(known) <= _age(row):
                self._rows[row.checkpoint_id] = row
            return
        match columns:
            case (None, bytes(digest), bytes(body)) if hashlib.sha256(body).digest() == digest:
                self._sound_bodies.setdefault(rowid, set()).add(digest)
            case (str(run_id), int(highest), int(floor), bytes(seal)):
                if seal == make_seal((run_id, highest, floor)):
                    self._runs.append((run_id, highest, floor))
            case (str(name), bytes(value), bytes(seal)):
                if seal == make_seal((name,), value):
                    self._notes[name] = value
            case (int(), int(), int(), int(), int(), int()):
                self._before = Totals(*columns)  # type: ignore[arg-type]

    def _bodies(self) -> Iterator[tuple[int, bytes, bytes]]:
        """Yield arrival, digest and bytes of each body; an empty digest if it is not sound.

        Of several versions of one, that which its row speaks of is best, and any sound one better than none.
        """
        for arrival, columns in carve(self._damaged):
            match columns:
                case (None, bytes(digest), bytes(body)):
                    is_sound = hashlib.sha256(body).digest() == digest
                    found, row = self._sound_bodies.get(arrival, set()), self._by_arrival.get(arrival)
                    best = found & {row.digest} if row else found
                    if digest in (best or found) if is_sound else not found:
                        yield arrival, digest if is_sound else b"", body

    def _keep(self, database: sqlite3.Connection, arrival: int, digest: bytes, body: bytes) -> None:
        row = self._by_arrival.get(arrival)
        if digest and (row is None or row.digest != digest):
            row = self._rebuild(arrival, digest, body) or row
        # A damaged body without a row may be anything: it stays in the old file.
        if row is None or row.status == Progress.VERIFIED or row.checkpoint_id in self._kept:
            return
        is_sound = digest == row.digest
        if is_sound and row.status == Progress.REFUSED and row.reason not in (DAMAGED, LOST):
            self._insert(database, row, body)
        elif is_sound:
            status = row.status if row.status == Progress.COMMITTED else str(Progress.SPOOLED)
            self._insert(database, row._replace(status=status, reason=None), body)
        else:
            self._insert(database, row._replace(status=str(Progress.REFUSED), reason=DAMAGED), body)

    def _insert(self, database: sqlite3.Connection, row: ItemRow, body: bytes) -> None:
        row = row._replace(attempts=0, not_before=0.0, changed_at=self._now)
        if not database.execute(tables.INSERT_ITEM, row).rowcount:
            return
        write_body(database, row.arrival or 0, hashlib.sha256(body).digest(), body)
        self._kept.add(row.checkpoint_id)
        totals = self._after
        if row.status == Progress.REFUSED:
            self.report.set_aside += 1
            aside = totals.set_aside + 1, totals.set_aside_bytes + row.size
            self._after = totals._replace(set_aside=aside[0], set_aside_bytes=aside[1])
        else:
            self.report.salvaged += 1
            self._after = totals._replace(depth=totals.depth + 1, bytes=totals.bytes + row.size)

    def _keep_receipt(self, database: sqlite3.Connection, row: ItemRow) -> None:
        """Keep what is known of a checkpoint without a body; one that should have a body is lost."""
        if row.status != Progress.VERIFIED and row.reason != LOST:
            self.report.lost_checkpoints.append(row.checkpoint_id)
            row = row._replace(status=str(Progress.REFUSED), reason=LOST, changed_at=self._now)
        database.execute(tables.INSERT_ITEM, row)

    def _rebuild(self, arrival: int, digest: bytes, body: bytes) -> ItemRow | None:
        """Return the row of a checkpoint of which only the body is left; None if that does not say enough."""
        try:
            fields: dict[str, Any] = orjson.loads(body)
            trigger, priority = Trigger(fields["trigger"]), Priority(fields["priority"])
            checkpoint_id, run_id = str(fields["checkpoint_id"]), str(fields["run_id"])
            sequence = int(fields["sequence_number"])
        except (ValueError, TypeError, LookupError):
            return None
        known = self._rows.get(checkpoint_id)
        if known and known.digest in self._sound_bodies.get(known.arrival or 0, set()):
            return None  # this is an older version of a checkpoint that is whole elsewhere
        return ItemRow(
            arrival=arrival,
            checkpoint_id=checkpoint_id,
            run_id=run_id,
            sequence=sequence,
            trigger=str(trigger),
            priority=priority.rank,
            size=len(body),
            arrived_at=self._now,
            is_automatic=0,
            digest=digest,
            seal=b"",
            fingerprint=known.fingerprint if known else None,
            persistence=str(Persistence.NORMAL),
            status=known.status if known else str(Progress.SPOOLED),
            file_path=self._layout.checkpoint_path(run_id, sequence, trigger),
            reason=known.reason if known else None,
        ).sealed()


def _as_item(rowid: int, columns: tuple[Column, ...]) -> ItemRow | None:
    """Return the row of `item` that these columns are; None if they are none, or not sound."""
    if len(columns) != len(ItemRow._fields) or columns[0] is not None:
        return None
    row = ItemRow._make((rowid, *columns[1:]))
    try:
        # SQLite stores a whole number as such, though the column is of floating point.
        row = row._replace(
            arrived_at=float(row.arrived_at),
            not_before=float(row.not_before),
            changed_at=float(row.changed_at),
        )
        is_ours = row.is_plausible and row.is_sound
    except (TypeError, ValueError):
        return None
    return row if is_ours else None


def _age(row: ItemRow) -> tuple[float, int]:
    return row.changed_at, _STATUSES.index(Progress(row.status))
