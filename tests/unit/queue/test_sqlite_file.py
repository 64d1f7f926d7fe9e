"""The door to SQLite: what the disk refuses is said, and nothing is acknowledged that it did not confirm."""

import platform
import signal
import sqlite3
import stat
import sys
import threading
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.disk import LOCK_TIMEOUT_S, DatabaseDamaged, StoreMoved
from holdfast.errors import SpoolDamaged, SpoolError, SpoolUnwritable
from holdfast.queue.folder import DATABASE, make_database
from holdfast.queue.sqlite_file import SqliteFile
from tests.fakes.spooling import FakeEntry, open_spool, run_python

INSERT = "insert into note values (?, ?, x'')"
SELECT = "select name from note order by name"


@pytest.fixture
def file(tmp_path: Path) -> Iterator[SqliteFile]:
    make_database(tmp_path / DATABASE)
    file = SqliteFile(tmp_path / DATABASE)
    yield file
    file.close()


def store(file: SqliteFile, name: str, size_bytes: int = 1) -> None:
    file.change(lambda database: database.execute(INSERT, (name, bytes(size_bytes))))


def names(file: SqliteFile) -> list[str]:
    return file.look(lambda database: [name for (name,) in database.execute(SELECT)])


def test_what_the_log_holds_is_written_back_beside_the_commits(file: SqliteFile, tmp_path: Path) -> None:
    store(file, "a")

    file.write_back()

    alone = tmp_path / "alone.db"
    alone.write_bytes(file.path.read_bytes())  # without its log
    with closing(sqlite3.connect(alone)) as database:
        assert database.execute(SELECT).fetchall() == [("a",)]


def test_the_log_is_written_back_beside_a_look_and_a_change(file: SqliteFile) -> None:
    store(file, "a")

    def look(database: sqlite3.Connection) -> list[str]:
        file.write_back()
        return [name for (name,) in database.execute(SELECT)]

    assert file.look(look) == ["a"]
    assert file.change(look) == ["a"]


def test_a_closed_file_has_nothing_written_back(file: SqliteFile) -> None:
    file.close()

    with pytest.raises(SpoolUnwritable, match="it was closed"):
        file.write_back()


def ask(file: SqliteFile, pragma: str) -> list[object]:
    """Return what both connections say."""

    def work(database: sqlite3.Connection) -> object:
        return database.execute(f"pragma {pragma}").fetchone()[0]

    return [file.change(work), file.look(work)]


def alter(file: SqliteFile, *statements: str) -> None:
    """Change the file behind our back, as another program could."""
    connection = sqlite3.connect(file.path, isolation_level=None)
    for statement in statements:
        connection.execute(statement)
    connection.close()


def test_commits_wait_for_the_disk(file: SqliteFile) -> None:
    assert ask(file, "synchronous") == [2, 2]
    assert ask(file, "journal_mode") == ["wal", "wal"]
    assert ask(file, "busy_timeout") == [LOCK_TIMEOUT_S * 1000] * 2


def test_folder_and_files_are_for_this_user_alone(tmp_path: Path) -> None:
    (tmp_path / "open").mkdir(mode=0o755)
    for name in ("new", "open"):
        spool = open_spool(tmp_path / name)
        spool.put(FakeEntry())

        assert stat.S_IMODE((tmp_path / name).stat().st_mode) == 0o700
        files = [path for path in (tmp_path / name).rglob("*") if path.is_file()]
        assert len(files) >= 4
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}
        spool.close()


def test_transaction_is_undone_by_an_exception(file: SqliteFile) -> None:
    def fail(database: sqlite3.Connection) -> None:
        database.execute(INSERT, ("a", b""))
        raise ZeroDivisionError

    with pytest.raises(ZeroDivisionError):
        file.change(fail)

    assert names(file) == []
    store(file, "b")
    assert names(file) == ["b"]


