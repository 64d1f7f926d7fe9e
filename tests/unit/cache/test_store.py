import os
import pickle
import platform
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from pathlib import Path

import diskcache
import pytest

from holdfast.cache.database import DATABASE, Database
from holdfast.cache.store import Store, open_store
from holdfast.disk import LOCK_TIMEOUT_S, DatabaseDamaged, RowDamaged, StoreMoved, seal
from holdfast.errors import SpoolDamaged, SpoolError, SpoolUnwritable
from tests.fakes.spooling import run_python


@pytest.fixture
def store(tmp_path: Path) -> Iterator[Store]:
    store = open_store(tmp_path / "store", is_durable=True)
    yield store
    store.close()


def connection_of(store: Store) -> sqlite3.Connection:
    connection = store._database._con
    assert isinstance(connection, sqlite3.Connection)
    return connection


def ask(store: Store, pragma: str) -> object:
    return connection_of(store).execute(f"PRAGMA {pragma}").fetchone()[0]


def alter(store: Store, statement: str, *values: object) -> None:
    """Change the file behind the store's back, as another program could."""
    with sqlite3.connect(store.folder / DATABASE) as connection:
        connection.execute(statement, values)
    connection.close()


def plant(store: Store, key: str, **columns: object) -> None:
    names = {"raw": 1, "mode": 1, **columns}
    alter(
        store,
        f"INSERT INTO Cache (key, {', '.join(names)}) VALUES (?{', ?' * len(names)})",
        key,
        *names.values(),
    )


