"""What a snapshot says of itself, and what a writer may take as proved."""

from dataclasses import replace

import pytest

from holdfast.format.index import Index
from holdfast.format.paths import Layout
from holdfast.format.run_snapshot import RunSnapshot, without_unproved
from holdfast.format.stored_file import entry_of
from tests.fakes.saved import stamped

ONE, TWO = (stamped({"n": number}, sequence=number) for number in (1, 2))
NAMES = ("cp_001_manual.json", "cp_002_manual.json")


def make_snapshot(*blobs: str) -> RunSnapshot:
    entries = [entry_of(each, f"checkpoints/r/{name}") for each, name in zip((ONE, TWO), NAMES, strict=True)]
    index = Index("r").with_entries(entries, workflow=None, now="")
    return RunSnapshot(
        index, latest_sequence=2, blobs=dict(zip(NAMES, blobs, strict=False)), index_sha="i", latest_sha="l"
    )


def test_numbers_up_to_a_latest_that_is_alone_are_gone() -> None:
    assert RunSnapshot(Index("r"), latest_sequence=3).pruned_through == 3
    assert RunSnapshot(Index("r", pruned_through=5), latest_sequence=3).pruned_through == 5
    assert make_snapshot(ONE.blob_sha, TWO.blob_sha).pruned_through == 0


def test_what_is_there_as_it_was_sent_is_proved() -> None:
    snapshot = make_snapshot(ONE.blob_sha, TWO.blob_sha)

    assert without_unproved(snapshot, [ONE.checkpoint_id, TWO.checkpoint_id, "unknown"], Layout()) is snapshot


@pytest.mark.parametrize("blobs", [(ONE.blob_sha, "torn"), (ONE.blob_sha,)])
def test_what_is_missing_or_torn_is_written_again_and_so_is_the_latest(blobs: tuple[str, ...]) -> None:
    found = without_unproved(make_snapshot(*blobs), [ONE.checkpoint_id, TWO.checkpoint_id], Layout())

    assert [entry.sequence for entry in found.index.entries] == [1]
    assert (found.latest_sequence, [*found.blobs]) == (1, [NAMES[0]])


def test_what_a_settled_snapshot_does_not_list_is_proved_but_what_is_torn_is_not() -> None:
    nothing, torn = (replace(make_snapshot(*blobs), is_settled=True) for blobs in ((), ("torn",)))
    ids = [ONE.checkpoint_id, TWO.checkpoint_id]

    assert without_unproved(nothing, ids, Layout()) is nothing
    assert [entry.sequence for entry in without_unproved(torn, ids, Layout()).index.entries] == [2]


def test_checkpoints_of_others_need_no_proof() -> None:
    snapshot = make_snapshot(ONE.blob_sha, "torn")

    assert without_unproved(snapshot, [ONE.checkpoint_id], Layout()) is snapshot
