"""Merging with other writers: files that are there already, indexes, `latest.json`."""

import json
from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.drain.write_plan import WritePlan, plan_write
from holdfast.errors import IntegrityFailure, Unverified
from holdfast.format.checkpoint import Envelope, draft_from_mapping, stamp
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import Index, parse_index
from holdfast.format.index_segments import close_segment
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.stored_file import entry_of, open_file

NOW = "2026-11-16T10:00:00.000Z"
LAYOUT = Layout()


def envelope(number: int, sequence: int | None = None, *, trigger: str = "manual") -> Envelope:
    checkpoint = {"run_id": "r", "trigger": trigger, "state": {"n": number}, "workflow": "ci.yml"}
    draft = draft_from_mapping(checkpoint, now=NOW, new_id=lambda: str(UUID(int=number)))
    return stamp(draft.body(sequence or number))


def publish(snapshot: RunSnapshot, *envelopes: Envelope, is_batch: bool = False) -> WritePlan:
    return plan_write(snapshot, envelopes, is_batch=is_batch, layout=LAYOUT, now=NOW)


def snapshot_of(*envelopes: Envelope) -> RunSnapshot:
    """Return the snapshot of a run after these were published to an empty folder."""
    empty = RunSnapshot(Index("r"))
    return publish(empty, *envelopes).snapshot_after(empty, LAYOUT)


def test_first_checkpoint_makes_file_index_and_latest() -> None:
    write_plan = publish(RunSnapshot(Index("r")), envelope(1))

    assert [file.path for file in write_plan.files] == ["checkpoints/r/cp_001_manual.json"]
    assert write_plan.files[0].message == f"Checkpoint {UUID(int=1)}"
    assert write_plan.index is not None
    assert write_plan.index.path == "checkpoints/r/index.json"
    assert write_plan.latest is not None
    assert write_plan.latest.content == write_plan.files[0].content
    assert {file.expected_sha for file in (write_plan.index, write_plan.latest)} == {None}


def test_index_has_the_fields_of_the_specification() -> None:
    write_plan = publish(RunSnapshot(Index("r")), envelope(1), envelope(2))
    assert write_plan.index is not None

    index = json.loads(write_plan.index.content)

    assert index["run_id"] == "r"
    assert index["checkpoint_count"] == 2
    assert index["last_updated"] == NOW
    assert index["checkpoints"][0] == {
        "sequence": 1,
        "checkpoint_id": str(UUID(int=1)),
        "trigger": "manual",
        "timestamp": NOW,
        "file_path": "checkpoints/r/cp_001_manual.json",
        "status": "in_progress",
        "phase": "unspecified",
        "blob_sha": envelope(1).blob_sha,
    }
    assert parse_index(write_plan.index.content, "index.json") == write_plan.merged


def test_next_checkpoint_replaces_index_and_latest_by_their_known_blobs() -> None:
    snapshot = snapshot_of(envelope(1))

    write_plan = publish(snapshot, envelope(2))

    assert write_plan.index is not None
    assert write_plan.index.expected_sha == snapshot.index_sha
    assert write_plan.latest is not None
    assert write_plan.latest.expected_sha == snapshot.latest_sha == envelope(1).blob_sha


def test_what_is_in_the_index_is_not_written_again() -> None:
    write_plan = publish(snapshot_of(envelope(1), envelope(2)), envelope(1), envelope(2))

    assert write_plan.files == ()
    assert write_plan.index is None
    assert write_plan.latest is None
    assert set(write_plan.entries) == {str(UUID(int=1)), str(UUID(int=2))}


def test_checkpoint_in_a_segment_that_was_not_read_is_not_stored_again() -> None:
    stored = snapshot_of(envelope(1), envelope(2))
    segment = close_segment("r", "checkpoints/r", stored.index.entries).in_short()
    snapshot = replace(stored, index=replace(stored.index, entries=(), segments=(segment,)))

    with pytest.raises(Unverified, match=r"index_1_2\.json: checkpoint .* lies in it, but it was not read"):
        publish(snapshot, envelope(2))


def test_file_that_landed_before_a_crash_is_not_written_again_but_indexed() -> None:
    snapshot = replace(snapshot_of(envelope(1)), blobs={"cp_002_manual.json": envelope(2).blob_sha})

    write_plan = publish(snapshot, envelope(2))

    assert write_plan.files == ()
    assert write_plan.index is not None


