"""A real disk that is small: after an outage has filled it, an emptied spool takes checkpoints again."""

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

from holdfast.assembly import Assembly
from holdfast.errors import SpoolUnwritable
from holdfast.format.checkpoint import draft_from_mapping
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
