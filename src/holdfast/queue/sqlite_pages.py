"""Reading the rows of a damaged SQLite file, page by page, without SQLite.

SQLite gives up on a file when a single page of its tree is wrong. The rows themselves lie in leaf
pages that can be read without the tree; it is for others to say which of them can be believed.
The layout is that of https://www.sqlite.org/fileformat2.html.
"""

import struct
from collections.abc import Iterator
from io import BytesIO
from itertools import count
from pathlib import Path

_MAGIC = b"SQLite format 3\x00"
PAGE_BYTES = 8192
"""How large the pages of a new file are: 50 KB in half as many steps as with SQLite's own 4 KB."""
_EARLIER_PAGE_BYTES = 4096
_TABLE_LEAF = 0x0D
_TREE_PAGES = frozenset({0x02, 0x05, 0x0A, _TABLE_LEAF})
_WAL_HEADER_BYTES = 32
_FRAME_HEADER_BYTES = 24
_WAL_MAGICS = {0x377F0682: "<", 0x377F0683: ">"}
# How many bytes a column of each kind takes; from 12 on, the kind says how long a blob or a text is.
_WIDTHS = (0, 1, 2, 3, 4, 6, 8, 8, 0, 0, 0, 0)

Column = None | int | float | str | bytes
Row = tuple[int, tuple[Column, ...]]


def carve(database: Path) -> Iterator[Row]:
    """Yield the rowid and the columns of every row that can be read, of whatever table.

    Nothing says yet that they are sound, nor that they were not deleted long ago.
    """
    with Pages(database) as pages:
        free = pages.find_free()
        for number in range(1, pages.count + 1):
            if number in free:
                continue
            page = pages.read(number)
            start = 100 if number == 1 else 0
            if page[start] == _TABLE_LEAF:
                yield from _read_leaf(pages, page, start)


