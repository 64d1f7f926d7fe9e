"""One flipped bit, wherever it lies: it is noticed, the rest goes on, and nothing is missing unnamed."""

import json
import random
import shutil
import sqlite3
from collections.abc import Iterator
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import SpoolDamaged
from holdfast.format.receipt import Delivery
from holdfast.queue import SqliteQueue
from holdfast.queue.contract import LOST
from holdfast.queue.salvage import REPORT
from holdfast.queue.sqlite_pages import PAGE_BYTES
from tests.fakes.spooling import JsonEntry, open_spool

COUNT = 8


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A spool with a few checkpoints, closed."""
    with closing(open_spool(tmp_path / "spool")) as spool:
        spool.put_all([JsonEntry(checkpoint_id=name_of(number)) for number in range(COUNT)])
    return tmp_path / "spool"


def name_of(number: int) -> str:
    return f"checkpoint-number-{number}"


def database(folder: Path) -> Path:
    return folder / "queue" / "queue.db"


def flip(folder: Path, at: int, bit: int = 0) -> None:
    content = bytearray(database(folder).read_bytes())
    content[at] ^= 1 << bit
    database(folder).write_bytes(content)


def root_of(folder: Path, table: str) -> int:
    """Return where the first page of a table or index begins."""
    with closing(sqlite3.connect(database(folder))) as connection:
        query = "select rootpage from sqlite_master where name = ?"
        (page,) = connection.execute(query, (table,)).fetchone()
    return (int(page) - 1) * PAGE_BYTES


def find(folder: Path, table: str, text: bytes) -> int:
    """Return where a text lies in the first page of a table or index."""
    return database(folder).read_bytes().index(text, root_of(folder, table))


def cells(folder: Path, table: str) -> Iterator[int]:
    """Yield where each entry of an index begins, in its order."""
    content, root = database(folder).read_bytes(), root_of(folder, table)
    for index in range(int.from_bytes(content[root + 3 : root + 5])):
        at = root + 8 + 2 * index
        yield root + int.from_bytes(content[at : at + 2])


def drain(spool: SqliteQueue) -> set[str]:
    """Send all that waits, as a drain does; return the ids of what was sent."""
    sent: set[str] = set()
    for _ in range(3):
        for item in spool.pending():
            try:
                spool.read(item)
            except SpoolDamaged:
                continue
            assert item.checkpoint_id not in sent
            sent.add(item.checkpoint_id)
            spool.acknowledge({item.checkpoint_id: Delivery(item.sequence, "p", "b", "c")})
    return sent


@pytest.mark.parametrize("table", ["item", "sqlite_autoindex_item_1"])
@pytest.mark.parametrize("offset", [0, 5])
def test_id_or_its_index_does_not_stop_the_drain(folder: Path, table: str, offset: int) -> None:
    flip(folder, find(folder, table, name_of(3).encode()) + offset)

    with closing(open_spool(folder)) as spool:
        assert drain(spool) == {name_of(number) for number in range(COUNT)}
        assert spool.pending() == []
        assert spool.status(0.0).lost == 0


def test_index_that_lists_one_item_twice_hides_no_other(folder: Path) -> None:
    cell = list(cells(folder, "item_waiting"))[4]
    flip(folder, cell + database(folder).read_bytes()[cell])  # the arrival is its last byte

    with closing(open_spool(folder)) as spool:
        assert len(spool.pending()) == COUNT
        assert drain(spool) == {name_of(number) for number in range(COUNT)}


def test_index_that_lists_a_verified_item_hides_no_other(folder: Path) -> None:
    with closing(open_spool(folder)) as spool:
        item = spool.pending()[3]
        spool.acknowledge({item.checkpoint_id: Delivery(item.sequence, "p", "b", "c")})
    cell = next(
        each
        for each in cells(folder, "item_waiting")
        if database(folder).read_bytes()[each + database(folder).read_bytes()[each]] == 5
    )
    flip(folder, cell + database(folder).read_bytes()[cell])  # 5 becomes 4, which is verified

    with closing(open_spool(folder)) as spool:
        assert drain(spool) == {name_of(number) for number in range(COUNT) if number != 3}


@pytest.mark.parametrize("text", [b"files of build-2", b"pending/build-2"])
def test_altered_note_is_dropped_and_the_others_stay(folder: Path, text: bytes) -> None:
    with closing(open_spool(folder)) as spool:
        spool.note("pending/build-1", b"files of build-1")
        spool.note("pending/build-2", b"files of build-2")
    flip(folder, find(folder, "note", text) + 3)

    with closing(open_spool(folder)) as spool:
        assert spool.notes() == {"pending/build-1": b"files of build-1"}
        assert len(drain(spool)) == COUNT


def test_altered_number_of_a_run_is_not_believed(folder: Path) -> None:
    with closing(open_spool(folder)) as spool:
        spool.learn_sequence("build-1", 50)
        spool.learn_sequence("build-2", 60)
    flip(folder, find(folder, "run", b"build-1") + len("build-1"), bit=2)

    with closing(open_spool(folder)) as spool:
        assert spool.known_sequence("build-1") == COUNT
        assert spool.known_sequence("build-2") == 60
        assert len(drain(spool)) == COUNT


@pytest.mark.parametrize("bit", range(8))
def test_altered_number_of_the_format_does_not_lock_the_spool(folder: Path, bit: int) -> None:
    flip(folder, 63, bit)

    with closing(open_spool(folder)) as spool:
        assert len(drain(spool)) == COUNT


def test_format_that_lost_its_number_does_not_lock_the_spool(folder: Path) -> None:
    flip(folder, 63, 0)
    flip(folder, 63, 1)

    with closing(open_spool(folder)) as spool:
        assert len(drain(spool)) == COUNT


def test_set_aside_checkpoint_is_not_named_by_an_altered_id(folder: Path) -> None:
    with closing(open_spool(folder)) as spool:
        spool.set_aside(spool.pending()[1], "a rule refuses it")
    flip(folder, find(folder, "item", name_of(1).encode()))

    with closing(open_spool(folder)) as spool:
        named = {each.item.checkpoint_id for each in spool.set_aside_entries()}
        # Of its row, nothing can be believed; its body waits again.
        assert named | drain(spool) == {name_of(number) for number in range(COUNT)}


def test_set_aside_checkpoint_whose_body_is_gone_is_named_as_lost(folder: Path) -> None:
    with closing(open_spool(folder)) as spool:
        spool.set_aside(spool.pending()[0], "a rule refuses it")
        spool.set_aside(spool.pending()[0], "a rule refuses this, too")
    with closing(sqlite3.connect(database(folder))) as connection, connection:
        connection.execute("delete from body where arrival = 1")

    with closing(open_spool(folder)) as spool:
        (aside,) = spool.set_aside_entries()
        assert aside.item.checkpoint_id == name_of(1)
        receipt = spool.receipt(name_of(0))
        assert receipt is not None
        assert receipt.reason == LOST
        status = spool.status(0.0)
        assert (status.depth, status.set_aside, status.lost) == (COUNT - 2, 1, 1)
    (report,) = folder.glob(f"damaged-*/{REPORT}")
    assert json.loads(report.read_bytes())["lost_checkpoints"] == [name_of(0)]


def fill_all_tables(folder: Path) -> None:
    """Let one checkpoint be verified and one set aside, and every table have a row."""
    with closing(open_spool(folder)) as spool:
        first, second, *_ = spool.pending()
        spool.acknowledge({first.checkpoint_id: Delivery(first.sequence, "p", "b", "c")})
        spool.set_aside(second, "a rule refuses it")
        spool.note("pending/build-1", b"files of build-1")
        spool.learn_sequence("build-1", 50)


def choose_bits(folder: Path, place: str) -> list[tuple[int, int]]:
    """Return some bits of a place that are in use, the same ones every time."""
    content = database(folder).read_bytes()
    starts = {"header": (0, 100), "schema": (100, PAGE_BYTES)}
    start, end = starts.get(place) or (root_of(folder, place), root_of(folder, place) + PAGE_BYTES)
    # Byte 18 says whether the file may be written to: SQLite does not tell that from a missing permission.
    used = [at for at in range(start, end) if content[at] and at != 18]
    chance = random.Random(place)
    return [(chance.choice(used), chance.randrange(8)) for _ in range(12)]


@pytest.mark.parametrize(
    "place",
    [
        "header",
        "schema",
        "item",
        "body",
        "run",
        "note",
        "total",
        "item_waiting",
        "item_set_aside",
        "item_verified",
        "item_number",
        "sqlite_autoindex_item_1",
        "sqlite_autoindex_run_1",
        "sqlite_autoindex_note_1",
    ],
)
def test_any_bit_may_flip_and_every_checkpoint_is_accounted_for(folder: Path, place: str) -> None:
    fill_all_tables(folder)
    accepted = {name_of(number) for number in range(COUNT)}
    for number, (at, bit) in enumerate(choose_bits(folder, place)):
        copy = folder.with_name(f"copy-{number}")
        shutil.copytree(folder, copy)
        flip(copy, at, bit)

        with closing(open_spool(copy)) as spool:
            verified = {name_of(0)} | drain(spool)
            spool.notes()
            spool.set_aside_entries()
            # Of one that was set aside, perhaps only the body was left: it waits again.
            verified |= drain(spool)
            aside = {each.item.checkpoint_id for each in spool.set_aside_entries()}
            status = spool.status(0.0)

        assert verified | aside <= accepted, (at, bit)
        assert (status.depth, status.set_aside) == (0, len(aside)), (at, bit)
        missing = len(accepted - verified - aside)
        # Totals that are damaged themselves may count more as lost than there were.
        assert missing == status.lost or (place == "total" and missing == 0), (at, bit)
