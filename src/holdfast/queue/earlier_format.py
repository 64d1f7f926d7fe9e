"""A spool of version 0.1.0: rows under keys, and a journal in front of them. It is emptied by that version.

`queue/cache.db` has `ticket|…` and `aside|…` rows for the checkpoints, `receipt|…` for all that are known,
`run|…` for the numbers of runs, `note|…` for notes, and `journal` for how far it has absorbed the file of
that name. Values are behind a digest of 32 bytes.
"""

import hashlib
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from holdfast.errors import SpoolUnwritable
from holdfast.format.receipt import Progress
from holdfast.logs import log
from holdfast.queue import tables
from holdfast.queue.contract import LOST
from holdfast.queue.rows import ItemRow
from holdfast.queue.salvage import REPORT
from holdfast.queue.sqlite_file import connected

VERSION = "0.1.0"
# It was never released: this is the last commit that reads the format.
COMMIT = "35eec774db32"

_SEAL_BYTES = 32
_BLOCK_BYTES = 4096
# Of an entry: magic, generation, where its block begins, the sizes of note and body, the body's digest.
_FIELDS = struct.Struct(">8sQIII32s")
_MAGIC = b"holdfast"
_COUNT = (
    "select count(*) from Cache where (key >= 'ticket|' and key < 'ticket}')"
    " or (key >= 'aside|' and key < 'aside}')"
)


@dataclass(frozen=True, slots=True)
class EarlierSpool:
    """A spool of the earlier format that holds no checkpoint, and what it knows of those it had."""

    files: tuple[Path, ...]
    items: list[ItemRow]
    runs: list[tuple[str, int, int]]
    notes: list[tuple[str, bytes]]

    def write_to(self, database: sqlite3.Connection) -> None:
        """Write what it knows into the tables of the present format."""
        database.executemany(tables.INSERT_ITEM, self.items)
        tables.raise_runs(database, self.runs)
        tables.write_notes(database, self.notes)

    def discard(self) -> None:
        """Delete it."""
        for path in self.files:
            path.unlink(missing_ok=True)


def find(folder: Path) -> EarlierSpool | None:
    """Return what is left of a spool of the earlier format in `folder`; None if there is none.

    Raises SpoolUnwritable if checkpoints are in it, or may be.
    """
    database, journal = folder / "queue" / "cache.db", folder / "journal"
    moved = [] if (folder / "queue").exists() else folder.glob("damaged-*/cache.db")
    unfinished = [each for each in moved if not each.with_name(REPORT).exists()]
    if not (database.exists() or journal.exists() or unfinished):
        return None
    logs = [database.with_name(database.name + suffix) for suffix in ("-wal", "-shm")]
    found = EarlierSpool((journal, *logs, database), [], [], [])
    waiting, mark = len(unfinished), (0, 0)
    if database.exists():
        count, mark = _read_database(database, found)
        waiting += count
    waiting += sum(1 for _ in _unabsorbed(journal, mark)) if journal.exists() else 0
    if waiting:
        raise SpoolUnwritable(_refusal(folder, f"{waiting} checkpoints"))
    return found


def _refusal(folder: Path, what: str) -> str:
    return (
        f"{folder} holds {what} in the format of Holdfast {VERSION}, which this version does not read; "
        f"empty it with `holdfast drain` of version {VERSION} (in a clone: `git checkout {COMMIT}`, then "
        "`pip install .`), after `holdfast spool restore` if some are set aside, then start this "
        "version again"
    )


def _read_database(path: Path, found: EarlierSpool) -> tuple[int, tuple[int, int]]:
    """Add what it knows to `found`; return how many checkpoints it has, and how much of the journal."""
    try:
        with connected(path) as database:
            (count,) = database.execute(_COUNT).fetchone()
            mark = database.execute("select value from Cache where key = 'journal'").fetchone()
            generation, end = map(int, mark[0][_SEAL_BYTES:].split()) if mark else (0, 0)
            found.runs.extend((run, int(orjson.loads(row)[0]), 0) for run, row in _rows(database, "run"))
            found.notes.extend(_rows(database, "note"))
            items = [_parse_receipt(row) for _, row in _rows(database, "receipt")]
    except (sqlite3.Error, ValueError, LookupError, TypeError) as error:
        raise SpoolUnwritable(_refusal(path.parents[1], f"a damaged spool ({error})")) from error
    found.items.extend(row._replace(arrival=None) for row in sorted(items, key=_arrival))
    return count, (generation, end)


