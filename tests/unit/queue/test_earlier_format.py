"""A spool that version 0.1.0 has left: taken for empty only if it is, and otherwise not touched."""

import hashlib
import json
import sqlite3
import struct
import subprocess
from contextlib import closing
from pathlib import Path

import pytest

from holdfast.errors import CheckpointChanged, SpoolUnwritable
from holdfast.queue.contract import LOST
from holdfast.queue.earlier_format import COMMIT, VERSION
from holdfast.queue.salvage import REPORT
from tests.fakes.spooling import FakeEntry, open_spool

BLOCK = 4096
CAPACITY = 4 * 1024**2
TABLE = (
    "create table Cache (rowid integer primary key, key blob, raw integer, store_time real, expire_time real,"
    " access_time real, access_count integer default 0, tag blob, size integer default 0,"
    " mode integer default 0, filename text, value blob)"
)
WAITING = "ticket|2|000000000001|1000.0|1+|manual|7|build-1|c-1"
SET_ASIDE = "aside|2|000000000001|1000.0|1+|manual|7|build-1|c-1"
SLOT = "1|000000000001|1000.0|1+|manual|7|build-1|c-0"
RUNS = {"run|build-1": b"[7,[[1,7]]]", "run|build-2": b"[41,[[40,41]]]"}


def make_rows(folder: Path, rows: dict[str, bytes]) -> None:
    """Write rows as version 0.1.0 did: each value behind a digest of its key and its bytes."""
    (folder / "queue").mkdir(parents=True, exist_ok=True)
    with closing(sqlite3.connect(folder / "queue" / "cache.db", isolation_level=None)) as database:
        database.execute("pragma journal_mode = wal")
        database.execute(TABLE)
        for key, value in {"format": b"2", "totals": b"{}", **RUNS, **rows}.items():
            seal = hashlib.sha256(key.encode() + hashlib.sha256(value).digest()).digest()
            insert = (
                "insert into Cache (key, raw, store_time, access_time, mode, value) values (?, 1, 0, 0, 1, ?)"
            )
            database.execute(insert, (key, seal + value))


def make_receipt(status: str = "verified", checkpoint_id: str = "c-0") -> bytes:
    """Return the value of a `receipt|` row as version 0.1.0 wrote it."""
    receipt = {
        "checkpoint_id": checkpoint_id,
        "run_id": "build-1",
        "sequence_number": 7,
        "status": status,
        "persistence": "normal",
        "file_path": "runs/build-1/7.json",
        "commit_sha": "commit",
        "blob_sha": "blob",
        "reason": None,
    }
    record = {
        "receipt": receipt,
        "slot": SLOT,
        "body_sha256": hashlib.sha256(b"7:state").hexdigest(),
        "fingerprint": "same",
        "updated_at": 1001.5,
    }
    return json.dumps(record).encode()


