"""The index of a run, as a file."""

import json
from dataclasses import replace

import pytest

from holdfast.errors import NewerFormat
from holdfast.format.index import Index, IndexEntry, parse_index

PATH = "checkpoints/r/cp_001_manual.json"
ENTRY = IndexEntry(1, "a", "manual", "2026-11-17T10:00:00Z", PATH, "failed", "b")
INDEX = Index("r", (ENTRY,), "flow", "2026-11-17T10:00:01Z", 7)


def test_index_comes_back_as_it_was() -> None:
    assert parse_index(INDEX.to_bytes(), "index.json") == INDEX
    assert parse_index(INDEX.to_bytes(), "index.json").to_bytes() == INDEX.to_bytes()


def test_index_has_one_line_for_each_checkpoint() -> None:
    assert INDEX.to_bytes().splitlines()[1] == (
        b'{"sequence":1,"checkpoint_id":"a","trigger":"manual","timestamp":"2026-11-17T10:00:00Z",'
        b'"file_path":"checkpoints/r/cp_001_manual.json","status":"failed","blob_sha":"b","phase":""}'
    )


def test_unknown_members_are_kept_through_every_change() -> None:
    document = json.loads(INDEX.to_bytes())
    document["owner"] = ["x"]
    document["checkpoints"][0]["label"] = {"n": 1}
    index = parse_index(json.dumps(document).encode(), "index.json")
    other = IndexEntry(2, "c", "manual", "", "checkpoints/r/cp_002_manual.json", "failed", "d")

    changed = json.loads(index.with_entries([other], workflow=None, now="").without({"c"}).to_bytes())

    assert changed["owner"] == ["x"]
    assert changed["checkpoints"][0]["label"] == {"n": 1}
    assert changed["pruned_through"] == 7


def test_newer_index_is_told_from_a_damaged_one() -> None:
    with pytest.raises(NewerFormat, match="format 2 is newer"):
        parse_index(b'{"format_version": 2, "segments": []}', "index.json")


def test_what_came_too_late_is_known_also_where_only_the_newest_are_listed() -> None:
    fences = {"a": 1, "b": 2, "late": 1, "free": 0, "later": 1}
    entries = tuple(
        replace(ENTRY, sequence=number, checkpoint_id=name, fence=fence)
        for number, (name, fence) in enumerate(fences.items(), 1)
    )
    index = Index("r", entries)

    assert index.fenced == {"late", "later"}
    newest = index.unfolded(1)
    assert [entry.checkpoint_id for entry in newest.entries] == ["later"]
    assert newest.fenced == {"later"}
    assert newest.current is None
    assert Index("r", entries[:2]).fenced == frozenset()
    assert index.to_bytes() == replace(index, fence_before=9).to_bytes()