class Bomb:
    """A pickle of this makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


def test_every_thread_commits_with_full_synchronisation(store: Store) -> None:
    seen: list[object] = [ask(store, "synchronous")]
    thread = threading.Thread(target=lambda: seen.append(ask(store, "synchronous")))
    thread.start()
    thread.join()

    assert seen == [2, 2]
    assert ask(store, "journal_mode") == "wal"


def test_durability_does_not_hang_on_a_stored_setting(tmp_path: Path, store: Store) -> None:
    alter(store, "UPDATE Settings SET value = 0 WHERE key = 'sqlite_synchronous'")
    seen: list[object] = []
    thread = threading.Thread(target=lambda: seen.append(ask(store, "synchronous")))
    thread.start()
    thread.join()

    assert seen == [2]


def test_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("new", "open"):
        open_store(tmp_path / name, is_durable=True).close()

        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_large_values_stay_inside_the_database(store: Store) -> None:
    value = os.urandom(1_000_000)

    store.set("big", value)

    assert store.get("big") == value
    assert not list(store.folder.rglob("*.val"))


LARGE = 3 * 1024**2 + 17


@pytest.mark.parametrize("is_durable", [True, False])
def test_large_values_come_back_and_give_way_to_small_ones_and_the_other_way_round(
    tmp_path: Path, is_durable: bool
) -> None:
    limits = {} if is_durable else {"max_bytes": 2**26}
    store = open_store(tmp_path / "store", is_durable=is_durable, **limits)
    large = os.urandom(LARGE)
    for value in (large, b"small", large[::-1], large):
        store.set("key", value)
        assert store.get("key") == value
    store.set_many({"a": b"1", "b": large, "c": large[:-1]})
    assert store.get_many(["a", "b", "c", "d"]) == {"a": b"1", "b": large, "c": large[:-1]}
    assert dict(store.items("")) == {"a": b"1", "b": large, "c": large[:-1], "key": large}
    store.close()


def test_large_value_is_stored_like_any_other(store: Store) -> None:
    value = os.urandom(LARGE)
    store.set("key", value)
    row = connection_of(store).execute("SELECT mode, filename, value FROM Cache WHERE key = 'key'").fetchone()
    assert row == (1, None, seal("key", value))


def test_large_value_is_read_inside_of_a_transaction_and_undone_with_it(store: Store) -> None:
    before, after = os.urandom(LARGE), os.urandom(LARGE)
    store.set("key", before)
    with pytest.raises(ZeroDivisionError), store.transact():  # noqa: PT012
        store.set("key", after)
        assert store.get("key") == after
        raise ZeroDivisionError
    assert store.get("key") == before


def test_flipped_bit_in_a_large_value_is_found_and_its_bytes_can_be_kept(store: Store) -> None:
    value = bytes(LARGE)
    store.set("key", value)
    damaged = value[:-1] + b"\x01"
    alter(store, "UPDATE Cache SET value = ? WHERE key = 'key'", seal("key", value)[:32] + damaged)
    with pytest.raises(RowDamaged, match="digest"):
        store.get("key")
    assert store.get_unchecked("key") == damaged


def test_large_pickle_is_refused(store: Store) -> None:
    plant(store, "key", mode=4, value=bytes(LARGE))
    for read in (store.get, store.get_unchecked):
        with pytest.raises(RowDamaged, match=r"'key'.*pickle"):
            read("key")


@pytest.mark.parametrize("kind", [{"mode": 4}, {"mode": 2, "filename": "trap.val"}])
@pytest.mark.parametrize("size_bytes", [10, LARGE])
def test_pickle_or_file_is_not_even_kept_as_damaged(
    store: Store, kind: dict[str, object], size_bytes: int
) -> None:
    plant(store, "key", value=bytes(size_bytes), **kind)
    with pytest.raises(RowDamaged, match=r"'key'.*did not write it"):
        store.get_unchecked("key")


def test_large_value_that_has_gone_since_it_was_listed_is_absent(store: Store) -> None:
    store.set_many({"a": b"1", "b": bytes(LARGE)})
    items = store.items("")
    assert next(items) == ("a", b"1")
    store.delete("b")
    assert list(items) == []


@pytest.mark.parametrize("value", [b"small", b"", bytes(LARGE)[::-1] + b"larger"])
def test_large_value_that_has_become_another_since_it_was_listed_is_read_as_it_is(
    store: Store, value: bytes
) -> None:
    other = open_store(store.folder, is_durable=True)
    store.set_many({"a": b"1", "b": bytes(LARGE)})
    items = store.items("")
    assert next(items) == ("a", b"1")
    other.set("b", value)
    assert list(items) == [("b", value)]
    other.close()


def test_large_value_that_has_become_a_pickle_since_it_was_listed_is_refused(store: Store) -> None:
    store.set_many({"a": b"1", "b": bytes(LARGE)})
    items = store.items("")
    assert next(items) == ("a", b"1")
    alter(store, "UPDATE Cache SET mode = 4 WHERE key = 'b'")
    with pytest.raises(RowDamaged, match="pickle"):
        next(items)
    assert not connection_of(store).in_transaction


def test_rehearsal_keeps_even_a_large_value_off_the_disk(store: Store) -> None:
    log = store.folder / f"{DATABASE}-wal"
    with store.rehearse(SpoolUnwritable("no")):
        before = log.stat().st_size
        store.set_many({"key": os.urandom(8 * 1024**2)})
        assert store.get("key") is not None
        assert log.stat().st_size == before
    assert store.get("key") is None
    with store.transact():
        store.set("key", os.urandom(8 * 1024**2))
        assert log.stat().st_size > before, "what is to be stored may leave the memory early"


def test_rehearsal_that_could_not_begin_leaves_the_connection_as_it_was(store: Store) -> None:
    connection_of(store).execute("PRAGMA busy_timeout = 20")
    before = ask(store, "cache_spill")
    other = sqlite3.connect(store.folder / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(SpoolUnwritable, match="another process"), store.rehearse(SpoolUnwritable("no")):
        pass
    other.close()

    assert before
    assert ask(store, "cache_spill") == before


def test_rehearsal_in_a_rehearsal_is_refused_and_the_outer_one_goes_on(store: Store) -> None:
    with store.rehearse(SpoolUnwritable("no")):
        store.set_many({"a": b"1"})
        with pytest.raises(SpoolUnwritable, match="no"), store.rehearse(SpoolUnwritable("inner")):
            pass
        assert store.get("a") == b"1"
    assert store.get("a") is None


def test_nothing_is_evicted_even_where_the_folder_was_set_up_to_evict(tmp_path: Path) -> None:
    folder = tmp_path / "store"
    diskcache.Cache(str(folder), size_limit=1000, cull_limit=10).close()
    store = open_store(folder, is_durable=True)

    for number in range(100):
        store.set(f"row|{number:03d}", bytes(10_000))
    store._database.cull()

    assert len(store.keys("row|")) == 100
    store.close()


def test_bounded_store_drops_what_was_not_read_for_longest(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=2_000_000)

    store.set("kept", bytes(50_000))
    for number in range(100):
        store.set(f"row|{number:03d}", os.urandom(50_000))
        assert store.get("kept") == bytes(50_000)

    assert 0 < len(store.keys("row|")) < 50
    assert (tmp_path / "cache" / DATABASE).stat().st_size < 6_000_000
    store.close()


def used_bytes(store: Store) -> int:
    pages = ask(store, "page_count")
    assert isinstance(pages, int)
    return pages * 4096


@pytest.mark.parametrize("size_bytes", [1000, 300_000, 2_000_000, 6_000_000])
def test_bounded_store_takes_one_value_after_the_other_and_keeps_the_newest(
    tmp_path: Path, size_bytes: int
) -> None:
    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=10_000_000)
    store.set("old", bytes(8_000_000))
    for number in range(8):
        value = bytes([number]) * size_bytes
        store.set(f"row|{number:02d}", value)
        assert store.get(f"row|{number:02d}") == value
        assert used_bytes(store) <= 10_000_000
    assert len(store.keys("row|")) == min(8, 9_900_000 // size_bytes)
    store.close()


@pytest.mark.parametrize("size_bytes", [100_000, 1_200_000])
def test_many_values_stored_together_push_out_no_more_than_they_need(tmp_path: Path, size_bytes: int) -> None:
    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=16_000_000)
    for number in range(160):
        store.set(f"old|{number:03d}", bytes(100_000))
    store.get("old|100")
    with store.transact():
        for number in range(6):
            store.set(f"new|{number}", bytes(size_bytes))
    assert len(store.keys("new|")) == 6
    assert 15_000_000 < used_bytes(store) <= 16_000_000
    assert store.get("old|100") is not None
    store.close()


def test_more_than_a_bounded_store_holds_is_passed_over(tmp_path: Path) -> None:
    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=4_000_000)
    with store.transact():
        for number in range(20):
            store.set(f"row|{number:02d}", bytes(1_200_000))
    assert store.keys("") == ["row|17", "row|18", "row|19"]
    store.set("larger than all of it", bytes(4_000_001))
    assert store.keys("") == []
    store.set("a", b"1")
    assert store.get("a") == b"1"
    store.close()


def test_cache_that_cannot_make_room_leaves_no_transaction_open(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: Database) -> None:
        raise KeyboardInterrupt

    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=4_000_000)
    with monkeypatch.context() as interrupted:
        interrupted.setattr(Database, "make_room", interrupt)
        with pytest.raises(KeyboardInterrupt):
            store.set("a", b"1")
    assert not connection_of(store).in_transaction
    store.set("b", b"2")
    assert store.keys("") == ["b"]
    store.close()


def test_damaged_cache_is_emptied_and_a_damaged_row_of_it_is_absent(tmp_path: Path) -> None:
    folder = tmp_path / "cache"
    store = open_store(folder, is_durable=False, max_bytes=2_000_000)
    store.set("a", b"1")
    alter(store, "UPDATE Cache SET value = ?", b"x" * 40)
    assert store.get("a") is None
    store.close()
    (folder / DATABASE).write_bytes(b"no database at all" * 1000)

    again = open_store(folder, is_durable=False, max_bytes=2_000_000)

    assert again.keys("") == []
    again.close()


def test_planted_pickle_is_refused_and_not_loaded(tmp_path: Path, store: Store) -> None:
    trap = tmp_path / "trap"
    plant(store, "value", mode=4, value=pickle.dumps(Bomb(trap)))
    plant(store, "file", mode=4, filename="trap.val")
    (store.folder / "trap.val").write_bytes(pickle.dumps(Bomb(trap)))
    plant(store, "binary-file", mode=2, filename="trap.val")
    alter(
        store, "INSERT INTO Cache (key, raw, mode, value) VALUES (?, 0, 1, ?)", pickle.dumps(Bomb(trap)), b"1"
    )

    for key in ("value", "file", "binary-file"):
        with pytest.raises(RowDamaged, match=f"'{key}'.*did not write it"):
            store.get(key)
    with pytest.raises(RowDamaged):
        list(store.items(""))
    assert store.keys("") == ["binary-file", "file", "value"]
    with pytest.raises(RowDamaged):
        list(store._database.iterkeys())
    assert not trap.exists()


def test_row_planted_in_a_cache_is_not_loaded_either(tmp_path: Path) -> None:
    trap = tmp_path / "trap"
    store = open_store(tmp_path / "cache", is_durable=False, max_bytes=2_000_000)
    plant(store, "value", mode=4, value=pickle.dumps(Bomb(trap)))

    assert store.get("value") is None
    assert not trap.exists()
    store.close()


@pytest.mark.parametrize(("key", "value"), [(b"key", b"value"), ("key", "value"), ("key", {"a": 1})])
def test_only_bytes_under_text_are_stored(store: Store, key: object, value: object) -> None:
    with pytest.raises(TypeError):
        store._database.set(key, value)

    assert store.keys("") == []


def test_value_under_another_key_is_found_out(store: Store) -> None:
    store.set_many({"a": b"1", "b": b"2"})
    alter(store, "UPDATE Cache SET value = (SELECT value FROM Cache WHERE key = 'b') WHERE key = 'a'")

    with pytest.raises(RowDamaged):
        store.get("a")
    assert store.get("b") == b"2"


def test_transaction_is_undone_by_an_exception(store: Store) -> None:
    store.set("a", b"1")

    def interrupted() -> None:
        with store.transact():
            store.set_many({"a": b"2", "b": b"2"})
            store.delete("a")
            raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        interrupted()

    assert (store.get("a"), store.get("b")) == (b"1", None)
    assert not connection_of(store).in_transaction
    store.set("b", b"3")
    assert store.get("b") == b"3"


def test_keys_come_sorted_from_a_prefix_and_no_value_is_read(store: Store) -> None:
    store.set_many(dict.fromkeys(("b|2", "a|1", "b|1", "c|1", "b"), b"v"))
    read: list[str | None] = []

    def watch(action: int, _table: str | None, column: str | None, *_: object) -> int:
        if action == sqlite3.SQLITE_READ:
            read.append(column)
        return sqlite3.SQLITE_OK

    connection_of(store).set_authorizer(watch)

    assert store.keys("b|") == ["b|1", "b|2"]
    assert store.keys("b|", limit=1) == ["b|1"]
    assert set(read) == {"key", "raw"}


def test_items_come_in_pieces_and_whole(store: Store) -> None:
    rows = {f"a|{number:04d}": b"%d" % number for number in range(1203)}
    store.set_many({**rows, "b|": b""})

    assert dict(store.items("a|")) == rows
    assert store.get_many(rows) == rows


def test_full_disk_is_said_and_leaves_what_was_stored(store: Store) -> None:
    store.set("before", bytes(10_000))
    pages = ask(store, "page_count")
    connection_of(store).execute(f"PRAGMA max_page_count = {pages}")

    with pytest.raises(SpoolUnwritable, match="full; free some space"):
        store.set("too much", bytes(100_000))

    assert not connection_of(store).in_transaction
    assert store.get("before") == bytes(10_000)
    connection_of(store).execute("PRAGMA max_page_count = 100000")
    store.set("after", b"1")
    assert store.keys("") == ["after", "before"]


def test_locked_database_is_an_error_and_not_an_endless_wait(store: Store) -> None:
    connection_of(store).execute("PRAGMA busy_timeout = 20")
    other = sqlite3.connect(store.folder / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")

    with pytest.raises(SpoolUnwritable, match="another process has held it"):
        store.set("a", b"1")

    other.execute("ROLLBACK")
    other.close()
    store.set("a", b"1")
    assert store.get("a") == b"1"


def test_garbled_database_is_damaged_not_a_foreign_error(tmp_path: Path) -> None:
    (tmp_path / "store").mkdir()
    (tmp_path / "store" / DATABASE).write_bytes(b"garbage" * 10_000)

    with pytest.raises(DatabaseDamaged, match="damaged") as caught:
        open_store(tmp_path / "store", is_durable=True)
    assert isinstance(caught.value, SpoolDamaged)


def test_lost_tables_and_undecodable_keys_count_as_damage(store: Store) -> None:
    store.set("key|a", b"1")
    alter(store, "UPDATE Cache SET key = CAST(x'6b65797c61ff' AS TEXT)")
    with pytest.raises(DatabaseDamaged):
        store.keys("key|")

    alter(store, "DROP TABLE Cache")
    with pytest.raises(DatabaseDamaged, match="lost its tables"):
        store.keys("")


def test_write_to_a_file_that_was_moved_away_does_not_count(store: Store, tmp_path: Path) -> None:
    store.set("a", b"1")

    def move_while_writing() -> None:
        with store.transact():
            store.set("b", b"2")
            store.folder.rename(tmp_path / "elsewhere")

    with pytest.raises(StoreMoved):
        move_while_writing()
    for attempt in (lambda: store.set("c", b"3"), lambda: store.get("a"), lambda: store.keys("")):
        with pytest.raises(StoreMoved):
            attempt()


def test_closed_store_takes_nothing(tmp_path: Path) -> None:
    store = open_store(tmp_path / "store", is_durable=True)
    store.close()

    with pytest.raises(SpoolUnwritable, match="closed"):
        store.set("a", b"1")


def test_connection_of_a_thread_ends_with_it(store: Store) -> None:
    for _ in range(20):
        thread = threading.Thread(target=store.set, args=("a", b"1"))
        thread.start()
        thread.join()
    del thread
    store.get("a")

    assert sum(closer.alive for closer in store._database._closers) <= 2


def test_path_that_diskcache_would_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(SpoolUnwritable, match="variable"):
        open_store(tmp_path / "$HOME", is_durable=True)


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SpoolUnwritable):
        open_store(tmp_path / "file" / "store", is_durable=True)
    with pytest.raises(SpoolError):
        open_store(tmp_path / "file", is_durable=True)


FAILING_SYNC = """
import ctypes, errno, platform, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from holdfast.cache.store import open_store

