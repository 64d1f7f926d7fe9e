"""Our own commits: what they say of a run, as long as nobody else has written."""

import pytest

from holdfast.cache.own_commits import (
    MAX_FILES_OF_OUR_WRITES,
    Ends,
    Lineage,
    OwnCommit,
    RunWrite,
    files_after,
    follow,
    read_ends,
    read_lineage,
)
from holdfast.format.file_list import FileList
from holdfast.format.run_snapshot import RemoteFile

A, B = RemoteFile("a" * 40, 1), RemoteFile("b" * 40, 2)


@pytest.mark.parametrize(
    ("known", "commit", "expected"),
    [
        (None, OwnCommit("2", "1"), Lineage("2", "2")),
        (Lineage("1", "1"), OwnCommit("2", "1"), Lineage("1", "2")),
        (Lineage("1", "1"), OwnCommit("3", "2"), Lineage("3", "3")),
        (Lineage("1", "1"), OwnCommit("3", ""), Lineage("3", "3")),
    ],
    ids=["the first", "on the last", "on another's", "on who knows what"],
)
def test_lineage_goes_on_only_from_its_last_commit(
    known: Lineage | None, commit: OwnCommit, expected: Lineage
) -> None:
    assert follow(known, commit) == expected


def test_ends_know_the_highest_number_only_after_a_commit_on_theirs() -> None:
    ends = Ends("1", {"index.json": A}, 7, 9, "1")
    write = RunWrite({"index.json": B, "cp_008_manual.json": A}, 8)

    assert ends.after(write, OwnCommit("2", "1"), "1") == Ends("2", {"index.json": B}, 8, 9, "1")
    assert ends.after(write, OwnCommit("3", "2"), "3") == Ends("", {"index.json": B}, None, 9)
    assert ends.after(RunWrite({"index.json": None}), OwnCommit("2", "1"), "1").files == {}


def test_ends_are_as_of_the_last_of_our_commits_if_they_are_of_its_lineage() -> None:
    ends = Ends("1", {}, 7, 9, "1")

    assert ends.as_of(Lineage("1", "5")).commit_sha == "5"
    assert ends.as_of(Lineage("4", "5")) == ends.as_of(None) == ends


def test_records_give_back_what_they_are_of() -> None:
    ends, lineage = Ends("1", {"index.json": A, "latest.json": B}, None, 9, "1"), Lineage("1", "2")

    assert read_ends(ends.to_bytes()) == ends
    assert read_lineage(lineage.to_bytes()) == lineage


def test_of_a_long_run_only_what_no_index_names_is_kept_beside_our_writes() -> None:
    names = [f"cp_{number:03d}_manual.json" for number in range(1, MAX_FILES_OF_OUR_WRITES + 2)]
    known = FileList.of({**dict.fromkeys(names, A), "index.json": A, "index_1_81.json": A})

    files = files_after(known, {"index.json": B, "cp_300_manual.json": B, "index_1_81.json": None})

    assert files == {"index.json": B, "cp_300_manual.json": B}
