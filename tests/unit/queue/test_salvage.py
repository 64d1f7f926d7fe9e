"""Damage on disk: every flipped bit is found, and every sound row is saved."""

import hashlib
import json
import os
import pickle
import random
import shutil
import sqlite3
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from holdfast.errors import SpoolDamaged, SpoolUnwritable, UnknownRun
from holdfast.format.receipt import Delivery, Persistence, Progress
from holdfast.queue import Queue
from holdfast.queue import folder as queue_folder
from holdfast.queue.folder import DATABASE
from holdfast.queue.salvage import REPORT, Salvage
from holdfast.queue.sqlite_pages import PAGE_BYTES
from tests.fakes.spooling import FakeEntry, JsonEntry, open_spool, start_python

PAGES_BYTES = (4096, PAGE_BYTES)


def database(tmp_path: Path) -> Path:
    return tmp_path / "spool" / "queue" / DATABASE


def damaged_folders(tmp_path: Path) -> list[Path]:
    return sorted((tmp_path / "spool").glob("damaged-*"))


def fill(tmp_path: Path, count: int, size_bytes: int = 300) -> dict[str, bytes]:
    """Put `count` checkpoints and close the spool; return their bodies by id."""
    spool = open_spool(tmp_path / "spool")
    entries = [JsonEntry(content=os.urandom(size_bytes // 2), fingerprint="f") for _ in range(count)]
    spool.put_all(entries)
    bodies = {item.checkpoint_id: spool.read(item) for item in spool.pending()}
    spool.close()
    return bodies


def drain(spool: Queue) -> dict[str, bytes]:
    """Read everything that waits, as a drain does; what is damaged is passed over."""
    bodies = {}
    for item in spool.pending():
        try:
            bodies[item.checkpoint_id] = spool.read(item)
        except SpoolDamaged:
            continue
    return bodies


def alter(tmp_path: Path, statement: str, *values: object) -> None:
    connection = sqlite3.connect(database(tmp_path))
    with connection:
        connection.execute(statement, values)
    connection.close()


@pytest.mark.slow
def test_every_flipped_bit_in_a_body_is_found(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 60, size_bytes=6000)
    content = bytearray(database(tmp_path).read_bytes())
    chance = random.Random(7)
    flipped = set(chance.sample(sorted(bodies), 30))
    for checkpoint_id in flipped:
        piece = bodies[checkpoint_id][:900]
        at = content.index(piece[100:]) + chance.randrange(len(piece) - 100)
        content[at] ^= 1 << chance.randrange(8)
    database(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")
    survivors = drain(spool)

    assert survivors == {key: body for key, body in bodies.items() if key not in flipped}
    assert {each.item.checkpoint_id for each in spool.set_aside_entries()} == flipped
    for checkpoint_id in flipped:
        receipt = spool.receipt(checkpoint_id)
        assert receipt is not None
        assert receipt.status == Progress.REFUSED
        assert "damaged" in (receipt.reason or "")
    status = spool.status(0.0)
    assert (status.depth, status.set_aside) == (30, 30)
    with pytest.raises(SpoolDamaged):
        spool.restore(min(flipped))
    with pytest.raises(SpoolDamaged):
        spool.read(spool.set_aside_entries()[0].item)
    spool.close()


def garble(content: bytearray, page: int, pages: range) -> None:
    for number in pages:
        content[(number - 1) * page : number * page] = random.Random(number).randbytes(page)


@pytest.mark.slow
@pytest.mark.parametrize("page", PAGES_BYTES)
@pytest.mark.parametrize(
    "damage",
    [
        pytest.param(lambda content, page: garble(content, page, range(1, 2)), id="first page"),
        pytest.param(lambda content, page: garble(content, page, range(4, 6)), id="roots of the tree"),
        pytest.param(lambda content, page: garble(content, page, range(3, 60, 3)), id="every third page"),
        pytest.param(lambda content, page: garble(content, page, range(20, 21)), id="one page"),
        pytest.param(
            lambda content, page: content.__delitem__(slice(len(content) // 2, None)), id="cut in half"
        ),
        pytest.param(
            lambda content, page: content.__delitem__(slice(30 * page + 99, None)), id="cut within a page"
        ),
        pytest.param(
            lambda content, page: content.__setitem__(slice(0, 100), bytes(100)), id="header of zeros"
        ),
        pytest.param(
            lambda content, page: content.__setitem__(slice(None), b"garbage" * 9999), id="all of it"
        ),
    ],
)
def test_every_row_that_is_whole_is_saved_and_the_rest_is_named(
    tmp_path: Path, damage: object, page: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as earlier:
        earlier.setattr("holdfast.queue.folder.PAGE_BYTES", page)
        bodies = fill(tmp_path, 400)
    content = bytearray(database(tmp_path).read_bytes())
    assert int.from_bytes(content[16:18], "big") == page
    assert callable(damage)
    damage(content, page)
    database(tmp_path).write_bytes(content)
    # A body of 300 bytes lies in one page with its row: where it is whole, its row is.
    whole = {key: body for key, body in bodies.items() if body in content}

    with capture_logs() as logs:
        spool = open_spool(tmp_path / "spool")
        drain(spool)
        survivors = drain(spool)

    assert survivors == whole
    status = spool.status(0.0)
    assert status.depth == len(whole)
    (folder,) = damaged_folders(tmp_path)
    assert (folder / DATABASE).read_bytes() == content
    (event,) = [log for log in logs if log["event"] == "spool_salvaged"]
    assert (event["salvaged"], status.salvaged) == (len(whole), len(whole))
    named = json.loads((folder / REPORT).read_bytes())["lost_checkpoints"]
    assert set(named).isdisjoint(whole)
    assert status.lost == event["lost"] >= len(named)
    for checkpoint_id in named:
        receipt = spool.receipt(checkpoint_id)
        assert receipt is not None
        assert (receipt.status, (receipt.reason or "")[:5]) == (Progress.REFUSED, "lost:")
    # Life goes on: known ones are known, new ones get new numbers, and a second opening finds no damage.
    known = next(iter(whole), None)
    if known:
        state = bytes.fromhex(json.loads(whole[known])["state_snapshot"])
        assert spool.put(JsonEntry(checkpoint_id=known, content=state)).status
    spool.put(FakeEntry())
    numbers = [item.sequence for item in spool.pending()]
    assert len(set(numbers)) == len(numbers)
    spool.close()
    open_spool(tmp_path / "spool").close()
    assert len(damaged_folders(tmp_path)) == 1


def test_large_bodies_are_saved_from_their_chains_of_pages(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 20, size_bytes=50_000)
    content = bytearray(database(tmp_path).read_bytes())
    content[:100] = bytes(100)
    victim = min(bodies)
    at = content.index(bodies[victim][30_000:32_000])
    content[at + 1000] ^= 4
    database(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")

    assert drain(spool) == {key: body for key, body in bodies.items() if key != victim}
    (aside,) = spool.set_aside_entries()
    assert aside.item.checkpoint_id == victim
    spool.close()


def test_what_was_verified_or_set_aside_stays_so(tmp_path: Path) -> None:
    fill(tmp_path, 30)
    spool = open_spool(tmp_path / "spool")
    items = spool.pending()
    spool.acknowledge({each.checkpoint_id: Delivery(each.sequence, "p", "b", "c") for each in items[:10]})
    spool.set_aside(items[10], "a rule refuses it")
    moved = spool.renumber(items[11], 99, b"99:moved")
    spool.note("intent", b"1")
    before = [spool.receipt(item.checkpoint_id) for item in items]
    spool.close()
    content = bytearray(database(tmp_path).read_bytes())
    content[:16] = bytes(16)
    database(tmp_path).write_bytes(content)

    again = open_spool(tmp_path / "spool")

    assert [again.receipt(item.checkpoint_id) for item in items] == before
    assert again.pending() == [moved, *items[12:]]
    assert again.read(moved) == b"99:moved"
    assert [each.reason for each in again.set_aside_entries()] == ["a rule refuses it"]
    assert again.notes() == {"intent": b"1"}
    assert again.put(FakeEntry()).sequence_number == 100
    status = again.status(0.0)
    assert (status.depth, status.set_aside, status.lost) == (20, 1, 0)
    again.close()


@pytest.mark.slow
def test_damage_found_while_running_does_not_stop_the_rest(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 200)
    spool = open_spool(tmp_path / "spool")
    items = spool.pending()
    victim = items[50]
    alter(tmp_path, "update body set bytes = ? where arrival = 51", pickle.dumps(1))
    alter(tmp_path, "delete from item where checkpoint_id = ?", items[60].checkpoint_id)
    alter(tmp_path, "update item set sequence = 999 where checkpoint_id = ?", items[70].checkpoint_id)

    survivors = {}
    for item in items:
        try:
            survivors[item.checkpoint_id] = spool.read(item)
        except SpoolDamaged:
            assert item == victim

    assert survivors == {key: body for key, body in bodies.items() if key != victim.checkpoint_id}
    assert spool.status(0.0).depth == len(spool.pending()) == 199
    receipt = spool.receipt(items[60].checkpoint_id)
    assert receipt is not None
    assert receipt.status == Progress.SPOOLED
    spool.close()


@pytest.mark.parametrize("trigger", ["nonsense", "manual"])
def test_planted_item_is_neither_sent_nor_in_the_way(tmp_path: Path, trigger: str) -> None:
    bodies = fill(tmp_path, 3)
    columns = (
        900,
        "planted",
        "build-1",
        1,
        trigger,
        1,
        1,
        1.0,
        0,
        b"d",
        b"s",
        None,
        "normal",
        "spooled",
        "p",
    )
    alter(tmp_path, f"insert into item values ({'?, ' * 15}null, null, null, 0, 0, 0)", *columns)
    alter(tmp_path, "insert into body values (900, ?, ?)", b"d", pickle.dumps("planted"))

    spool = open_spool(tmp_path / "spool")

    assert drain(spool) == bodies
    assert [item.checkpoint_id for item in spool.pending()] == list(bodies)
    spool.close()


@pytest.mark.slow
@pytest.mark.parametrize("value", ["'text'", "17", "1.5"])
def test_body_that_is_not_made_of_bytes_is_missed(tmp_path: Path, value: str) -> None:
    bodies = fill(tmp_path, 3)
    victim = list(bodies)[1]
    alter(tmp_path, f"update body set bytes = {value} where arrival = 2")

    spool = open_spool(tmp_path / "spool")

    assert drain(spool) == {key: body for key, body in bodies.items() if key != victim}
    receipt = spool.receipt(victim)
    assert receipt is not None
    assert receipt.status == Progress.REFUSED
    spool.close()


def test_row_that_a_put_finds_damaged_is_salvaged_before_it_is_answered(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 3)
    victim = list(bodies)[1]
    with closing(open_spool(tmp_path / "spool")) as spool:
        alter(tmp_path, "update item set persistence = 'nonsense' where arrival = 2")
        state = bytes.fromhex(json.loads(bodies[victim])["state_snapshot"])

        receipt = spool.put(JsonEntry(checkpoint_id=victim, content=state, fingerprint=None))

        assert (receipt.sequence_number, receipt.persistence) == (2, Persistence.NORMAL)
        assert drain(spool) == bodies
        assert len(damaged_folders(tmp_path)) == 1


def test_older_version_of_a_body_does_not_come_back(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    with closing(open_spool(tmp_path / "spool")) as spool:
        item = spool.pending()[1]
        old = spool.read(item)
        moved = spool.renumber(item, 9, old.replace(b'"sequence_number":2', b'"sequence_number":9'))
    # A page that was freed may still hold the old one.
    alter(tmp_path, "insert into body values (0, ?, ?)", hashlib.sha256(old).digest(), old)
    alter(tmp_path, "delete from total")

    with closing(open_spool(tmp_path / "spool")) as spool:
        assert [each.sequence for each in spool.pending()] == [1, 9, 3]
        assert json.loads(spool.read(moved))["sequence_number"] == 9


def test_body_that_vanished_is_missed(tmp_path: Path) -> None:
    fill(tmp_path, 5)
    alter(tmp_path, "delete from body where arrival = 3")
    spool = open_spool(tmp_path / "spool")
    victim = spool.pending()[2]

    with pytest.raises(SpoolDamaged):
        spool.read(victim)

    assert victim not in spool.pending()
    receipt = spool.receipt(victim.checkpoint_id)
    assert receipt is not None
    assert "lost" in (receipt.reason or "")
    assert spool.status(0.0).lost == 1
    with pytest.raises((SpoolDamaged, UnknownRun)):
        spool.restore(victim.checkpoint_id)
    assert spool.set_aside_entries() == []
    spool.close()


def test_row_that_vanished_is_made_anew_from_its_body(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 5)
    victim = list(bodies)[3]
    alter(tmp_path, "delete from item where checkpoint_id = ?", victim)

    spool = open_spool(tmp_path / "spool")

    assert drain(spool) == bodies
    receipt = spool.receipt(victim)
    assert receipt is not None
    assert (receipt.status, receipt.sequence_number) == (Progress.SPOOLED, 4)
    assert receipt.file_path == "checkpoints/build-1/cp_004_manual.json"
    assert (spool.status(0.0).depth, spool.status(0.0).lost) == (5, 0)
    spool.close()


def test_row_and_body_that_say_nothing_are_counted_as_lost(tmp_path: Path) -> None:
    with closing(open_spool(tmp_path / "spool")) as spool:
        spool.put_all([FakeEntry(content=b"no JSON") for _ in range(3)])
    alter(tmp_path, "delete from item where arrival = 2")

    with closing(open_spool(tmp_path / "spool")) as spool:
        assert [item.sequence for item in spool.pending()] == [1, 3]
        assert spool.status(0.0).lost == 1
        with pytest.raises(SpoolDamaged, match="has lost some"):
            spool.set_aside(replace(spool.pending()[0], checkpoint_id="gone"), "why")


def test_interrupted_salvage_is_finished_at_the_next_opening(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 20)
    home = tmp_path / "spool"
    (home / "queue").rename(home / "damaged-20260101T000000Z")
    (home / "salvaged").mkdir()
    (home / "salvaged" / DATABASE).write_bytes(b"half of it")

    spool = open_spool(home)

    assert drain(spool) == bodies
    assert not (home / "salvaged").exists()
    assert (home / "damaged-20260101T000000Z" / REPORT).exists()
    spool.close()


def test_whoever_still_has_the_old_file_open_follows_to_the_new_one(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 50)
    first, second = open_spool(tmp_path / "spool"), open_spool(tmp_path / "spool")
    item = first.pending()[0]
    second.put(FakeEntry(checkpoint_id="late"))
    alter(tmp_path, "delete from total")

    assert first.status(0.0).depth == 51
    receipt = second.put(FakeEntry(checkpoint_id="later"))

    assert receipt.sequence_number == 52
    assert {each.checkpoint_id for each in first.pending()} == {*bodies, "late", "later"}
    assert second.read(item) == bodies[item.checkpoint_id]
    assert len(damaged_folders(tmp_path)) == 1
    first.close()
    second.close()


PUT_AND_HANG = """
import sys, time
from pathlib import Path
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
for number in range(20):
    spool.put(FakeEntry(content=b"%d" % number * 200))
print("done", flush=True)
time.sleep(60)
"""


@pytest.mark.processes
@pytest.mark.parametrize("is_missing", [False, True])
def test_log_beside_an_emptied_database_is_not_thrown_away(tmp_path: Path, is_missing: bool) -> None:
    process = start_python(PUT_AND_HANG, str(tmp_path / "spool"))
    assert process.stdout is not None
    assert process.stdout.readline() == "done\n"
    process.kill()
    process.communicate()
    if is_missing:
        database(tmp_path).unlink()
    else:
        database(tmp_path).write_bytes(b"")

    spool = open_spool(tmp_path / "spool")

    assert [spool.read(item) for item in spool.pending()] == [
        b"%d:" % (number + 1) + b"%d" % number * 200 for number in range(20)
    ]
    spool.close()


def test_salvage_without_room_acknowledges_nothing_and_goes_on_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = fill(tmp_path, 10)
    content = bytearray(database(tmp_path).read_bytes())
    content[:16] = bytes(16)
    database(tmp_path).write_bytes(content)

    def refuse(*_: object, **__: object) -> None:
        raise SpoolUnwritable("no room")

    with monkeypatch.context() as patch:
        patch.setattr("holdfast.queue.folder.make_database", refuse)
        for _ in range(2):
            with pytest.raises(SpoolUnwritable):
                open_spool(tmp_path / "spool")

    spool = open_spool(tmp_path / "spool")
    assert drain(spool) == bodies
    spool.close()


def test_salvage_that_died_before_its_report_is_not_taken_for_the_next_damage(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    queue = tmp_path / "spool" / "queue"
    old = tmp_path / "spool" / "damaged-20200101T000000Z"
    shutil.copytree(queue, old)  # replaced, but the process died before it wrote the report
    newer = fill(tmp_path, 5)
    database(tmp_path).write_bytes(b"garbage" + database(tmp_path).read_bytes()[7:])

    spool = open_spool(tmp_path / "spool")

    assert set(newer) <= set(drain(spool))
    spool.close()


def test_clock_that_was_set_back_does_not_bring_back_what_an_earlier_salvage_replaced(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    queue = tmp_path / "spool" / "queue"
    shutil.copytree(queue, tmp_path / "spool" / "damaged-20990101T000000Z")  # its process left no report
    newer = fill(tmp_path, 5)
    database(tmp_path).write_bytes(b"garbage" + database(tmp_path).read_bytes()[7:])

    with closing(open_spool(tmp_path / "spool")) as spool:
        assert set(newer) <= set(drain(spool))


def test_nobody_writes_to_the_damaged_file_while_it_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    spool, other = open_spool(tmp_path / "spool"), open_spool(tmp_path / "spool")
    for each in (spool, other):
        each.put(JsonEntry())

    def read(damaged: Path, *arguments: Any) -> Salvage:
        writer = sqlite3.connect(damaged, timeout=0, isolation_level=None)
        with closing(writer), pytest.raises(sqlite3.OperationalError, match="locked"):
            writer.execute("begin immediate")
        return Salvage(damaged, *arguments)

    monkeypatch.setattr(queue_folder, "Salvage", read)
    spool._folder._replace(spool._folder._file, is_damaged=True)

    assert len(drain(other)) == 2
    for each in (spool, other):
        each.close()


def test_new_file_has_another_name_so_that_who_still_closes_the_old_one_cannot_delete_its_log(
    tmp_path: Path,
) -> None:
    spool = open_spool(tmp_path / "spool")
    names = {spool._folder._file.path.name}
    for _ in range(3):
        spool.put(JsonEntry())
        spool._folder._replace(spool._folder._file, is_damaged=True)
        names.add(spool._folder._file.path.name)
    spool.close()

    assert len(names) == 4
    with closing(open_spool(tmp_path / "spool")) as spool:
        assert len(drain(spool)) == 3


def test_log_of_a_salvaged_file_that_has_lost_its_head_is_not_thrown_away(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "spool")
    spool._folder._replace(spool._folder._file, is_damaged=True)
    spool.put(JsonEntry())
    left = tmp_path / "left"
    shutil.copytree(tmp_path / "spool", left)
    spool.close()
    (left / "queue" / spool._folder._file.path.name).unlink()

    with closing(open_spool(left)) as spool:
        assert len(drain(spool)) == 1


@pytest.mark.parametrize("name", [b"\xf2lob_sha", b"blob_xyz"])
def test_column_whose_name_was_altered_is_salvaged(tmp_path: Path, name: bytes) -> None:
    bodies = fill(tmp_path, 20)
    database(tmp_path).write_bytes(database(tmp_path).read_bytes().replace(b"blob_sha", name, 1))

    with closing(open_spool(tmp_path / "spool")) as spool:
        (first, *_) = spool.pending()
        spool.mark_committed({first.checkpoint_id: Delivery(first.sequence, "p", "c", "b")})
        assert drain(spool) == bodies


def test_format_that_was_lost_is_salvaged(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 20)
    alter(tmp_path, "pragma user_version = 0")

    with closing(open_spool(tmp_path / "spool")) as spool:
        assert drain(spool) == bodies


def test_body_that_no_row_speaks_of_does_not_refuse_the_next_checkpoint(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 3)
    alter(tmp_path, "insert into body values (4, x'00', x'00')")

    with closing(open_spool(tmp_path / "spool")) as spool:
        spool.put(JsonEntry(checkpoint_id="new"))
        assert drain(spool).keys() == {*bodies, "new"}


def test_row_whose_id_was_altered_is_found_by_reading_it(tmp_path: Path) -> None:
    bodies = fill(tmp_path, 3)
    first = min(bodies)
    altered = f"X{first[1:]}"
    content = database(tmp_path).read_bytes()
    rows = [at for at in range(len(content)) if content.startswith(f"{first}build-1".encode(), at)]
    for at in rows:
        content = content[:at] + altered.encode() + content[at + len(altered) :]
    database(tmp_path).write_bytes(content)

    with closing(open_spool(tmp_path / "spool")) as spool:
        (item,) = [each for each in spool.pending() if each.checkpoint_id == altered]
        with pytest.raises((UnknownRun, SpoolDamaged)):
            spool.read(item)
        assert drain(spool) == bodies


@pytest.mark.parametrize("byte", [18, 19])
def test_header_that_forbids_to_write_is_damage(tmp_path: Path, byte: int) -> None:
    bodies = fill(tmp_path, 5)
    content = bytearray(database(tmp_path).read_bytes())
    content[byte] ^= 0x40
    database(tmp_path).write_bytes(content)

    spool = open_spool(tmp_path / "spool")
    spool.put(JsonEntry(checkpoint_id="new"))

    assert set(drain(spool)) == {*bodies, "new"}
    assert len(damaged_folders(tmp_path)) == 1
    spool.close()


def test_empty_file_is_damage_and_not_a_new_spool(tmp_path: Path) -> None:
    fill(tmp_path, 3)
    database(tmp_path).write_bytes(b"")

    with capture_logs() as logs:
        spool = open_spool(tmp_path / "spool")
    spool.put(JsonEntry(checkpoint_id="new"))

    assert [entry["event"] for entry in logs] == ["spool_damage_found", "spool_salvaged"]
    assert set(drain(spool)) == {"new"}
    assert len(damaged_folders(tmp_path)) == 1
    spool.close()


def test_spool_whose_making_was_cut_short_is_made_anew(tmp_path: Path) -> None:
    folder = database(tmp_path).parent
    folder.mkdir(parents=True)
    for name in ("making.db", "making.db-wal"):
        (folder / name).write_bytes(b"half")

    spool = open_spool(tmp_path / "spool")
    spool.put(JsonEntry(checkpoint_id="new"))

    assert set(drain(spool)) == {"new"}
    assert damaged_folders(tmp_path) == []
    spool.close()
