"""A spool of version 0.1.0: rows under keys, and a journal in front of them. It is emptied by that version.

`queue/cache.db` has `ticket|…` and `aside|…` rows for the checkpoints, `run|…` for the numbers of runs, and
`journal` for how far it has absorbed the file of that name. Values are behind a digest of 32 bytes.
"""

import hashlib
import sqlite3
import struct
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import orjson

from holdfast.errors import SpoolUnwritable
from holdfast.queue.salvage import REPORT
from holdfast.queue.sqlite_file import connected

VERSION = "0.1.0"

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
    """A spool of the earlier format that holds no checkpoint, and the highest number of each run."""

    files: tuple[Path, ...]
    numbers: dict[str, int]

    def runs(self) -> list[tuple[str, int, int]]:
        """Return the rows of `run` that say the same."""
        return [(run_id, highest, 0) for run_id, highest in self.numbers.items()]

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
    waiting, mark, numbers = len(unfinished), (0, 0), dict[str, int]()
    if database.exists():
        count, mark, numbers = _read_database(database)
        waiting += count
    waiting += sum(1 for _ in _unabsorbed(journal, mark)) if journal.exists() else 0
    if waiting:
        raise SpoolUnwritable(_refusal(folder, f"{waiting} checkpoints"))
    logs = [database.with_name(database.name + suffix) for suffix in ("-wal", "-shm")]
    return EarlierSpool((journal, *logs, database), numbers)


def _refusal(folder: Path, what: str) -> str:
    return (
        f"{folder} holds {what} in the format of Holdfast {VERSION}, which this version does not read; "
        f"empty it with `holdfast drain` of version {VERSION} (pip install holdfast=={VERSION}), after "
        "`holdfast spool restore` if some are set aside, then start this version again"
    )


def _read_database(path: Path) -> tuple[int, tuple[int, int], dict[str, int]]:
    """Return how many checkpoints it has, how much of the journal it has, and the runs' highest numbers."""
    try:
        with connected(path) as database:
            (count,) = database.execute(_COUNT).fetchone()
            mark = database.execute("select value from Cache where key = 'journal'").fetchone()
            runs = database.execute("select key, value from Cache where key >= 'run|' and key < 'run}'")
            numbers = {
                key.removeprefix("run|"): int(orjson.loads(value[_SEAL_BYTES:])[0]) for key, value in runs
            }
            generation, end = map(int, mark[0][_SEAL_BYTES:].split()) if mark else (0, 0)
    except (sqlite3.Error, ValueError, LookupError, TypeError) as error:
        raise SpoolUnwritable(_refusal(path.parents[1], f"a damaged spool ({error})")) from error
    return count, (generation, end), numbers


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
