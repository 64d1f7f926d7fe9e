"""The journal: where a checkpoint is on disk after one write and one sync, before the database has it.

Entries follow each other from the start of a file of fixed size. A *generation* ends when the database
has taken all of its entries in and has noted its number; the next one begins again at the start of the file,
over the old. Whatever is torn, or of an old generation, is no entry; and nothing is added to a generation
in which something is torn.

An entry begins on a block of its own, so that writing it cannot harm one that was confirmed before.
"""

import fcntl
import os
import struct
import threading
import time
from collections.abc import Sequence
from contextlib import AbstractContextManager
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import NamedTuple

from holdfast.disk import LOCK_TIMEOUT_S, digest_of, part_when_forked, sync_folder, translate
from holdfast.errors import DiskFailed, SpoolUnwritable

CAPACITY_BYTES = 4 * 1024**2
BLOCK_BYTES = 4096

_MAGIC = b"holdfast"
_BEGINNING = struct.Struct(">8sQ")
_FIELDS = struct.Struct(">8sQIII32s")
_SEAL_BYTES = 32
_HEAD_BYTES = _FIELDS.size + _SEAL_BYTES
_POLL_S = 0.0005
_sync = getattr(os, "fdatasync", os.fsync)


@dataclass(frozen=True, slots=True)
class Entry:
    """A body and what is noted about it. An entry whose body is not sound was torn, or damaged later.

    Entries that were written together, and confirmed together, begin with the same block.
    """

    note: bytes
    body: bytes
    digest: bytes
    generation: int
    block_start: int
    start: int
    end: int
    is_sound: bool = True


class Mark(NamedTuple):
    """How far the database is: it has all earlier generations, and of this one what begins before `end`.

    A whole generation would not be enough to note. A process that is killed while it commits may leave a
    commit that SQLite shows only later, when others have added to the generation that it speaks of.
    """

    generation: int = 0
    end: int = 0

    def encode(self) -> bytes:
        """Return the row to store."""
        return b"%d %d" % self

    @classmethod
    def decode(cls, row: bytes | None) -> "Mark":
        """Return the mark that `encode` made a row of; the very beginning if there is none."""
        return cls(*map(int, row.split())) if row else cls()


class Survey(NamedTuple):
    """The entries after a mark, how many more were lost, and the mark for when these are absorbed."""

    entries: list[Entry]
    lost: int
    mark: Mark


