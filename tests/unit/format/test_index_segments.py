"""The index: what it lists, what it closes into segments, and what it refuses to read."""

import json
from collections.abc import Callable
from dataclasses import replace

import pytest

from holdfast.errors import IntegrityFailure, NewerFormat
from holdfast.format.index import Index, IndexEntry, parse_index
from holdfast.format.index_segments import Segment, close_segment, open_segment, outline_segment

FOLDER = "checkpoints/r"
READERS = pytest.mark.parametrize("read", [open_segment, outline_segment])


def make_entries(first: int, last: int) -> list[IndexEntry]:
    return [
        IndexEntry(
            number, f"id-{number}", "manual", "t", f"{FOLDER}/cp_{number:03d}_manual.json", "in_progress", ""
        )
        for number in range(first, last + 1)
    ]


def grown(count: int) -> Index:
    index = Index("r")
    for entry in make_entries(1, count):
        index = index.with_entries([entry], workflow=None, now="now").folded(FOLDER)
    return index


def test_run_of_a_hundred_has_no_segments_and_looks_as_before() -> None:
    document = json.loads(grown(100).to_bytes())

    assert len(document["checkpoints"]) == document["checkpoint_count"] == 100
    assert "segments" not in document


def test_one_more_closes_a_segment_and_the_newest_twenty_stay_listed() -> None:
    index = grown(101)

    assert [entry.sequence for entry in index.entries] == list(range(82, 102))
    (segment,) = index.segments
    assert (segment.file_path, segment.first, segment.last, segment.count) == (
        f"{FOLDER}/index_1_81.json",
        1,
        81,
        81,
    )
    assert index.checkpoint_count == 101
    assert [entry.sequence for entry in index.all_entries] == list(range(1, 102))


@pytest.mark.parametrize("count", [101, 150, 400, 1000])
def test_every_checkpoint_is_listed_once_however_long_the_run(count: int) -> None:
    index = grown(count)

    assert [entry.sequence for entry in index.all_entries] == list(range(1, count + 1))
    assert [entry.sequence for entry in index.newest_first()] == list(range(count, 0, -1))
    assert 20 <= len(index.entries) <= 100


@pytest.mark.slow
def test_bytes_of_the_index_grow_with_the_checkpoints_and_no_faster() -> None:
    index, totals = Index("r"), {}
    total = 0
    for entry in make_entries(1, 2000):
        before = set(index.segments)
        index = index.with_entries([entry], workflow=None, now="now").folded(FOLDER)
        total += len(index.to_bytes())
        total += sum(len(each.to_bytes("r")) for each in index.segments if each not in before)
        totals[entry.sequence] = total

    assert totals[1000] < 11 * totals[100]
    assert totals[2000] < 2.5 * totals[1000]


def test_many_at_once_make_segments_of_a_size_that_one_query_gives() -> None:
    index = Index("r").with_entries(make_entries(1, 2500), workflow=None, now="now").folded(FOLDER)

    assert [segment.count for segment in index.segments] == [1000, 1000, 480]


def test_index_comes_back_from_its_bytes_and_its_segments_from_theirs() -> None:
    index = grown(150)

    stored = parse_index(index.to_bytes(), "index.json")
    pairs = zip(stored.segments, index.segments, strict=True)
    opened = [open_segment(each, closed.to_bytes("r"), "r") for each, closed in pairs]

    assert not stored.is_whole
    assert stored.checkpoint_count == 150
    assert stored.segments == index.segments
    whole = replace(stored, segments=tuple(opened))
    assert whole.is_whole
    assert whole.all_entries == index.all_entries


def test_id_in_a_segment_is_not_added_again() -> None:
    index = grown(101)

    assert index.with_entries(make_entries(5, 5), workflow=None, now="later").entries == index.entries
    assert index.by_id["id-5"].sequence == 5
    assert index.has_number(5)
    assert not index.has_number(101)


def test_segment_loses_what_is_removed_and_goes_with_the_last_of_it() -> None:
    index = grown(150)
    first = index.segments[0]

    less = index.without({"id-1", "id-2"})
    none = index.without({entry.checkpoint_id for entry in first.entries or ()})

    assert (less.segments[0].file_path, less.segments[0].count) == (f"{FOLDER}/index_3_81.json", 79)
    assert less.segments[1:] == index.segments[1:]
    assert less.pruned_through == 2
    assert none.segments == index.segments[1:]


@READERS
@pytest.mark.parametrize("case", ["other bytes", "other run", "other count"])
def test_segment_that_is_not_the_one_named_is_refused(
    case: str, read: Callable[[Segment, bytes, str], Segment]
) -> None:
    (segment,) = grown(101).segments
    content = segment.to_bytes("other" if case == "other run" else "r")
    if case == "other bytes":
        content += b" "
    elif case == "other run":
        segment = close_segment("other", FOLDER, segment.entries or ())
    else:
        segment = replace(segment, count=80)

    with pytest.raises(IntegrityFailure):
        read(segment, content, "r")


@READERS
def test_segment_that_a_newer_holdfast_wrote_is_told_from_a_damaged_one(
    read: Callable[[Segment, bytes, str], Segment],
) -> None:
    segment = close_segment("r", FOLDER, tuple(make_entries(1, 3)))

    with pytest.raises(NewerFormat, match="format 2 is newer"):
        read(segment, b'{"format_version": 2, "rows": []}', "r")
    with pytest.raises(IntegrityFailure, match="not the segment"):
        read(segment, b"damaged", "r")


def test_outline_is_the_same_whether_a_segment_is_opened_or_not() -> None:
    closed = close_segment("r", FOLDER, tuple(make_entries(3, 9)))
    segment = replace(closed, entries=None)

    outlined = outline_segment(segment, closed.to_bytes("r"), "r")

    assert outlined.entries is None
    assert outlined.outline == open_segment(segment, closed.to_bytes("r"), "r").outline == closed.outline


def test_outline_has_whole_ids_and_the_names_of_all_files() -> None:
    entries = make_entries(10, 12)
    same_file = [replace(entry, file_path=f"/{FOLDER}/batch_10_11.json") for entry in entries[:2]]
    outline = close_segment("r", FOLDER, (*same_file, entries[2])).outline

    assert outline
    assert outline.names == {"batch_10_11.json", "cp_012_manual.json"}
    assert [outline.has_id(each) for each in ("id-10", "id-12", "id-1", "d-10", "", "id-13")] == [
        True,
        True,
    ] + [False] * 4


def test_outline_of_nothing_has_nothing() -> None:
    outline = replace(close_segment("r", FOLDER, tuple(make_entries(1, 1))), entries=()).outline

    assert outline
    assert not outline.names
    assert not outline.has_id("")


def test_every_number_of_a_segment_that_was_not_read_may_be_taken() -> None:
    closed = close_segment("r", FOLDER, tuple(make_entries(3, 4) + make_entries(6, 9)))
    unread = replace(closed, entries=None)

    assert [number for number in range(1, 12) if closed.has_number(number)] == [3, 4, 6, 7, 8, 9]
    assert [number for number in range(1, 12) if unread.has_number(number)] == list(range(3, 10))
