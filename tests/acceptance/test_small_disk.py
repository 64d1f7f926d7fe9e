"""A real disk that is small: after an outage has filled it, an emptied spool takes checkpoints again.

While it is full to the last byte, what is spooled can still be looked at, and taken elsewhere.
"""

import os
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import ExitStack, suppress
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast import Holdfast
from holdfast.assembly import Assembly
from holdfast.errors import SpoolUnwritable
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.settings import Settings
from tests.fakes.assembly import make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

MEGABYTE = 1024**2
DISK_BYTES = 48 * MEGABYTE
RESERVE_BYTES = 16 * MEGABYTE


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """Mount a small disk, and yield where; skip where that is not allowed."""
    folder = tmp_path / "disk"
    folder.mkdir()
    command = ["mount", "-t", "tmpfs", "-o", f"size={DISK_BYTES}", "tmpfs", str(folder)]
    try:
        subprocess.run(command, check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError) as error:
        pytest.skip(f"NOT TESTED: no small disk can be mounted here: {error}")
    try:
        yield folder
    finally:
        subprocess.run(["umount", "--lazy", str(folder)], check=True)


def open_on(disk: Path, repository: MemoryGateway) -> Assembly:
    return make_assembly(disk, repository, VirtualClock(), min_free_bytes=RESERVE_BYTES, write_mode="commit")


def fill(assembly: Assembly) -> int:
    """Save until the disk is too full; return how many were taken."""
    for count in range(1000):
        state = {"ballast": os.urandom(MEGABYTE // 2).hex()}
        checkpoint = {"run_id": "r", "trigger": "manual", "state": state}
        draft = draft_from_mapping(checkpoint, now="2026-11-17T10:00:00Z", new_id=lambda: str(uuid4()))
        try:
            assembly.spool.put(draft)
        except SpoolUnwritable:
            return count
    raise AssertionError("the disk is endless")


@pytest.fixture
def machine(disk: Path) -> Iterator[Callable[[], Holdfast]]:
    """Open the same spool on the small disk, which is to be used to the last byte."""
    with ExitStack() as stack:

        def open_again() -> Holdfast:
            assembly = make_assembly(disk / "data", MemoryGateway(), VirtualClock(), min_free_bytes=0)
            return stack.enter_context(Holdfast(assembly.settings, assembly=assembly))

        yield open_again


def fill_to_the_last_byte(disk: Path) -> Path:
    ballast = disk / "ballast"
    with suppress(OSError), ballast.open("wb", buffering=0) as file:
        while file.write(bytes(4096)):
            pass
    assert free_bytes(disk) == 0
    return ballast


def free_bytes(disk: Path) -> int:
    status = os.statvfs(disk)
    return status.f_bavail * status.f_frsize


def test_spool_that_an_outage_has_filled_takes_as_much_again_once_it_is_drained(disk: Path) -> None:
    repository = MemoryGateway()
    assembly = open_on(disk, repository)
    taken = fill(assembly)
    assert taken > 10

    assert assembly.worker.drain().verified == taken
    # The drain has filled the cache, but not with what must stay free.
    assert free_bytes(disk) >= RESERVE_BYTES
    again = fill(assembly)
    assembly.worker.drain()
    assembly.close()

    assembly = open_on(disk, repository)
    after_restart = fill(assembly)
    assembly.worker.drain()
    assembly.close()
    assert min(again, after_restart) >= taken - 4
    assert free_bytes(disk) >= RESERVE_BYTES


def test_a_disk_that_others_have_filled_to_the_last_byte_still_tells_what_is_in_the_spool(
    disk: Path, machine: Callable[[], Holdfast], tmp_path: Path
) -> None:
    before = machine()
    saved = before.save("r", {"n": 1})
    before.close()
    ballast = fill_to_the_last_byte(disk)

    full = machine()
    status = full.status()
    assert status["spool"]["depth"] == 1
    assert "has 0 bytes left" in status["saves_refused"]
    assert full.resume("r").state == {"n": 1}
    with pytest.raises(SpoolUnwritable, match="free some space"):
        full.save("r", {"n": 2})

    ballast.unlink()  # and the same process goes on
    assert full.save("r", {"n": 2}).sequence_number == saved.sequence_number + 1
    assert full.status()["saves_refused"] is None


FORKING = """
import os, sys, threading
from pathlib import Path
from holdfast import Holdfast
from holdfast.settings import Settings

spool = Holdfast(Settings.from_environment({}, {"data_dir": Path(sys.argv[1])}))._assembly.shards[0].spool
depths = []
reader = threading.Thread(target=lambda: depths.extend(spool.status(0.0).depth for _ in range(300)))
reader.start()
while reader.is_alive():
    child = os.fork()
    if child == 0:
        os._exit(0)
    os.waitpid(child, 0)
print(len(depths), set(depths))
"""


@pytest.mark.processes
def test_a_program_that_forks_reads_on_a_full_disk_too(disk: Path) -> None:
    """A fork waits until nobody reads, and a reader must not wait for the fork meanwhile."""
    with Holdfast(Settings.from_environment({}, {"data_dir": disk / "data", "min_free_bytes": 0})) as before:
        before.save("r", {"n": 1})
    fill_to_the_last_byte(disk)

    command = [sys.executable, "-W", "ignore", "-c", FORKING, str(disk / "data")]
    told = subprocess.run(command, check=True, capture_output=True, text=True, timeout=60)

    assert told.stdout.strip() == "300 {1}"


def test_what_a_killed_process_left_in_the_log_is_told_on_a_full_disk_too(
    disk: Path, machine: Callable[[], Holdfast], tmp_path: Path
) -> None:
    killed = machine()
    killed.save("r", {"n": 1})
    left = shutil.copytree(disk / "data", tmp_path / "left", ignore=shutil.ignore_patterns("*-shm"))
    killed.close()
    shutil.rmtree(disk / "data")
    shutil.copytree(left, disk / "data")
    assert next((disk / "data").rglob("*-wal")).stat().st_size > 0
    fill_to_the_last_byte(disk)

    assert machine().status()["spool"]["depth"] == 1


def test_where_there_is_no_spool_yet_a_full_disk_is_told_as_well(
    disk: Path, machine: Callable[[], Holdfast]
) -> None:
    holdfast = machine()
    fill_to_the_last_byte(disk)

    assert "has 0 bytes left" in holdfast.status()["saves_refused"]
