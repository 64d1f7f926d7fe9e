"""Rows are read from the pages of a file, without SQLite: those that count, and no others."""

import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing, contextmanager
from pathlib import Path

import pytest

from holdfast.queue.sqlite_pages import PAGE_BYTES, Row, carve

VALUES = (None, 0, 1, -1, 300, -70_000, 2**40, -(2**62), 2.5, "tête", b"\x00\xff")


@contextmanager
def written(path: Path, page: int = PAGE_BYTES, mode: str = "delete") -> Iterator[sqlite3.Connection]:
    """Yield a database with an empty table."""
    with closing(sqlite3.connect(path, isolation_level=None)) as database:
        database.execute(f"pragma page_size = {page}")
        database.execute(f"pragma journal_mode = {mode}")
        database.execute("pragma synchronous = off")
        database.execute("create table t (value, body blob)")
        yield database


def rows_of(path: Path) -> list[Row]:
    """Return the rows that are no table's definition."""
    return sorted(row for row in carve(path) if len(row[1]) == 2)


@pytest.mark.parametrize("page", [4096, PAGE_BYTES])
def test_every_kind_of_value_and_every_length_is_read(tmp_path: Path, page: int) -> None:
    # On both sides of what a page holds, and of what an overflow page does.
    sizes = [0, page // 2, page - 60, page - 40, page - 35, page, 2 * page - 4, 5 * page]
    expected = [(value, bytes([index]) * size) for index, size in enumerate(sizes) for value in VALUES]
    with written(tmp_path / "t.db", page) as database:
        database.executemany("insert into t values (?, ?)", expected)

    assert [columns for _, columns in rows_of(tmp_path / "t.db")] == expected


def test_rows_are_numbered_as_in_the_table(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as database:
        database.executemany("insert into t (rowid, value) values (?, 'x')", [(1,), (200,), (2**40,)])

    assert [rowid for rowid, _ in rows_of(tmp_path / "t.db")] == [1, 200, 2**40]


def test_what_was_committed_to_the_log_counts_and_nothing_after_it(tmp_path: Path) -> None:
    with written(tmp_path / "t.db", mode="wal") as database:
        database.execute("insert into t values ('before', null)")
        database.execute("pragma wal_checkpoint(truncate)")
        database.execute("insert into t values ('in the log', null)")
        database.execute("pragma cache_size = 1")
        database.execute("begin")
        database.executemany("insert into t values ('not committed', ?)", [(bytes(PAGE_BYTES),)] * 50)
        for name in ("t.db", "t.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")

    assert (tmp_path / "copy-t.db-wal").stat().st_size > 10 * PAGE_BYTES
    assert [columns[0] for _, columns in rows_of(tmp_path / "copy-t.db")] == ["before", "in the log"]


def test_a_frame_of_the_log_that_was_altered_is_left_out(tmp_path: Path) -> None:
    with written(tmp_path / "t.db", mode="wal") as database:
        database.execute("pragma wal_autocheckpoint = 0")
        database.execute("insert into t values ('first', null)")
        database.execute("insert into t values ('second', null)")
        for name in ("t.db", "t.db-wal"):
            shutil.copy(tmp_path / name, tmp_path / f"copy-{name}")
    log = tmp_path / "copy-t.db-wal"
    content = bytearray(log.read_bytes())
    content[content.rindex(b"second")] ^= 1
    log.write_bytes(content)

    assert [columns[0] for _, columns in rows_of(tmp_path / "copy-t.db")] == ["first"]


def test_pages_of_what_was_deleted_are_passed_over(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as database:
        database.execute("pragma secure_delete = off")
        database.executemany("insert into t values ('gone', ?)", [(bytes(3000),)] * 40)
        database.execute("insert into t values ('here', null)")
        database.execute("delete from t where value = 'gone'")

    assert b"gone" in (tmp_path / "t.db").read_bytes()
    assert [columns[0] for _, columns in rows_of(tmp_path / "t.db")] == ["here"]


@pytest.mark.parametrize("page", [4096, PAGE_BYTES])
def test_without_a_header_the_pages_are_found_by_what_they_look_like(tmp_path: Path, page: int) -> None:
    with written(tmp_path / "t.db", page) as database:
        database.executemany("insert into t values (?, ?)", [(number, bytes(500)) for number in range(100)])
    content = (tmp_path / "t.db").read_bytes()
    (tmp_path / "t.db").write_bytes(bytes(100) + content[100:])

    assert [columns[0] for _, columns in rows_of(tmp_path / "t.db")] == list(range(100))


def test_a_broken_chain_of_overflow_pages_costs_its_own_row_alone(tmp_path: Path) -> None:
    with written(tmp_path / "t.db") as database:
        database.execute("insert into t values ('long', ?)", (b"l" * 3 * PAGE_BYTES,))
        database.execute("insert into t values ('short', null)")
    content = (tmp_path / "t.db").read_bytes()
    (tmp_path / "t.db").write_bytes(content[:-PAGE_BYTES])

    assert [columns[0] for _, columns in rows_of(tmp_path / "t.db")][-1] == "short"


@pytest.mark.parametrize("content", [b"", b"SQLite format 3\x00", b"garbage" * 5000, bytes(5 * PAGE_BYTES)])
def test_what_is_no_database_has_no_rows(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "t.db").write_bytes(content)

    assert rows_of(tmp_path / "t.db") == []
    assert rows_of(tmp_path / "missing.db") == []