def test_full_disk_is_said_and_leaves_what_was_stored(file: SqliteFile) -> None:
    store(file, "before", 10_000)
    file.change(lambda database: database.execute("pragma max_page_count = 1"))

    with pytest.raises(SpoolUnwritable, match="full; free some space"):
        store(file, "too much", 100_000)

    assert names(file) == ["before"]
    file.change(lambda database: database.execute("pragma max_page_count = 100000"))
    store(file, "after")
    assert names(file) == ["after", "before"]


def test_locked_database_is_an_error_and_not_an_endless_wait(file: SqliteFile) -> None:
    file.change(lambda database: database.execute("pragma busy_timeout = 20"))
    other = sqlite3.connect(file.path, isolation_level=None)
    other.execute("begin immediate")

    with pytest.raises(SpoolUnwritable, match="another process has held it"):
        store(file, "a")

    other.execute("rollback")
    other.close()
    store(file, "a")
    assert names(file) == ["a"]


def test_garbled_database_is_damaged_not_a_foreign_error(tmp_path: Path) -> None:
    (tmp_path / DATABASE).write_bytes(b"garbage" * 10_000)
    file = SqliteFile(tmp_path / DATABASE)

    with pytest.raises(DatabaseDamaged, match="damaged") as caught:
        names(file)
    assert isinstance(caught.value, SpoolDamaged)
    file.close()


def test_lost_tables_and_undecodable_text_count_as_damage(file: SqliteFile) -> None:
    store(file, "a")
    alter(file, "update note set name = cast(x'61ff' as text)")
    with pytest.raises(DatabaseDamaged):
        names(file)

    alter(file, "drop table note")
    with pytest.raises(DatabaseDamaged, match="lost its tables"):
        names(file)


def test_write_to_a_file_that_was_moved_away_does_not_count(file: SqliteFile, tmp_path: Path) -> None:
    store(file, "a")

    def move_while_writing(database: sqlite3.Connection) -> None:
        database.execute(INSERT, ("b", b""))
        file.path.rename(tmp_path / "elsewhere")

    with pytest.raises(StoreMoved):
        file.change(move_while_writing)
    for attempt in (lambda: store(file, "c"), lambda: names(file)):
        with pytest.raises(StoreMoved):
            attempt()


def test_closed_file_neither_takes_nor_gives(file: SqliteFile) -> None:
    store(file, "a")
    file.close()

    for attempt in (lambda: store(file, "b"), lambda: names(file)):
        with pytest.raises(SpoolUnwritable, match="closed"):
            attempt()


def test_signal_handler_may_look_while_its_thread_looks(file: SqliteFile) -> None:
    seen: list[list[str]] = []
    store(file, "a")
    before = signal.signal(signal.SIGUSR1, lambda *_: seen.append(names(file)))

    def work(database: sqlite3.Connection) -> list[str]:
        signal.raise_signal(signal.SIGUSR1)
        return [name for (name,) in database.execute(SELECT)]

    try:
        assert file.look(work) == ["a"]
    finally:
        signal.signal(signal.SIGUSR1, before)
    assert seen == [["a"]]
    assert names(file) == ["a"]


def test_folder_that_cannot_be_made_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")

    with pytest.raises(SpoolUnwritable):
        open_spool(tmp_path / "file" / "spool")
    with pytest.raises(SpoolError):
        open_spool(tmp_path / "file")


def test_put_into_a_new_run_does_not_wait_for_a_long_look(tmp_path: Path) -> None:
    spool = open_spool(tmp_path)
    spool.put(FakeEntry())
    is_looking, may_end = threading.Event(), threading.Event()

    def look(_: sqlite3.Connection) -> None:
        is_looking.set()
        may_end.wait(60)

    with ThreadPoolExecutor() as threads:
        looking = threads.submit(spool._folder.look, look)
        assert is_looking.wait(60)
        try:
            receipt = threads.submit(spool.put, FakeEntry(run_id="build-2")).result(timeout=10)
            assert not looking.done()
        finally:
            may_end.set()
    assert receipt.sequence_number == 1
    spool.close()


def test_path_of_any_name_is_opened(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "$HOME ?mode=memory#%41")
    spool.put(FakeEntry())
    spool.close()

    assert (tmp_path / "$HOME ?mode=memory#%41" / "queue" / DATABASE).stat().st_size > 0


