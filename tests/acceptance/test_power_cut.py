"""The power fails: what was not synced is lost, reordered or torn by sectors; what was answered is there.

A process that saves is recorded at its system calls, by a small library that is loaded into it. From the
record the disk is laid out as it may have been at many moments, and the spool is opened on it.
"""

import os
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from holdfast.format.receipt import Progress
from holdfast.library import Holdfast
from holdfast.settings import Settings

SAVES = 60
CUTS = 150
SECTOR = 512
RECORDER = Path(__file__).parent.parent / "fakes" / "recorder.c"

# The process says on a file of the recorded folder which checkpoints it was given receipts for, and how the
# drain moved on: the file's writes are in the record, between those of the spool.
_PROGRAM = """
import os, sys
from pathlib import Path
from holdfast.library import Holdfast
from holdfast.settings import Settings

folder, saves = Path(sys.argv[1]), int(sys.argv[2])
settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(folder)})
answers = os.open(folder / "answers", os.O_WRONLY | os.O_CREAT | os.O_APPEND)
with Holdfast(settings) as holdfast:
    for number in range(saves):
        receipt = holdfast.save(f"run-{number % 3}", {"n": number, "text": "x" * (number * 97 % 9000)})
        os.write(answers, receipt.checkpoint_id.encode())
        if number % 20 == 19:
            # The log is written back to the file, and then written over.
            holdfast._assembly.spool._folder._file._writer.execute("pragma wal_checkpoint")
"""

pytestmark = pytest.mark.skipif(
    not sys.platform.startswith("linux") or shutil.which("cc") is None,
    reason="recording system calls needs Linux and a C compiler",
)


@dataclass(frozen=True)
class Record:
    """One change to a file."""

    kind: str
    path: str
    offset: int
    data: bytes


@dataclass
class File:
    """What is surely on the disk, and what may be."""

    synced: bytearray = field(default_factory=bytearray)
    unsynced: list[Record] = field(default_factory=list)
    exists: bool = False

    def sync(self) -> None:
        for record in self.unsynced:
            apply(self.synced, record)
        self.unsynced.clear()
        self.exists = True


def apply(content: bytearray, record: Record) -> None:
    if record.kind == "t":
        del content[record.offset :]
        content.extend(bytes(record.offset - len(content)))
    else:
        content.extend(bytes(max(0, record.offset - len(content))))
        content[record.offset : record.offset + len(record.data)] = record.data


def read_records(log: bytes) -> Iterator[Record]:
    """Yield what happened to the spool's files and to the file of answers; a folder's sync is no change."""
    position = 0
    while position < len(log):
        kind, path_length, offset, length = struct.unpack_from("QQQQ", log, position)
        position += 32
        path = log[position : position + path_length].decode()
        position += path_length
        if ("/targets/" in path or path.endswith("/answers")) and not Path(path).is_dir():
            yield Record(chr(kind), path, offset, log[position : position + length])
        position += length


def replay(files: dict[str, File], record: Record) -> None:
    """Bring the files to where they are after one more change."""
    if record.kind == "u":
        files.pop(record.path, None)
        return
    if record.kind == "r":
        if record.path in files:
            files[record.data.decode()] = files.pop(record.path)
        return
    file = files.setdefault(record.path, File())
    if record.kind == "s":
        file.sync()
    else:
        file.unsynced.append(record)


def tear(record: Record, dice: random.Random) -> Iterator[Record]:
    """Yield the sectors of a write that reached the disk."""
    if record.kind == "t":
        if dice.random() < 0.5:
            yield record
        return
    for start in range(0, len(record.data), SECTOR):
        if dice.random() < 0.5:
            yield Record("w", record.path, record.offset + start, record.data[start : start + SECTOR])


def lay_out(files: dict[str, File], before: Path, after: Path, dice: random.Random) -> None:
    """Write the files as the power cut may have left them."""
    for path, file in files.items():
        content = bytearray(file.synced)
        pieces = [piece for record in file.unsynced for piece in tear(record, dice)]
        dice.shuffle(pieces)
        for piece in pieces:
            apply(content, piece)
        if file.exists or pieces:
            target = after / Path(path).relative_to(before)
            target.parent.mkdir(parents=True, exist_ok=True, mode=0o700)
            target.write_bytes(content)


@pytest.fixture(scope="module")
def recording(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, list[Record]]:
    folder = tmp_path_factory.mktemp("recording")
    library, log, data = folder / "recorder.so", folder / "log", folder / "data"
    data.mkdir()
    subprocess.run(["cc", "-shared", "-fPIC", "-O1", "-o", library, RECORDER, "-ldl"], check=True)
    environment = {
        **os.environ,
        "LD_PRELOAD": str(library),
        "RECORD_TO": str(log),
        "RECORD_BELOW": str(data),
    }
    command = [sys.executable, "-c", _PROGRAM, str(data), str(SAVES)]
    subprocess.run(command, env=environment, check=True, timeout=100)
    return data, list(read_records(log.read_bytes()))


def test_record_is_of_the_real_thing(recording: tuple[Path, list[Record]]) -> None:
    """Everything replayed is what the disk holds: otherwise the cuts below would prove nothing."""
    _, records = recording
    files: dict[str, File] = {}
    for record in records:
        replay(files, record)
    for path, file in files.items():
        file.sync()
        if Path(path).exists() and not path.endswith("-shm"):
            assert Path(path).read_bytes() == file.synced, path
    assert sum(record.kind == "s" for record in records) >= SAVES


def test_whatever_was_answered_before_the_cut_is_in_the_spool(
    recording: tuple[Path, list[Record]], tmp_path: Path
) -> None:
    data, records = recording
    dice = random.Random(4)
    cuts = set(dice.sample(range(len(records)), CUTS))
    files: dict[str, File] = {}
    answered: list[str] = []
    for position, record in enumerate(records):
        if record.path.endswith("/answers"):
            answered.append(record.data.decode())
            continue
        replay(files, record)
        if position in cuts:
            after = tmp_path / f"cut-{position}"
            lay_out(files, data, after, dice)
            check_spool(after, answered)
            shutil.rmtree(after, ignore_errors=True)
    assert len(answered) == SAVES


def check_spool(folder: Path, answered: list[str]) -> None:
    settings = Settings.from_environment({"HOLDFAST_DATA_DIR": str(folder)})
    with Holdfast(settings) as holdfast:
        spool = holdfast._assembly.spool
        waiting = {item.checkpoint_id: item for item in spool.pending()}
        for checkpoint_id in answered:
            receipt = holdfast.receipt(checkpoint_id)
            assert receipt is not None, f"{checkpoint_id} was answered and is lost"
            assert receipt.status is Progress.SPOOLED
        for item in waiting.values():
            assert spool.read(item)
        assert spool.status(0).lost == 0
        assert len(waiting) <= len(answered) + 1
        # Life goes on, over whatever the cut has left in the log.
        later = {holdfast.save("run-0", {"n": number}).checkpoint_id for number in range(3)}
    with Holdfast(settings) as holdfast:
        items = holdfast._assembly.spool.pending()
        assert {item.checkpoint_id for item in items} == waiting.keys() | later
        assert len({(item.run_id, item.sequence) for item in items}) == len(items)
