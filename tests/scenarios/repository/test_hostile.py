"""Hostile files in the repository: reading them never takes much memory, and the last good one counts."""

import subprocess
import sys
from pathlib import Path

import pytest

from holdfast.errors import IntegrityFailure
from holdfast.jsontext.weight import is_heavier
from holdfast.repository.understanding import check_weight

ROOT = Path(__file__).parents[3]
MEGABYTE = 1024 * 1024

# A process of its own, with a limit that holds for what it does after everything is loaded and set up.
RESUME = """
import logging, resource, sys, tempfile
from dataclasses import replace
from pathlib import Path

import structlog

from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.saved import stamped
from tests.fakes.assembly import BRANCH
from tests.fakes.workshop import open_workshop

structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
SIZE, LIMIT = 20 * 1024 * 1024, 256 * 1024 * 1024
good = {f"cp_{n:03d}_manual.json": stamped({"n": n}, sequence=n).content for n in (1, 2, 3)}

def repeat(unit, head=b'{"state_snapshot":[', tail=b"0]}"):
    return {"cp_004_manual.json": head + unit * ((SIZE - 99) // len(unit)) + tail}

def bombs():
    yield "empty lists", repeat(b"[],")
    yield "empty objects", repeat(b"{},")
    yield "empty lists with blanks", repeat(b"[ ],")
    yield "nesting", repeat(b"[", tail=b"")
    yield "a batch of nothing", {"batch_4_9.json": repeat(b"{},", b'{"checkpoints":[')["cp_004_manual.json"]}
    yield "an index of nothing", {"index.json": repeat(b"{},", b'{"checkpoints":[')["cp_004_manual.json"]}
    yield "a hundred megabytes", {"cp_004_manual.json": b" " * (5 * SIZE)}
    yield "a wrong run", {"cp_004_manual.json": stamped({"n": 4}, sequence=4, run_id="other").content}
    yield "a swapped file", {"cp_004_manual.json": good["cp_001_manual.json"]}
    yield "a torn file", {"cp_004_manual.json": stamped({"n": "x" * 1000}, sequence=4).content[:-500]}

for name, files in bombs():
    repository = MemoryGateway()
    changes = {f"checkpoints/r/{path}": content for path, content in {**good, **files}.items()}
    repository.write_as_someone_else(BRANCH, changes)
    with tempfile.TemporaryDirectory() as folder, open_workshop(Path(folder), repository) as workshop:
        resource.setrlimit(resource.RLIMIT_DATA, (LIMIT, resource.RLIM_INFINITY))
        plan = replace(workshop.reader, max_file_bytes=SIZE).resume("r")
        (path,) = files
        assert plan.sequence_number == 3, (name, plan)
        assert any(warning.startswith(f"checkpoints/r/{path}: ") for warning in plan.warnings), (name, plan)
        resource.setrlimit(resource.RLIMIT_DATA, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
    print(name)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux limits what a process takes in this way")
def test_hostile_files_are_named_and_passed_over_within_256_megabytes() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", RESUME], cwd=ROOT, capture_output=True, text=True, timeout=120, check=False
    )

    assert ended.stderr == ""
    assert len(ended.stdout.splitlines()) == 10


@pytest.mark.parametrize(
    "unit", [b'{"id":1,"x":0.5},', b"[1.5,2.5],", b'"two",', b"1000,", b'{"a":1,"b":2},'], ids=repr
)
def test_largest_checkpoint_that_we_write_is_not_taken_for_a_bomb(unit: bytes) -> None:
    check_weight("x", b"[" + unit * (10 * MEGABYTE // len(unit)))


def test_what_stands_in_a_text_does_not_count() -> None:
    text = b'{"log":"%s"}' % (rb"[],{\\\" " * 1_000_000)

    assert not is_heavier(text, MEGABYTE)
    with pytest.raises(IntegrityFailure, match="so many values"):
        check_weight("x", b"[" + b"[]," * 7_000_000)
