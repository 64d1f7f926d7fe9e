"""The door to diskcache, as such; what it does for a caller is tested with `best_effort`."""

import gc
import pickle
import sqlite3
import stat
import threading
from pathlib import Path

import diskcache
import pytest

from holdfast.cache.disk_cache import DATABASE, LOCK_TIMEOUT_S, DiskCache, _ConnectionCloser, cause_of


@pytest.fixture
def database(tmp_path: Path) -> DiskCache:
    return DiskCache(tmp_path / "cache")


def test_folder_is_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("new", "open"):
        DiskCache(tmp_path / name)

        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700


def test_file_is_never_mapped_into_memory_nor_synced_and_its_log_stays_small(database: DiskCache) -> None:
    seen: list[list[object]] = []

    def look() -> None:
        pragmas = ("mmap_size", "synchronous", "journal_size_limit", "auto_vacuum", "journal_mode")
        seen.append([database._con.execute(f"PRAGMA {name}").fetchone()[0] for name in pragmas])

    thread = threading.Thread(target=look)
    thread.start()
    thread.join()
    look()

    assert seen == [[0, 0, 4 * 1024**2, 1, "wal"]] * 2


def test_no_connection_waits_longer_for_a_lock_than_it_should(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    timeouts: list[int] = []

    class Connection(sqlite3.Connection):
        def execute(self, *arguments: object) -> sqlite3.Cursor:
            timeouts.append(super().execute("PRAGMA busy_timeout").fetchone()[0])
            return super().execute(*arguments)  # type: ignore[arg-type]

    connect = sqlite3.connect
    monkeypatch.setattr(
        "holdfast.cache.disk_cache.sqlite3.connect", lambda *a, **k: connect(*a, **k, factory=Connection)
    )

    DiskCache(tmp_path)

    assert set(timeouts) == {int(LOCK_TIMEOUT_S * 1000)}


def test_path_that_diskcache_would_change_is_refused(tmp_path: Path) -> None:
    with pytest.raises(OSError, match="variable"):
        DiskCache(tmp_path / "$HOME")

    assert list((tmp_path / "$HOME").iterdir()) == []


@pytest.mark.parametrize(("key", "value"), [(b"key", b"value"), ("key", "value"), ("key", {"a": 1})])
def test_only_bytes_under_text_are_stored(database: DiskCache, key: object, value: object) -> None:
    with pytest.raises(TypeError):
        database.set(key, value)

    assert database.keys("") == []


def test_large_value_stays_inside_the_database(database: DiskCache, tmp_path: Path) -> None:
    database.set("key", bytes(1_000_000))

    assert not list(tmp_path.rglob("*.val"))


class Bomb:
    """A pickle of this makes a file when it is loaded."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> tuple[object, tuple[str, str]]:
        return open, (str(self.path), "w")


@pytest.mark.parametrize("raw", [0, 1])
def test_planted_key_is_not_loaded(database: DiskCache, tmp_path: Path, raw: int) -> None:
    key = pickle.dumps(Bomb(tmp_path / "trap"))
    database._con.execute("INSERT INTO Cache (key, raw, mode, value) VALUES (?, ?, 1, ?)", (key, raw, b"1"))

    with pytest.raises(TypeError):
        list(database.iterkeys())
    assert database.keys("") == []
    assert not (tmp_path / "trap").exists()


def test_file_that_was_replaced_is_no_longer_in_place(database: DiskCache, tmp_path: Path) -> None:
    assert database.is_in_place()
    (tmp_path / "cache").rename(tmp_path / "elsewhere")
    assert not database.is_in_place()
    DiskCache(tmp_path / "cache")
    assert (tmp_path / "cache" / DATABASE).exists()
    assert not database.is_in_place()


def test_error_that_diskcache_hides_is_found(database: DiskCache, tmp_path: Path) -> None:
    database._con.execute("PRAGMA busy_timeout = 0")
    other = sqlite3.connect(tmp_path / "cache" / DATABASE, isolation_level=None)
    other.execute("BEGIN IMMEDIATE")
    with pytest.raises(diskcache.Timeout) as caught:
        database.set("a", b"1")
    other.close()

    assert "locked" in str(cause_of(caught.value))
    assert str(cause_of(KeyError("a"))) == "'a'"


def count_connections() -> int:
    return sum(isinstance(each, _ConnectionCloser) for each in gc.get_objects())


def test_connection_of_a_thread_is_closed_when_it_ends(database: DiskCache) -> None:
    database.set("a", b"1")
    gc.collect()
    before = count_connections()
    for _ in range(20):
        thread = threading.Thread(target=database.get, args=("a",))
        thread.start()
        thread.join()

    assert count_connections() == before


def test_connections_of_all_threads_are_closed_with_the_database(tmp_path: Path) -> None:
    gc.collect()
    before = count_connections()
    databases, used, done = [DiskCache(tmp_path)], threading.Event(), threading.Event()

    def use() -> None:
        databases[0].set("a", b"1")
        used.set()
        done.wait()

    thread = threading.Thread(target=use)
    thread.start()
    used.wait()
    assert count_connections() == before + 2
    databases.clear()
    assert count_connections() == before
    done.set()
    thread.join()


def test_closer_closes_its_connection_at_once() -> None:
    connection = sqlite3.connect(":memory:")
    closer = _ConnectionCloser(connection)
    del closer

    with pytest.raises(sqlite3.ProgrammingError, match="closed"):
        connection.execute("SELECT 1")