FAILING_SYNC = """
import ctypes, errno, platform, sys
from pathlib import Path
from holdfast.errors import DiskFailed, SpoolUnwritable
from tests.fakes.spooling import FakeEntry, open_spool

spool = open_spool(Path(sys.argv[1]))
spool.put(FakeEntry(checkpoint_id="before"))

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

entry = FakeEntry(checkpoint_id="failed", fingerprint="same")
for kind, wanted in ((DiskFailed, entry), (SpoolUnwritable, entry), (SpoolUnwritable, FakeEntry())):
    try:
        spool.put(wanted)
        print("acknowledged")
    except kind as error:
        print(error)
assert [item.checkpoint_id for item in spool.pending()] == ["before"]
"""


@pytest.mark.processes
@pytest.mark.skipif(
    sys.platform != "linux" or platform.machine() not in {"x86_64", "aarch64"},
    reason="makes the kernel refuse system calls, which is done by number",
)
def test_failed_sync_is_never_acknowledged_and_never_tried_again(tmp_path: Path) -> None:
    first, repeated, other = run_python(FAILING_SYNC, str(tmp_path)).splitlines()

    assert "disk I/O error; check the disk" in first
    assert "failed to confirm a write; check the disk, then start Holdfast again" in repeated
    assert repeated == other
    spool = open_spool(tmp_path)
    # What the disk did not confirm may be there all the same; what was refused afterwards is not.
    kept = {item.checkpoint_id for item in spool.pending()}
    assert {"before"} <= kept <= {"before", "failed"}
    spool.close()


FILE_TOO_LARGE = """
import resource, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from tests.fakes.spooling import FakeEntry, open_spool

spool = open_spool(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (400_000, resource.RLIM_INFINITY))
stored, refused = [], 0
for number in range(30):
    try:
        spool.put(FakeEntry(checkpoint_id=str(number), content=bytes([number]) * 50_000))
        stored.append(number)
    except SpoolUnwritable as error:
        refused += 1
assert refused > 10 and stored, (refused, stored)
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
spool.put(FakeEntry(checkpoint_id="99", content=bytes([99]) * 50_000))
print(*stored, 99)
"""


@pytest.mark.processes
def test_disk_that_takes_no_more_loses_nothing_and_works_again_when_it_does(tmp_path: Path) -> None:
    stored = [int(number) for number in run_python(FILE_TOO_LARGE, str(tmp_path)).split()]

    spool = open_spool(tmp_path)
    bodies = {item.checkpoint_id: spool.read(item).partition(b":")[2] for item in spool.pending()}
    assert bodies == {str(number): bytes([number]) * 50_000 for number in stored}
    assert ask(spool._folder._file, "integrity_check") == ["ok", "ok"]
    spool.close()


READ_ONLY = """
import ctypes, os, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from tests.fakes.spooling import FakeEntry, open_spool

if os.geteuid() == 0:
    # Without its capabilities, root is bound by permissions like anyone else.
    header, nothing = (ctypes.c_uint32 * 2)(0x20080522, 0), (ctypes.c_uint32 * 6)()
    assert ctypes.CDLL(None).capset(header, nothing) == 0
for name in ("existing", "new"):
    try:
        open_spool(Path(sys.argv[1], name)).put(FakeEntry())
        print("acknowledged")
    except SpoolUnwritable as error:
        print(error)
"""


@pytest.mark.processes
def test_read_only_folder_is_said_and_nothing_is_acknowledged(tmp_path: Path) -> None:
    spool = open_spool(tmp_path / "existing")
    spool.put(FakeEntry())
    spool.close()
    for path in (*(tmp_path / "existing").rglob("*"), tmp_path / "existing", tmp_path):
        path.chmod(0o500 if path.is_dir() else 0o400)
    try:
        existing, new = run_python(READ_ONLY, str(tmp_path)).splitlines()
    finally:
        for path in (tmp_path, tmp_path / "existing", tmp_path / "existing" / "queue"):
            path.chmod(0o700)

    assert "let this user write to the folder" in existing
    assert "Permission denied" in new
