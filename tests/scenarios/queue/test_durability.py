"""Processes that submit at once, and processes that are killed while they do."""

from pathlib import Path

import pytest

from holdfast.format.receipt import Progress
from holdfast.queue.folder import DATABASE
from tests.fakes.spooling import FakeEntry, open_spool, run_python, start_python

SUBMIT_UNTIL_KILLED = """
import itertools, sys
from pathlib import Path
from holdfast.queue.folder import DATABASE
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
for number in itertools.count():
    entry = FakeEntry(run_id=sys.argv[2], content=b"%d" % number * 5000)
    print(spool.put(entry).checkpoint_id, number, flush=True)
"""

SUBMIT_MANY = """
import sys
from pathlib import Path
from holdfast.queue.folder import DATABASE
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
for _ in range(40):
    spool.put(FakeEntry())
spool.close()
"""

SUBMIT_WITHOUT_ROOM = """
import resource, sys
from pathlib import Path
from holdfast.errors import SpoolUnwritable
from holdfast.queue.folder import DATABASE
from tests.fakes.spooling import FakeEntry, open_spool
spool = open_spool(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (300_000, resource.RLIM_INFINITY))
refused = 0
for number in range(20):
    try:
        print(spool.put(FakeEntry(content=bytes(20_000))).checkpoint_id)
    except SpoolUnwritable:
        refused += 1
assert 0 < refused < 20, refused
for item in spool.pending():
    assert len(spool.read(item)) > 20_000
resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(spool.put(FakeEntry(content=bytes(20_000))).checkpoint_id)
"""


@pytest.mark.parametrize("acknowledged_before", [1, 2, 5, 17, 40])
def test_every_acknowledged_checkpoint_survives_a_kill(tmp_path: Path, acknowledged_before: int) -> None:
    acknowledged: dict[str, int] = {}
    for life in range(2):
        process = start_python(SUBMIT_UNTIL_KILLED, str(tmp_path / "spool"), f"run-{life}")
        assert process.stdout is not None
        lines = [process.stdout.readline() for _ in range(acknowledged_before)]
        process.kill()
        lines += process.communicate()[0].splitlines()
        whole = [line.split() for line in lines if len(line.split()) == 2 and line[36] == " "]
        acknowledged |= {checkpoint_id: int(number) for checkpoint_id, number in whole}

    spool = open_spool(tmp_path / "spool")
    bodies = {item.checkpoint_id: spool.read(item) for item in spool.pending()}
    for checkpoint_id, number in acknowledged.items():
        assert bodies[checkpoint_id].partition(b":")[2] == b"%d" % number * 5000
    # At most the one that was on its way at each kill is there without its answer.
    assert len(acknowledged) <= len(bodies) <= len(acknowledged) + 2
    assert spool.status(0.0).depth == len(bodies)
    spool.close()


def test_four_processes_submit_into_one_run_with_distinct_numbers(tmp_path: Path) -> None:
    processes = [start_python(SUBMIT_MANY, str(tmp_path / "spool")) for _ in range(4)]
    for process in processes:
        output, _ = process.communicate(timeout=60)
        assert process.returncode == 0, output

    spool = open_spool(tmp_path / "spool")
    items = spool.pending()
    assert [item.sequence for item in items] == list(range(1, 161))
    for item in items:
        assert spool.read(item) == b"%d:state" % item.sequence
    spool.close()


def test_repeat_is_answered_only_after_the_disk_has_confirmed_it(tmp_path: Path) -> None:
    """Whoever stored it first may have died between its write and its sync."""
    log = tmp_path / "spool" / "queue" / f"{DATABASE}-wal"
    spool = open_spool(tmp_path / "spool")
    entry = FakeEntry(fingerprint="same")
    first = spool.put(entry)
    size_bytes = log.stat().st_size

    assert spool.put(entry) == first

    assert log.stat().st_size > size_bytes
    assert spool.status(0.0).depth == 1
    spool.close()


def test_disk_without_room_refuses_keeps_what_it_has_and_recovers(tmp_path: Path) -> None:
    acknowledged = run_python(SUBMIT_WITHOUT_ROOM, str(tmp_path / "spool")).split()

    spool = open_spool(tmp_path / "spool")
    assert [item.checkpoint_id for item in spool.pending()] == acknowledged
    assert [item.sequence for item in spool.pending()] == list(range(1, len(acknowledged) + 1))
    for checkpoint_id in acknowledged:
        receipt = spool.receipt(checkpoint_id)
        assert receipt is not None
        assert receipt.status == Progress.SPOOLED
    spool.put(FakeEntry())
    spool.close()