store = open_store(Path(sys.argv[1]), is_durable=True)
store.set("before", b"1")

calls = {"x86_64": (74, 75), "aarch64": (82, 83)}[platform.machine()]
class Instruction(ctypes.Structure):
    _fields_ = [("code", ctypes.c_ushort), ("yes", ctypes.c_ubyte), ("no", ctypes.c_ubyte),
                ("k", ctypes.c_uint)]
class Program(ctypes.Structure):
    _fields_ = [("length", ctypes.c_ushort), ("first", ctypes.POINTER(Instruction))]
# Every fsync and fdatasync of this process fails with EIO from here on.
code = (Instruction * 5)((0x20, 0, 0, 0), (0x15, 2, 0, calls[0]), (0x15, 1, 0, calls[1]),
                         (0x06, 0, 0, 0x7FFF0000), (0x06, 0, 0, 0x00050000 | errno.EIO))
libc = ctypes.CDLL(None, use_errno=True)
assert libc.prctl(38, 1, 0, 0, 0) == 0
assert libc.prctl(22, 2, ctypes.byref(Program(5, code)), 0, 0) == 0, ctypes.get_errno()

for key in ("first", "second"):
    try:
        store.set(key, b"1")
        print("acknowledged")
    except SpoolUnwritable as error:
        print(error)