def test_latest_is_made_good_when_only_that_was_missing() -> None:
    snapshot = replace(snapshot_of(envelope(1), envelope(2)), latest_sha="old", latest_sequence=1)

    write_plan = publish(snapshot, envelope(2))

    assert write_plan.index is None
    assert write_plan.latest is not None
    assert write_plan.latest.expected_sha == "old"


def test_latest_never_goes_back() -> None:
    write_plan = publish(snapshot_of(envelope(5)), envelope(3))

    assert write_plan.latest is None
    assert [entry.sequence for entry in write_plan.merged.entries] == [3, 5]


def test_another_writers_newer_checkpoint_is_not_ours_to_copy() -> None:
    snapshot = replace(snapshot_of(envelope(1), envelope(9)), latest_sequence=1)

    assert publish(snapshot, envelope(2)).latest is None


def test_batch_holds_all_and_the_index_points_at_it_for_each() -> None:
    write_plan = publish(RunSnapshot(Index("r")), envelope(3), envelope(4), envelope(5), is_batch=True)

    (batch,) = write_plan.files
    assert batch.path == "checkpoints/r/batch_3_5.json"
    document = json.loads(batch.content)
    assert document["batch_metadata"] == {"first_sequence": 3, "last_sequence": 5, "checkpoint_count": 3}
    assert [entry.file_path for entry in write_plan.merged.entries] == [batch.path] * 3
    assert [found for found, _ in open_file(batch.content, batch.path)] == [
        envelope(3),
        envelope(4),
        envelope(5),
    ]
    assert write_plan.latest is not None
    assert write_plan.latest.content == envelope(5).content


def test_batch_of_one_is_a_single_file() -> None:
    write_plan = publish(RunSnapshot(Index("r")), envelope(3), is_batch=True)

    assert write_plan.files[0].path == "checkpoints/r/cp_003_manual.json"


def test_damaged_checkpoint_in_a_batch_is_found() -> None:
    (batch,) = publish(RunSnapshot(Index("r")), envelope(3), envelope(4), is_batch=True).files

    with pytest.raises(IntegrityFailure, match="does not match"):
        open_file(batch.content.replace(b'"n":4', b'"n":5'), batch.path)


def test_union_of_indexes_keeps_what_was_there() -> None:
    ours = Index("r").with_entries([entry_of(envelope(1), "ours")], workflow=None, now=NOW)

    united = ours.with_entries(
        [entry_of(envelope(1), "theirs"), entry_of(envelope(2), "new")], workflow="w", now=NOW
    )

    assert [entry.file_path for entry in united.entries] == ["ours", "new"]
    assert united.workflow == "w"


@pytest.mark.parametrize(
    "content", [b"", b"[]", b'{"run_id":"r"}', b'{"run_id":"r","checkpoints":[{}]}', b"\xff"]
)
def test_what_is_not_an_index_is_named(content: bytes) -> None:
    with pytest.raises(IntegrityFailure, match="it is not an index"):
        parse_index(content, "index.json")


def test_index_of_the_specification_alone_is_read() -> None:
    entry = {"sequence": 1, "checkpoint_id": "x", "trigger": "manual", "timestamp": NOW, "file_path": "p"}

    index = parse_index(json.dumps({"run_id": "r", "checkpoints": [entry]}).encode(), "index.json")

    assert index.entries[0].status == "in_progress"


def test_blob_sha_is_gits() -> None:
    assert blob_sha(b"hello\n") == "ce013625030ba8dba906f756967f9e9ca394464a"


def test_batch_that_would_take_too_much_memory_becomes_several_files() -> None:
    dense = b"{}," * 330_000
    heavy = [replace(envelope(number), content=dense) for number in (1, 2, 3)]
    light = envelope(4)

    planned = plan_write(RunSnapshot(Index("r")), [light, *heavy], is_batch=True, layout=LAYOUT, now=NOW)

    names = [file.path.rpartition("/")[2] for file in planned.files]
    assert names == ["batch_1_2.json", "batch_3_4.json"]
    assert [planned.entries[each.checkpoint_id].file_path for each in (*heavy, light)] == [
        f"checkpoints/r/{name}" for name in names for _ in range(2)
    ]