class Pages:
    """The pages of a database as they were last committed: from the log beside it, else from the file."""

    def __init__(self, database: Path) -> None:
        self._file = database.open("rb") if database.exists() else BytesIO()
        wal = database.with_name(database.name + "-wal")
        self._wal = wal.open("rb") if wal.exists() else None
        header = self._file.read(100)
        is_header = header.startswith(_MAGIC) and len(header) == 100
        stated = _page_bytes(header[16:18]) if is_header else None
        self.page_bytes = stated or self._stated_by_log() or self._guess_page_bytes()
        self.usable_bytes = self.page_bytes - (header[20] if is_header else 0)
        self._frames = self._read_frames()
        in_file = -(-self._file.seek(0, 2) // self.page_bytes)
        self.count = max(in_file, *self._frames, 0)

    def __enter__(self) -> "Pages":
        return self

    def __exit__(self, *_: object) -> None:
        self._file.close()
        if self._wal:
            self._wal.close()

    def read(self, number: int) -> bytes:
        """Return a page; where the file ends before its end, the rest is zeros."""
        if self._wal and number in self._frames:
            self._wal.seek(self._frames[number])
            return self._wal.read(self.page_bytes)
        self._file.seek((number - 1) * self.page_bytes)
        return self._file.read(self.page_bytes).ljust(self.page_bytes, b"\0")

    def find_free(self) -> set[int]:
        """Return the pages that hold only what was deleted, as far as their list can be read."""
        first = self.read(1)
        free: set[int] = set()
        trunk = _u32(first, 32) if first.startswith(_MAGIC) else 0
        while 1 < trunk <= self.count and trunk not in free:
            page = self.read(trunk)
            free.add(trunk)
            length = min(_u32(page, 4), self.page_bytes // 4 - 2)
            free.update(struct.unpack_from(f">{length}I", page, 8))
            trunk = _u32(page, 0)
        return free

    def _stated_by_log(self) -> int | None:
        """Return what the log says of the size of a page, if there is one."""
        header = self._wal.read(_WAL_HEADER_BYTES) if self._wal else b""
        if self._wal:
            self._wal.seek(0)
        return _page_bytes(header[10:12]) if _u32(header, 0) in _WAL_MAGICS else None

    def _guess_page_bytes(self) -> int:
        """Return how large the pages are of a file whose header does not say so.

        Where they are small, half of those of a tree begin in the middle of what would be a large one.
        """
        counts = [0, 0]
        self._file.seek(0)
        for number in count(0):
            page = self._file.read(_EARLIER_PAGE_BYTES)
            if not page:
                break
            counts[number % 2] += _is_tree_page(page)
        even, odd = counts
        return _EARLIER_PAGE_BYTES if odd * 4 > even else PAGE_BYTES

    def _read_frames(self) -> dict[int, int]:
        """Return where in the log the newest committed version of each page begins."""
        header = self._wal.read(_WAL_HEADER_BYTES) if self._wal else b""
        order = _WAL_MAGICS.get(_u32(header, 0)) if len(header) == _WAL_HEADER_BYTES else None
        if self._wal is None or order is None or _u32(header, 8) != self.page_bytes:
            return {}
        salt, previous = header[16:24], header[24:32]
        committed: dict[int, int] = {}
        waiting: dict[int, int] = {}
        offset = _WAL_HEADER_BYTES
        while len(frame := self._wal.read(_FRAME_HEADER_BYTES + self.page_bytes)) > _FRAME_HEADER_BYTES:
            head, page = frame[:_FRAME_HEADER_BYTES], frame[_FRAME_HEADER_BYTES:]
            if head[8:16] != salt:
                break
            # Each checksum goes on from the one before, as stored: one bad frame does not spoil the next.
            if len(page) == self.page_bytes and _checksum(order, previous, head[:8] + page) == head[16:24]:
                waiting[_u32(head, 0)] = offset + _FRAME_HEADER_BYTES
                if _u32(head, 4):
                    committed |= waiting
                    waiting = {}
            previous = head[16:24]
            offset += len(frame)
        return committed


def _read_leaf(pages: Pages, page: bytes, start: int) -> Iterator[Row]:
    (count,) = struct.unpack_from(">H", page, start + 3)
    for index in range(min(count, len(page) // 2)):
        try:
            (cell,) = struct.unpack_from(">H", page, start + 8 + 2 * index)
            rowid, record = _read_cell(pages, page, cell)
            yield rowid, _read_columns(record)
        except (IndexError, struct.error, ValueError):
            continue


def _read_cell(pages: Pages, page: bytes, cell: int) -> tuple[int, bytes]:
    """Return the rowid of a cell and its whole record, gathered from its overflow pages."""
    size, at = _varint(page, cell)
    rowid, at = _varint(page, at)
    usable = pages.usable_bytes
    if size > pages.count * pages.page_bytes:
        raise ValueError("the cell is longer than the file")
    local = size
    if size > usable - 35:
        least = (usable - 12) * 32 // 255 - 23
        local = least + (size - least) % (usable - 4)
        local = local if local <= usable - 35 else least
    pieces = [page[at : at + local]]
    missing, next_page = size - local, _u32(page, at + local) if size > local else 0
    while missing > 0:
        if not 1 < next_page <= pages.count:
            raise ValueError("the chain of overflow pages is broken")
        overflow = pages.read(next_page)
        pieces.append(overflow[4 : 4 + min(missing, usable - 4)])
        missing -= usable - 4
        next_page = _u32(overflow, 0)
    return rowid, b"".join(pieces)


def _read_columns(record: bytes) -> tuple[Column, ...]:
    header_bytes, at = _varint(record, 0)
    kinds: list[int] = []
    while at < header_bytes:
        kind, at = _varint(record, at)
        kinds.append(kind)
    columns: list[Column] = []
    for kind in kinds:
        width = _WIDTHS[kind] if kind < 12 else (kind - 12) // 2
        columns.append(_read_value(kind, record[at : at + width]))
        at += width
    if at != len(record):
        raise ValueError("the columns do not fill the record")
    return tuple(columns)


def _read_value(kind: int, value: bytes) -> Column:
    if kind == 0:
        return None
    if kind == 7:
        (number,) = struct.unpack(">d", value)
        return float(number)
    if kind < 12:
        return int.from_bytes(value, "big", signed=True) if kind < 8 else kind - 8
    return value.decode() if kind % 2 else value


def _varint(page: bytes, at: int) -> tuple[int, int]:
    value = 0
    for _ in range(8):
        byte = page[at]
        at += 1
        value = value << 7 | byte & 0x7F
        if byte < 0x80:
            return value, at
    return value << 8 | page[at], at + 1


def _u32(page: bytes, at: int) -> int:
    return int.from_bytes(page[at : at + 4], "big")


def _page_bytes(stated: bytes) -> int | None:
    """Return the size of a page that two bytes of a header state; None if that cannot be."""
    size = int.from_bytes(stated, "big")
    return size if size >= 512 and size & (size - 1) == 0 else None


def _is_tree_page(page: bytes) -> bool:
    """Whether this begins like a page of a tree: its kind, and room for as many cells as it says."""
    if len(page) < _EARLIER_PAGE_BYTES or page[0] not in _TREE_PAGES:
        return False
    cells, content = struct.unpack_from(">2H", page, 3)
    return bool(8 + 2 * cells <= content <= PAGE_BYTES)


def _checksum(order: str, previous: bytes, content: bytes) -> bytes:
    one, two = struct.unpack(">2I", previous)
    words = iter(struct.unpack(f"{order}{len(content) // 4}I", content))
    for first, second in zip(words, words, strict=True):
        one = (one + first + two) & 0xFFFFFFFF
        two = (two + second + one) & 0xFFFFFFFF
    return struct.pack(">2I", one, two)