def _rows(database: sqlite3.Connection, kind: str) -> Iterator[tuple[str, bytes]]:
    """Yield name and value of each row of this kind; one that does not match its digest is left out."""
    select = "select key, value from Cache where key >= ? and key < ?"
    for key, sealed in database.execute(select, (f"{kind}|", f"{kind}}}")):
        seal, value = sealed[:_SEAL_BYTES], sealed[_SEAL_BYTES:]
        if hashlib.sha256(key.encode() + hashlib.sha256(value).digest()).digest() == seal:
            yield key.removeprefix(f"{kind}|"), value
        else:
            log.warning("spool_row_damaged", key=key)


def _parse_receipt(value: bytes) -> ItemRow:
    """Return the row of `item` that says the same as a receipt; one that should have a body is lost."""
    fields = orjson.loads(value)
    receipt = fields["receipt"]
    rank, arrival, arrived_at, sequence, trigger, size, _ = fields["slot"].split("|", 6)
    is_settled = receipt["status"] in (Progress.VERIFIED, Progress.REFUSED)
    return ItemRow(
        arrival=int(arrival),
        checkpoint_id=receipt["checkpoint_id"],
        run_id=receipt["run_id"],
        sequence=receipt["sequence_number"],
        trigger=trigger,
        priority=int(rank),
        size=int(size),
        arrived_at=float(arrived_at),
        is_automatic=int(sequence.endswith("+")),
        digest=bytes.fromhex(fields["body_sha256"]),
        seal=b"",
        fingerprint=fields["fingerprint"],
        persistence=receipt["persistence"],
        status=receipt["status"] if is_settled else str(Progress.REFUSED),
        file_path=receipt["file_path"],
        commit_sha=receipt["commit_sha"],
        blob_sha=receipt["blob_sha"],
        reason=receipt["reason"] if is_settled else LOST,
        changed_at=float(fields["updated_at"]),
    ).sealed()


def _arrival(row: ItemRow) -> int:
    return row.arrival or 0


def _unabsorbed(journal: Path, mark: tuple[int, int]) -> Iterator[int]:
    """Yield where each entry begins that the database does not have.

    A write that was cut short is the last one, and nobody was told of it: what is left of it does not count.
    """
    content = journal.read_bytes()
    entries = list(_entries(content, mark))
    last_block = entries[-1][1] if entries else 0
    expected = last_block
    for start, block_start, end, is_sound in entries:
        if block_start == last_block and (start != expected or not is_sound):
            return
        expected = end if block_start == last_block else expected
        yield start


def _entries(content: bytes, mark: tuple[int, int]) -> Iterator[tuple[int, int, int, bool]]:
    """Yield start, start of its block, end, and whether its body is sound, of each entry after `mark`."""
    start = 0
    while start + _FIELDS.size + _SEAL_BYTES <= len(content):
        fields = content[start : start + _FIELDS.size]
        magic, generation, block_start, note_bytes, body_bytes, digest = _FIELDS.unpack(fields)
        note_start = start + _FIELDS.size + _SEAL_BYTES
        body_start, end = note_start + note_bytes, note_start + note_bytes + body_bytes
        seal = hashlib.sha256(fields + content[note_start:body_start]).digest()
        if magic != _MAGIC or seal != content[note_start - _SEAL_BYTES : note_start]:
            start += _BLOCK_BYTES
            continue
        whole_end = start - (start - end) // _BLOCK_BYTES * _BLOCK_BYTES
        if (generation, start) >= mark and generation > 0:
            is_sound = hashlib.sha256(content[body_start:end]).digest() == digest
            yield start, block_start, whole_end, is_sound
        start = whole_end