"""


@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"},
    reason="makes the kernel refuse system calls, which is done by number",
)
def test_failed_sync_is_never_acknowledged_and_never_tried_again(tmp_path: Path) -> None:
    first, second = run_python(FAILING_SYNC, str(tmp_path / "store")).splitlines()

    assert "disk I/O error; check the disk" in first
    assert "failed to confirm a write; check the disk, then start Holdfast again" in second
    store = open_store(tmp_path / "store", is_durable=True)
    assert store.get("before") == b"1"
    assert store.get("second") is None
    store.close()


FILE_TOO_LARGE = """
import resource, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from holdfast.cache.store import open_store

store = open_store(Path(sys.argv[1]), is_durable=True)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
stored, refused = [], 0
for number in range(30):
    try:
        store.set(f"row|{number:02d}", bytes([number]) * 50_000)
        stored.append(number)
    except SpoolUnwritable as error:
        refused += 1
assert refused > 10 and stored, (refused, stored)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
store.set("row|99", bytes([99]) * 50_000)
print(*stored, 99)
"""


def test_disk_that_takes_no_more_loses_nothing_and_works_again_when_it_does(tmp_path: Path) -> None:
    stored = [int(number) for number in run_python(FILE_TOO_LARGE, str(tmp_path / "store")).split()]

    store = open_store(tmp_path / "store", is_durable=True)
    assert dict(store.items("row|")) == {f"row|{number:02d}": bytes([number]) * 50_000 for number in stored}
    assert ask(store, "integrity_check") == "ok"
    store.close()


READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from holdfast.cache.store import open_store

if os.geteuid() == 0:
    # Without its capabilities, root is bound by permissions like anyone else.
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
for name in ("existing", "new"):
    try:
        open_store(Path(sys.argv[1], name), is_durable=True).set("a", b"1")
        print("acknowledged")
    except SpoolUnwritable as error:
        print(error)
"""


@pytest.mark.skipif(sys.platform == "win32", reason="permissions as on POSIX")
def test_read_only_folder_is_said_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    store = open_store(tmp_path / "existing", is_durable=True)
    store.set("a", b"0")
    store.close()
    for path in (*(tmp_path / "existing").iterdir(), tmp_path / "existing", tmp_path):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        existing, new = run_python(READ_ONLY, str(tmp_path)).splitlines()
    finally:
        for path in (tmp_path, tmp_path / "existing"):
            path.chmod(0o700)

    assert "readonly" in existing or "unable to open" in existing
    assert "let this user write to the folder" in existing
    assert "Permission denied" in new


def test_opening_waits_for_other_processes_from_the_first_statement_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[int] = []

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            timeouts.append(super().execute("PRAGMA busy_timeout").fetchone()[0])
            return super().execute(*arguments)  # type: ignore[arg-type]

    connect = sqlite3.connect
    monkeypatch.setattr(
        "holdfast.cache.database.sqlite3.connect", lambda *a, **k: connect(*a, **k, factory=Connection)
    )

    open_store(tmp_path / "store", is_durable=True).close()

    assert set(timeouts) == {LOCK_TIMEOUT_S * 1000}
