import os
import pickle
import sqlite3
import threading
from collections.abc import Callable, Iterator
from contextlib import closing
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast.cache import disk_cache
from holdfast.cache.best_effort import REST_S, BestEffortCache
from holdfast.cache.disk_cache import DATABASE, DiskCache
from tests.fakes.spooling import run_python

LARGE = 3 * 1024**2 + 17


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "cache"


@pytest.fixture
def cache(folder: Path) -> Iterator[BestEffortCache]:
    with closing(BestEffortCache(folder, max_bytes=2**26)) as cache:
        yield cache


def connection_of(cache: BestEffortCache) -> sqlite3.Connection:
    assert cache._database is not None
    return cache._database._con


def ask(cache: BestEffortCache, pragma: str) -> object:
    return connection_of(cache).execute(f"PRAGMA {pragma}").fetchone()[0]


def used_bytes(cache: BestEffortCache) -> int:
    pages = ask(cache, "page_count")
    assert isinstance(pages, int)
    return pages * 4096


def alter(folder: Path, statement: str, *values: object) -> None:
    """Change the file behind the cache's back, as another program could."""
    with closing(sqlite3.connect(folder / DATABASE)) as connection, connection:
        connection.execute(statement, values)


def plant(folder: Path, key: object, **columns: object) -> None:
    names = {"raw": 1, "mode": 1, **columns}
    alter(
        folder,
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


# What is kept


@pytest.mark.parametrize("value", [b"", b"small", bytes(LARGE)])
def test_value_comes_back_also_after_a_restart(folder: Path, value: bytes) -> None:
    with closing(BestEffortCache(folder, max_bytes=2**26)) as cache:
        assert cache.set("a", value)
        assert cache.get("a") == value
    with closing(BestEffortCache(folder, max_bytes=2**26)) as again:
        assert again.get_many(["a", "b"]) == {"a": value}


def test_value_gives_way_to_another_and_to_none(cache: BestEffortCache) -> None:
    for value in (bytes(LARGE), b"small", bytes(LARGE)):
        cache.set("a", value)
        assert cache.get("a") == value

    assert cache.delete("a")
    assert cache.delete("a")
    assert cache.get("a") is None


def test_keys_are_found_by_their_beginning(cache: BestEffortCache) -> None:
    cache.set_many(dict.fromkeys(("b/2", "a/1", "b/1", "b", "c/1"), b"v"))

    assert sorted(cache.keys("b/")) == ["b/1", "b/2"]


# Room


def test_what_was_not_used_for_longest_makes_room(folder: Path) -> None:
    with closing(BestEffortCache(folder, max_bytes=2_000_000)) as cache:
        cache.set("kept", bytes(50_000))
        for number in range(100):
            cache.set(f"row/{number:03d}", os.urandom(50_000))
            assert cache.get("kept") == bytes(50_000)

        assert 0 < len(cache.keys("row/")) < 50
        assert (folder / DATABASE).stat().st_size <= 2_000_000


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", [1000, 300_000, 2_000_000, 6_000_000])
def test_full_cache_takes_one_value_after_the_other_and_keeps_the_newest(
    folder: Path, size_bytes: int
) -> None:
    with closing(BestEffortCache(folder, max_bytes=10_000_000)) as cache:
        cache.set("old", bytes(8_000_000))
        for number in range(8):
            value = bytes([number]) * size_bytes
            cache.set(f"row/{number}", value)
            assert cache.get(f"row/{number}") == value
            assert used_bytes(cache) <= 10_000_000
        assert len(cache.keys("row/")) == min(8, 9_900_000 // size_bytes)


@pytest.mark.slow
@pytest.mark.parametrize("size_bytes", [100_000, 1_200_000])
def test_many_values_kept_together_push_out_no_more_than_they_need(folder: Path, size_bytes: int) -> None:
    with closing(BestEffortCache(folder, max_bytes=16_000_000)) as cache:
        for number in range(160):
            cache.set(f"old/{number:03d}", bytes(100_000))
        cache.get("old/100")
        cache.set_many({f"new/{number}": bytes(size_bytes) for number in range(6)})
        assert len(cache.keys("new/")) == 6
        assert 15_000_000 < used_bytes(cache) <= 16_000_000
        assert cache.get("old/100") is not None


@pytest.mark.slow
def test_more_than_a_cache_holds_is_passed_over(folder: Path) -> None:
    with closing(BestEffortCache(folder, max_bytes=4_000_000)) as cache:
        cache.set_many({f"row/{number:02d}": bytes(1_200_000) for number in range(20)})
        assert cache.keys("") == ["row/17", "row/18", "row/19"]
        cache.set("larger than all of it", bytes(4_000_001))
        assert cache.keys("") == []
        cache.set("a", b"1")
        assert cache.get("a") == b"1"


def test_reserve_of_the_disk_is_left_alone(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    disk = os.statvfs(folder.parent)

    def leave(free_bytes: int) -> Callable[[object], os.statvfs_result]:
        blocks = free_bytes // disk.f_frsize
        return lambda _: os.statvfs_result((*disk[:3], blocks, blocks, *disk[5:]))

    with closing(BestEffortCache(folder, max_bytes=2**26, min_free_bytes=2**20)) as cache:
        monkeypatch.setattr("holdfast.cache.best_effort.os.statvfs", leave(2**20 + 10_000))
        assert cache.set("a", bytes(4096))
        monkeypatch.setattr("holdfast.cache.best_effort.os.statvfs", leave(2**20))
        assert not cache.set("b", bytes(4096))

        assert cache.keys("") == ["a"]


# Faults


def test_full_disk_keeps_what_was_there_and_works_again_when_there_is_room(cache: BestEffortCache) -> None:
    cache.set("before", bytes(10_000))
    pages = ask(cache, "page_count")
    connection_of(cache).execute(f"PRAGMA max_page_count = {pages}")

    assert not cache.set("too much", bytes(100_000))

    assert cache.get("before") == bytes(10_000)
    assert cache.set("after", b"1")
    assert sorted(cache.keys("")) == ["after", "before"]


FILE_TOO_LARGE = """
import resource, sys
from pathlib import Path
from holdfast.cache.best_effort import BestEffortCache

cache = BestEffortCache(Path(sys.argv[1]), max_bytes=2**26)
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
kept = [cache.set(f"row/{number:02d}", bytes([number]) * 50_000) for number in range(30)]
assert not all(kept) and any(kept), kept
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
assert cache.set("row/99", bytes([99]) * 50_000) or cache.set("row/99", bytes([99]) * 50_000)
for key in cache.keys(""):
    assert cache.get(key) == bytes([int(key[4:])]) * 50_000
print(cache.get("row/99") is not None)
"""


@pytest.mark.processes
def test_file_that_cannot_grow_is_nobodys_trouble(folder: Path) -> None:
    assert run_python(FILE_TOO_LARGE, str(folder)).split()[-1] == "True"


READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
from holdfast.cache.best_effort import BestEffortCache

if os.geteuid() == 0:
    # Without its capabilities, root is bound by permissions like anyone else.
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
for name in ("existing", "new"):
    cache = BestEffortCache(Path(sys.argv[1], name), max_bytes=2**26)
    print(cache.set("a", b"1"), cache.get("a"), cache.delete("a"), cache.keys(""))
"""


@pytest.mark.processes
def test_read_only_folder_is_nobodys_trouble(tmp_path: Path) -> None:
    with closing(BestEffortCache(tmp_path / "existing", max_bytes=2**26)) as cache:
        cache.set("a", b"0")
    (tmp_path / "existing" / DATABASE).chmod(0o400)
    tmp_path.chmod(0o500)
    try:
        lines = run_python(READ_ONLY, str(tmp_path)).splitlines()
    finally:
        tmp_path.chmod(0o700)

    assert [line for line in lines if not line.startswith("20")] == ["False None False []"] * 2


class Clock:
    def __init__(self) -> None:
        self.seconds = 0.0

    def __call__(self) -> float:
        return self.seconds


def test_cache_that_another_process_holds_is_left_alone_for_a_while(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_S", 0.02)
    clock = Clock()
    with closing(BestEffortCache(folder, max_bytes=2**26, now=clock)) as cache:
        cache.set("a", b"1")
        other = sqlite3.connect(folder / DATABASE, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        assert cache.get("a") is None
        other.execute("ROLLBACK")
        other.close()

        assert not cache.set("a", b"2")
        clock.seconds += REST_S
        assert cache.get("a") == b"1"


@pytest.mark.parametrize("hold", ["BEGIN IMMEDIATE", "BEGIN EXCLUSIVE"])
@pytest.mark.parametrize("journal_mode", ["wal", "delete"])
def test_cache_that_is_held_while_it_is_opened_is_opened_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch, journal_mode: str, hold: str
) -> None:
    monkeypatch.setattr(disk_cache, "LOCK_TIMEOUT_S", 0.02)
    with closing(BestEffortCache(folder, max_bytes=2**26)) as cache:
        cache.set("a", b"1")
    other = sqlite3.connect(folder / DATABASE, isolation_level=None)
    other.execute(f"PRAGMA journal_mode = {journal_mode}")
    other.execute(hold)
    clock = Clock()
    with closing(BestEffortCache(folder, max_bytes=2**26, now=clock)) as cache:
        assert cache.get("a") is None
        other.execute("ROLLBACK")
        other.close()
        assert cache.get("a") is None
        clock.seconds += REST_S
        assert cache.get("a") == b"1"


def fail_with(error: BaseException) -> Callable[..., None]:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


def test_cache_that_cannot_be_opened_is_said_and_tried_again_later(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = Clock()
    with monkeypatch.context() as failing, capture_logs() as logs:
        failing.setattr(DiskCache, "__init__", fail_with(RecursionError("damaged again and again")))
        cache = BestEffortCache(folder, max_bytes=2**26, now=clock)
        assert not cache.set("a", b"1")
        assert cache.get("a") is None
    assert [each["event"] for each in logs] == ["cache_emptied", "cache_not_opened"]

    assert not cache.set("a", b"1")
    clock.seconds += REST_S
    assert cache.set("a", b"1")
    cache.close()


@pytest.mark.parametrize("damage", [b"no database at all" * 1000, b"SQLite format 3\0" + b"\xff" * 8192])
def test_damaged_file_is_emptied_when_it_is_opened(folder: Path, damage: bytes) -> None:
    with closing(BestEffortCache(folder, max_bytes=2**26)) as cache:
        cache.set("a", b"1")
    (folder / DATABASE).write_bytes(damage)

    with closing(BestEffortCache(folder, max_bytes=2**26)) as again:
        assert again.keys("") == []
        assert again.set("b", b"1")
        assert again.get("b") == b"1"


@pytest.mark.parametrize(
    "statement",
    [
        "DROP TABLE Cache",
        "ALTER TABLE Cache RENAME COLUMN value TO content",
        "DROP TABLE Settings",
    ],
)
def test_file_that_loses_its_tables_while_it_is_open_is_begun_anew(
    cache: BestEffortCache, folder: Path, statement: str
) -> None:
    cache.set("a", b"1")
    alter(folder, statement)

    cache.set("b", b"2")
    cache.set("b", b"2")

    assert cache.get("b") == b"2"


@pytest.mark.parametrize(
    "row",
    [
        ("set", 5),
        ("disk_shape", 1),
        ("eviction_policy", "nobody"),
        ("size_limit", "a lot"),
        ("sqlite_nothing = 1; DROP TABLE Cache; --", 1),
    ],
)
def test_planted_setting_is_nobodys_trouble(folder: Path, row: tuple[str, object]) -> None:
    with closing(BestEffortCache(folder, max_bytes=2**26)) as cache:
        cache.set("a", b"1")
    alter(folder, "INSERT OR REPLACE INTO Settings VALUES (?, ?)", *row)

    with closing(BestEffortCache(folder, max_bytes=2**26)) as again:
        again.set("b", b"2")
        assert again.set("b", b"2")
        assert again.get("b") == b"2"


@pytest.mark.parametrize("error", [sqlite3.DatabaseError("a page is torn"), LookupError("it was there")])
def test_fault_while_it_is_used_empties_it(
    cache: BestEffortCache, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    cache.set("a", b"1")
    with monkeypatch.context() as failing:
        failing.setattr(DiskCache, "get", fail_with(error))
        assert cache.get("a") is None

    assert cache.keys("") == []
    assert cache.set("b", b"2")
    assert cache.get("b") == b"2"


def test_interrupt_passes_and_leaves_no_transaction_open(
    cache: BestEffortCache, monkeypatch: pytest.MonkeyPatch
) -> None:
    with monkeypatch.context() as interrupted:
        interrupted.setattr(DiskCache, "make_room", fail_with(KeyboardInterrupt()))
        with pytest.raises(KeyboardInterrupt):
            cache.set("a", b"1")
    assert not connection_of(cache).in_transaction
    cache.set("b", b"2")
    assert cache.keys("") == ["b"]


def test_commit_that_fails_leaves_no_transaction_open(cache: BestEffortCache) -> None:
    cache.set("a", b"1")

    def fail_to_commit(action: int, *arguments: object) -> int:
        is_commit = action == sqlite3.SQLITE_TRANSACTION and arguments[0] == "COMMIT"
        return sqlite3.SQLITE_DENY if is_commit else sqlite3.SQLITE_OK

    connection_of(cache).set_authorizer(fail_to_commit)
    assert not cache.set("a", b"2")

    assert cache.set("a", b"3")
    assert not connection_of(cache).in_transaction
    assert cache.get("a") == b"3"


def test_file_that_was_deleted_is_made_anew(cache: BestEffortCache, folder: Path) -> None:
    cache.set("a", b"1")
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()

    assert cache.get("a") is None
    assert cache.set("b", b"2")
    assert (folder / DATABASE).exists()


def test_file_that_was_replaced_is_followed(cache: BestEffortCache, folder: Path, tmp_path: Path) -> None:
    cache.set("a", b"1")
    folder.rename(tmp_path / "elsewhere")
    with closing(BestEffortCache(folder, max_bytes=2**26)) as other:
        other.set("b", b"2")

        assert cache.get_many(["a", "b"]) == {"b": b"2"}
        cache.set("c", b"3")
        assert other.get("c") == b"3"


def test_path_that_diskcache_would_change_is_not_used(tmp_path: Path) -> None:
    with closing(BestEffortCache(tmp_path / "$HOME", max_bytes=2**26)) as cache:
        assert not cache.set("a", b"1")
        assert list((tmp_path / "$HOME").iterdir()) == []


def test_closed_cache_takes_and_gives_nothing(folder: Path) -> None:
    cache = BestEffortCache(folder, max_bytes=2**26)
    cache.set("a", b"1")
    cache.close()
    cache.close()

    assert not cache.set("b", b"2")
    assert cache.get("a") is None
    assert not list(folder.glob("*-wal")), "the last connection takes the log along"


# Rows that Holdfast did not write


def test_damaged_row_is_absent_and_deleted(cache: BestEffortCache, folder: Path) -> None:
    cache.set_many({"a": b"1", "b": b"2", "c": bytes(LARGE)})
    alter(folder, "UPDATE Cache SET value = ? WHERE key = 'a'", b"x" * 40)
    alter(folder, "UPDATE Cache SET value = substr(value, 1, length(value) - 1) WHERE key = 'c'")

    assert cache.get_many(["a", "b", "c"]) == {"b": b"2"}
    assert cache.keys("") == ["b"]


def test_value_under_another_key_is_found_out(cache: BestEffortCache, folder: Path) -> None:
    cache.set_many({"a": b"1", "b": b"2"})
    alter(
        folder,
        "UPDATE Cache SET (value, tag) = (SELECT value, tag FROM Cache WHERE key = 'b') WHERE key = 'a'",
    )

    assert cache.get("a") is None
    assert cache.get("b") == b"2"


@pytest.mark.parametrize("is_read_first", [True, False])
def test_planted_row_is_not_loaded_and_its_file_neither_read_nor_deleted(
    cache: BestEffortCache, folder: Path, tmp_path: Path, is_read_first: bool
) -> None:
    trap, precious = tmp_path / "trap", tmp_path / "precious"
    precious.write_bytes(pickle.dumps(Bomb(trap)))
    keys = ["value", "file", "binary-file", "text-file", "number", "text"]
    plant(folder, "value", mode=4, value=pickle.dumps(Bomb(trap)))
    for key, mode in (("file", 4), ("binary-file", 2), ("text-file", 3)):
        plant(folder, key, mode=mode, filename="../precious")
    plant(folder, "number", value=1)
    plant(folder, "text", value="1")

    if is_read_first:
        assert cache.get_many(keys) == {}
        assert cache.keys("") == []
    else:
        assert cache.set_many(dict.fromkeys(keys, b"ours"))
        assert cache.get_many(keys) == dict.fromkeys(keys, b"ours")
    assert not trap.exists()
    assert precious.exists()


def test_planted_key_is_not_loaded_and_makes_room(folder: Path, tmp_path: Path) -> None:
    trap, precious = tmp_path / "trap", tmp_path / "precious"
    precious.write_bytes(b"1")
    with closing(BestEffortCache(folder, max_bytes=2_000_000)) as cache:
        for raw in (0, 1):
            plant(folder, pickle.dumps(Bomb(trap)), raw=raw, value=bytes(900_000), filename="../precious")
        plant(folder, 7, value=b"1")

        assert cache.keys("") == []
        assert cache.set("a", bytes(1_500_000))
        assert cache.get("a") == bytes(1_500_000)
    assert not trap.exists()
    assert precious.exists()


# Threads and processes


def test_threads_share_it(cache: BestEffortCache) -> None:
    def work(name: str) -> None:
        for number in range(25):
            assert cache.set(f"{name}/{number}", b"1")
            assert cache.get(f"{name}/{number}") == b"1"

    threads = [threading.Thread(target=work, args=(str(each),)) for each in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()

    assert len(cache.keys("")) == 100


FORKED = """
import os, sys, threading
from pathlib import Path
from holdfast.cache.best_effort import BestEffortCache

cache = BestEffortCache(Path(sys.argv[1]), max_bytes=2**26)
cache.set("a", b"1")
connection, held, done = cache._database._con, threading.Event(), threading.Event()

def fork():
    child = os.fork()
    if child == 0:
        is_apart = not cache.set("c", b"3") and cache.get("a") is None and cache.keys("") == []
        cache.close()
        connection.in_transaction  # raises if it was closed
        os._exit(0 if is_apart else 1)
    return os.waitpid(child, 0)[1]

def hold():
    with cache._database.transact():
        cache._database.set("b", b"2")
        held.set()
        done.wait()

codes = [fork()]
thread = threading.Thread(target=hold)
thread.start()
held.wait()
codes.append(fork())
done.set()
thread.join()
print(*codes, cache.get("a"), cache.set("d", b"4"), sorted(cache.keys("")))
print(*cache._database._con.execute("PRAGMA quick_check").fetchone())
"""


@pytest.mark.processes
def test_forked_process_goes_without_and_leaves_the_connections_of_its_parent_alone(folder: Path) -> None:
    printed = run_python(FORKED, str(folder)).splitlines()

    assert printed == ["0 0 b'1' True ['a', 'b', 'd']", "ok"]