def make_entry(generation: int, block_start: int, body: bytes) -> bytes:
    """Return an entry of the journal as version 0.1.0 wrote it."""
    note = json.dumps({"receipt": {"checkpoint_id": "c-1"}}).encode()
    digest = hashlib.sha256(body).digest()
    fields = struct.pack(">8sQIII32s", b"holdfast", generation, block_start, len(note), len(body), digest)
    entry = fields + hashlib.sha256(fields + note).digest() + note + body
    return entry.ljust(-(-len(entry) // BLOCK) * BLOCK, b"\0")


def make_journal(folder: Path, *entries: bytes) -> None:
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "journal").write_bytes(b"".join(entries).ljust(CAPACITY, b"\0"))


def content_of(folder: Path) -> dict[str, bytes]:
    files = [path for path in folder.rglob("*") if path.is_file() and path.suffix not in {".lock", ".pid"}]
    return {str(path): path.read_bytes() for path in files if not path.name.endswith("-shm")}


@pytest.mark.slow
@pytest.mark.parametrize(
    "journal",
    [
        None,
        [],
        [make_entry(3, 0, b"absorbed")],
        [make_entry(3, 0, b"absorbed"), make_entry(2, 2 * BLOCK, b"older than that")],
        # What a kill has left of the last write: nobody was told of it.
        [make_entry(3, 0, b"absorbed"), make_entry(3, BLOCK, b"x" * 5000)[:BLOCK]],
    ],
    ids=["none", "never used", "absorbed", "older", "torn"],
)
def test_empty_spool_is_replaced_and_the_numbers_of_its_runs_go_on(
    tmp_path: Path, journal: list[bytes] | None
) -> None:
    make_rows(tmp_path, {"journal": b"3 4096", "receipt|c-0": make_receipt()})
    if journal is not None:
        make_journal(tmp_path, *journal)

    with closing(open_spool(tmp_path)) as spool:
        assert spool.pending() == []
        assert spool.put(FakeEntry()).sequence_number == 8
        assert spool.put(FakeEntry(run_id="build-2")).sequence_number == 42

    assert not list(tmp_path.rglob("cache.db*"))
    assert not (tmp_path / "journal").exists()
    with closing(open_spool(tmp_path)) as spool:
        assert len(spool.pending()) == 2


def test_receipts_and_notes_of_an_empty_spool_are_carried_over(tmp_path: Path) -> None:
    make_rows(tmp_path, {"receipt|c-0": make_receipt(), "note|litter/a": b"a note"})

    for _ in range(2):
        with closing(open_spool(tmp_path)) as spool:
            receipt = spool.receipt("c-0")
            assert receipt is not None
            assert (receipt.status, receipt.sequence_number, receipt.commit_sha) == ("verified", 7, "commit")
            assert spool.put(FakeEntry(checkpoint_id="c-0", fingerprint="same")) == receipt
            assert spool.put(FakeEntry(checkpoint_id="c-0")) == receipt
            for other in (FakeEntry(fingerprint="other", content=b"other"), FakeEntry(content=b"other")):
                other.checkpoint_id = "c-0"
                with pytest.raises(CheckpointChanged):
                    spool.put(other)
            assert spool.notes() == {"litter/a": b"a note"}
            assert spool.pending() == []

    with closing(open_spool(tmp_path)) as spool:
        assert spool.purge_receipts(older_than=1001.5, keep=0) == 0
        assert spool.purge_receipts(older_than=1001.6, keep=0) == 1


def test_receipt_whose_checkpoint_should_wait_and_does_not_says_that_it_is_lost(tmp_path: Path) -> None:
    make_rows(tmp_path, {"receipt|c-0": make_receipt("spooled")})

    with closing(open_spool(tmp_path)) as spool:
        receipt = spool.receipt("c-0")
        assert receipt is not None
        assert (receipt.status, receipt.reason) == ("refused", LOST)
        assert spool.pending() == []


def test_row_that_was_altered_is_left_out_and_keeps_nothing_else_out(tmp_path: Path) -> None:
    make_rows(tmp_path, {"receipt|c-0": make_receipt(), "receipt|c-1": make_receipt(checkpoint_id="c-1")})
    with closing(sqlite3.connect(tmp_path / "queue" / "cache.db", isolation_level=None)) as database:
        database.execute(
            "update Cache set value = cast(value || x'00' as blob) where key in (?, ?)",
            ("receipt|c-0", "run|build-2"),
        )

    with closing(open_spool(tmp_path)) as spool:
        assert spool.receipt("c-0") is None
        assert spool.receipt("c-1") is not None
        assert [spool.known_sequence(run) for run in ("build-1", "build-2")] == [7, 0]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("rows", "journal"),
    [
        ({WAITING: b"1:state"}, None),
        ({SET_ASIDE: b"1:state"}, None),
        ({}, [make_entry(1, 0, b"1:state")]),
        ({"journal": b"3 4096"}, [make_entry(4, 0, b"1:state")]),
        ({"journal": b"3 4096"}, [make_entry(3, 0, b"absorbed"), make_entry(3, BLOCK, b"1:state")]),
        # The body was altered, but what follows it shows that its caller was answered.
        (
            {"journal": b"3 4096"},
            [make_entry(4, 0, b"x" * 5000)[:BLOCK], bytes(BLOCK), make_entry(4, 2 * BLOCK, b"1:state")],
        ),
    ],
    ids=["waiting", "set aside", "journal alone", "next generation", "same generation", "altered"],
)
def test_spool_with_checkpoints_is_refused_and_left_as_it_is(
    tmp_path: Path, rows: dict[str, bytes], journal: list[bytes] | None
) -> None:
    make_rows(tmp_path, rows)
    if journal is not None:
        make_journal(tmp_path, *journal)
    before = content_of(tmp_path)

    for _ in range(2):
        with pytest.raises(
            SpoolUnwritable, match=r"holds \d checkpoints in the format of Holdfast 0\.1\.0.*`holdfast drain`"
        ):
            open_spool(tmp_path)

    assert content_of(tmp_path) == before


def test_refusal_names_the_commit_that_reads_the_format(tmp_path: Path) -> None:
    make_rows(tmp_path, {WAITING: b"1"})

    with pytest.raises(SpoolUnwritable, match=f"git checkout {COMMIT}"):
        open_spool(tmp_path)

    shown = subprocess.run(
        ["git", "show", f"{COMMIT}:src/holdfast/version.py"],
        cwd=Path(__file__).parent,
        capture_output=True,
        text=True,
        check=False,
    )
    if shown.returncode:
        pytest.skip("this is no clone with the whole history")
    assert f'"{VERSION}"' in shown.stdout


def test_journal_without_a_database_is_not_thrown_away(tmp_path: Path) -> None:
    make_journal(tmp_path, make_entry(1, 0, b"1:state"))

    with pytest.raises(SpoolUnwritable, match="holds 1 checkpoints"):
        open_spool(tmp_path)


def test_salvage_that_the_earlier_version_did_not_finish_is_left_to_it(tmp_path: Path) -> None:
    make_rows(tmp_path, {})
    (tmp_path / "queue").rename(tmp_path / "damaged-20260101T000000Z")

    with pytest.raises(SpoolUnwritable, match=r"format of Holdfast 0\.1\.0"):
        open_spool(tmp_path)

    assert (tmp_path / "damaged-20260101T000000Z" / "cache.db").exists()


def test_salvage_that_the_earlier_version_finished_does_not_stand_in_the_way_of_ours(tmp_path: Path) -> None:
    with closing(open_spool(tmp_path)) as spool:
        receipt = spool.put(FakeEntry())
    (tmp_path / "queue").rename(tmp_path / "damaged-20260201T000000Z")  # the process was killed here
    make_rows(tmp_path, {})
    (tmp_path / "queue").rename(tmp_path / "damaged-20260101T000000Z")
    (tmp_path / "damaged-20260101T000000Z" / REPORT).write_text("{}")

    with closing(open_spool(tmp_path)) as spool:
        assert [item.checkpoint_id for item in spool.pending()] == [receipt.checkpoint_id]


def test_damaged_database_is_refused_and_left_as_it_is(tmp_path: Path) -> None:
    (tmp_path / "queue").mkdir(parents=True)
    (tmp_path / "queue" / "cache.db").write_bytes(b"garbage" * 1000)

    with pytest.raises(SpoolUnwritable, match="a damaged spool"):
        open_spool(tmp_path)

    assert (tmp_path / "queue" / "cache.db").read_bytes() == b"garbage" * 1000