class Journal:
    """The journal of one spool. Everything but `newest_generation` and `has_more` is for whoever holds it."""

    def __init__(self, folder: Path) -> None:
        self.path = folder / "journal"
        self._name = str(self.path)
        self._folder = folder
        self._mutex = threading.RLock()
        self._is_held = False
        self._is_laid_out = False
        self._is_named = False
        self._failure: str | None = None
        self._is_closed = False
        self._file: int | None = self._open()
        part_when_forked(self)

    def held(self) -> AbstractContextManager[None]:
        """Be the only one, of all threads and processes, to use the journal. Raises SpoolUnwritable."""
        return _Held(self)

    def newest_generation(self) -> int:
        """Return the generation that the file begins with; 0 if nothing was ever written."""
        return self._read_generation(0)

    def first_after(self, mark: Mark) -> tuple[int, int]:
        """Return in which generation, and where, the first entry after `mark` is, or will be."""
        newest = self.newest_generation()
        if newest > mark.generation:
            return newest, 0
        return mark if self._goes_on(newest, mark) else (mark.generation + 1, 0)

    def has_more(self, mark: Mark) -> bool:
        """Tell whether anything may have been written after `mark`."""
        newest = self.newest_generation()
        return newest > mark.generation or self._goes_on(newest, mark) or not self.is_in_place()

    def _goes_on(self, newest: int, mark: Mark) -> bool:
        return newest == mark.generation > 0 and bool(self.read(newest, mark.end)[0])

    def read(self, generation: int, start: int = 0) -> tuple[list[Entry], bool]:
        """Return the entries of a generation from `start` on, and whether something torn comes after them."""
        found: list[Entry] = []
        while self._read_generation(start) == generation:
            entry = self._read_entry(start)
            if entry is None or not entry.is_sound:
                return found, True
            found.append(entry)
            start = entry.end
        return found, False

    def survey(self, mark: Mark) -> Survey:
        """Find all entries after `mark`.

        Looks behind whatever is not an entry, for a disk may have altered what it confirmed. A block that
        was cut short is the last one, and nobody was told of it: what is left of it is left out.
        """
        is_same = self.newest_generation() == mark.generation > 0
        start, due = (mark.end, mark.generation) if is_same else (0, mark.generation + 1)
        found, gaps = self._scan(start, due)
        if not found:
            return Survey([], 0, mark)
        last = found[-1].block_start
        torn = {entry.start for entry in found if entry.block_start == last and not entry.is_sound}
        cut = min(each for each in torn | gaps | {found[-1].end} if each >= last)
        entries = [entry for entry in found if entry.start < cut]
        lost = sum(each < last and each - BLOCK_BYTES not in gaps for each in gaps)
        return Survey(entries, lost, Mark(found[0].generation, entries[-1].end if entries else start))

    def _scan(self, start: int, due: int) -> tuple[list[Entry], set[int]]:
        """Return what begins at or after `start`, of one generation from `due` on, and where nothing does."""
        found: list[Entry] = []
        gaps: set[int] = set()
        end = self._stat().st_size
        while start < end:
            generation = self._read_generation(start)
            is_due = generation == found[0].generation if found else generation >= due
            if is_due and (entry := self._read_entry(start)):
                found.append(entry)
                start = entry.end
            else:
                gaps.add(start)
                start += BLOCK_BYTES
        return found, gaps

    def append(self, block: bytes, start: int) -> None:
        """Write a block that `encode` made. When this returns, the disk has confirmed it.

        Raises SpoolUnwritable; DiskFailed when the disk does not confirm it, and then nothing more is taken.
        """
        self._check()
        descriptor = self._descriptor()
        try:
            if not self._is_laid_out:
                self._lay_out(descriptor)
            written = 0
            while written < len(block):
                written += os.pwrite(descriptor, block[written:] if written else block, start + written)
        except OSError as error:
            raise translate(error, self._folder) from error
        self.confirm()

    def confirm(self) -> None:
        """Make the disk confirm all that was written, also by a process that died before it did so.

        Raises DiskFailed, and SpoolUnwritable ever after.
        """
        self._check()
        try:
            _sync(self._descriptor())
            if not self._is_named:
                sync_folder(self._folder)
                self._is_named = True
        except OSError as error:
            # Linux forgets what a failed sync did not write: a second one would succeed and lie.
            self._failure = "the disk failed to confirm a write; check the disk, then start Holdfast again"
            raise DiskFailed(str(translate(error, self._folder))) from error

    def is_in_place(self) -> bool:
        """Tell whether the file in the folder is still the one that was opened."""
        self._descriptor()
        try:
            stat = os.stat(self._name)  # noqa: PTH116 (half the time of Path.stat, on every put)
        except OSError:
            return False
        return (stat.st_dev, stat.st_ino) == self._identity

    def is_deleted(self) -> bool:
        """Tell whether the file that was opened has no name any more, so that nobody else will read it."""
        return self._stat().st_nlink == 0

    def reopen(self) -> None:
        """Go on with the file that is in the folder now; it is not held."""
        old, self._file = self._descriptor(), self._open()
        os.close(old)
        self._is_laid_out = self._is_named = False

    def close(self) -> None:
        """Close the file, for good."""
        self._is_closed = True
        self.part()

    def part(self) -> None:
        """Let go of the file and of the lock, which a forked process would share with its parent."""
        self._mutex, self._is_held = threading.RLock(), False
        file, self._file = self._file, None
        if file is not None:
            os.close(file)

    def _check(self) -> None:
        if self._failure:
            raise SpoolUnwritable(f"{self.path} takes nothing more: {self._failure}")

    def _open(self) -> int:
        try:
            file = os.open(self._name, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        except OSError as error:
            raise translate(error, self._folder) from error
        stat = os.fstat(file)
        self._identity = stat.st_dev, stat.st_ino
        return file

    def _descriptor(self) -> int:
        if self._is_closed:
            raise SpoolUnwritable(f"{self.path} takes nothing more: it was closed")
        if self._file is None:
            self._file = self._open()
        return self._file

    def _stat(self) -> os.stat_result:
        return os.fstat(self._descriptor())

    def _pread(self, size_bytes: int, start: int) -> bytes:
        try:
            return os.pread(self._descriptor(), size_bytes, start)
        except OSError as error:
            raise translate(error, self._folder) from error

    def _lay_out(self, descriptor: int) -> None:
        """Give the file its size, in zeros: a write that changes no size is confirmed in half the time."""
        for start in range(os.fstat(descriptor).st_size, CAPACITY_BYTES, 1024**2):
            os.pwrite(descriptor, bytes(min(1024**2, CAPACITY_BYTES - start)), start)
        self._is_laid_out = True

    def _read_generation(self, start: int) -> int:
        head = self._pread(_BEGINNING.size, start)
        magic, generation = _BEGINNING.unpack(head) if len(head) == _BEGINNING.size else (b"", 0)
        return int(generation) if magic == _MAGIC else 0

    def _read_entry(self, start: int) -> Entry | None:
        head = self._pread(BLOCK_BYTES, start)
        if len(head) < _HEAD_BYTES or not head.startswith(_MAGIC):
            return None
        _, generation, block_start, note_bytes, body_bytes, digest = _FIELDS.unpack_from(head)
        whole_bytes = _HEAD_BYTES + note_bytes + body_bytes
        if start + whole_bytes > CAPACITY_BYTES:
            return None
        content = head[:whole_bytes] + self._pread(max(0, whole_bytes - BLOCK_BYTES), start + BLOCK_BYTES)
        body_start = _HEAD_BYTES + note_bytes
        note, body = content[_HEAD_BYTES:body_start], content[body_start:]
        if sha256(head[: _FIELDS.size] + note).digest() != head[_FIELDS.size : _HEAD_BYTES]:
            return None
        end = start + _round_up(whole_bytes)
        is_sound = digest_of(body) == digest
        return Entry(note, body, digest, generation, block_start, start, end, is_sound=is_sound)


def encode(
    generation: int, start: int, entries: Sequence[tuple[bytes, bytes, bytes]]
) -> tuple[bytes, list[int]]:
    """Return entries, each of a note, a body and the body's digest, as a block, and where each ends.

    The block is to be written at `start`.
    """
    pieces: list[bytes] = []
    ends: list[int] = []
    for note, body, digest in entries:
        fields = _FIELDS.pack(_MAGIC, generation, start, len(note), len(body), digest)
        whole_bytes = _HEAD_BYTES + len(note) + len(body)
        padding = bytes(_round_up(whole_bytes) - whole_bytes)
        pieces += (fields, sha256(fields + note).digest(), note, body, padding)
        ends.append((ends[-1] if ends else start) + _round_up(whole_bytes))
    return b"".join(pieces), ends


def _round_up(size_bytes: int) -> int:
    return -(-size_bytes // BLOCK_BYTES) * BLOCK_BYTES


class _Held(AbstractContextManager[None]):
    """The lock of a journal: threads wait in turn; processes look again and again, for a bounded time."""

    __slots__ = ("_journal",)

    def __init__(self, journal: Journal) -> None:
        self._journal = journal

    def __enter__(self) -> None:
        journal = self._journal
        journal._mutex.acquire()  # noqa: SLF001
        if journal._is_held:  # noqa: SLF001
            # A signal handler of this very thread: it would wait for itself.
            journal._mutex.release()  # noqa: SLF001
            raise SpoolUnwritable("this thread is just saving; save again when it has done so")
        try:
            _lock(journal._descriptor(), journal.path)  # noqa: SLF001
            journal._is_held = True  # noqa: SLF001
        except BaseException:
            journal._mutex.release()  # noqa: SLF001
            raise

    def __exit__(self, *_: object) -> None:
        journal = self._journal
        journal._is_held = False  # noqa: SLF001
        try:
            fcntl.flock(journal._descriptor(), fcntl.LOCK_UN)  # noqa: SLF001
        finally:
            journal._mutex.release()  # noqa: SLF001


def _lock(descriptor: int, path: Path) -> None:
    deadline = None
    while True:
        try:
            return fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            deadline = deadline or time.monotonic() + LOCK_TIMEOUT_S
            if time.monotonic() > deadline:
                break
            time.sleep(_POLL_S)
        except OSError as error:
            raise translate(error, path.parent) from error
    raise SpoolUnwritable(
        f"{path}: another process has held it for more than {LOCK_TIMEOUT_S} s; see whether one hangs"
    )
