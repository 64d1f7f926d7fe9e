"""Numbers: those that another writer has, those that came in out of order, those of earlier attempts."""

from dataclasses import replace
from uuid import UUID

import pytest

from holdfast.drain.numbering import (
    Arrival,
    assign_sequences,
    disown_revived,
    find_arrivals,
    ids_to_rank,
    release_places,
    segments_about,
)
from holdfast.drain.write_plan import own_files, plan_write
from holdfast.format.checkpoint import Envelope, draft_from_mapping, stamp
from holdfast.format.index import Index
from holdfast.format.index_segments import close_segment
from holdfast.format.paths import Layout
from holdfast.format.receipt import QueueItem
from holdfast.format.run_snapshot import RunSnapshot
from holdfast.format.triggers import Priority, Trigger

NOW = "2026-11-16T10:00:00.000Z"
LAYOUT = Layout()


def envelope(number: int, sequence: int | None = None, *, trigger: str = "manual") -> Envelope:
    checkpoint = {"run_id": "r", "trigger": trigger, "state": {"n": number}, "workflow": "ci.yml"}
    draft = draft_from_mapping(checkpoint, now=NOW, new_id=lambda: str(UUID(int=number)))
    return stamp(draft.body(sequence or number))


def snapshot_of(*envelopes: Envelope) -> RunSnapshot:
    """Return the snapshot of a run after these were published to an empty folder."""
    empty = RunSnapshot(Index("r"))
    planned = plan_write(empty, envelopes, is_batch=False, layout=LAYOUT, now=NOW)
    return planned.snapshot_after(empty, LAYOUT)


@pytest.mark.parametrize(
    ("snapshot", "expected"),
    [
        (RunSnapshot(Index("r")), {}),
        (snapshot_of(envelope(7, 2)), {2: 3}),
        (snapshot_of(envelope(7, 2), envelope(8, 9)), {2: 3}),
        (snapshot_of(envelope(2)), {}),
        (RunSnapshot(Index("r"), blobs={"cp_002_error.json": "foreign"}), {2: 3}),
        (RunSnapshot(Index("r"), blobs={"batch_1_4.json": "foreign"}), {2: 5}),
        (RunSnapshot(Index("r"), blobs={"cp_002_manual.json": envelope(2).blob_sha}), {}),
        (RunSnapshot(Index("r"), latest_sha="x", latest_sequence=6), {2: 7}),
    ],
    ids=[
        "free",
        "taken",
        "taken, with a later one",
        "by itself",
        "by a file not indexed yet",
        "by a batch not indexed yet",
        "by our own file",
        "by a latest without an index",
    ],
)
def test_number_that_another_has_becomes_the_next_free_one(
    snapshot: RunSnapshot, expected: dict[int, int]
) -> None:
    mine = envelope(2)

    changed = assign_sequences(
        snapshot, [mine.header], own={mine.checkpoint_id: ("cp_002_manual.json", mine.blob_sha)}
    )

    assert changed == {str(UUID(int=number)): sequence for number, sequence in expected.items()}


def test_number_within_a_segment_that_was_not_read_is_not_given() -> None:
    closed = close_segment("r", "checkpoints/r", snapshot_of(*map(envelope, (1, 2, 4))).index.entries)
    index = Index("r", snapshot_of(envelope(9)).index.entries, segments=(closed.in_short(),))
    mine = envelope(20, 3)

    assert assign_sequences(RunSnapshot(index), [mine.header]) == {mine.checkpoint_id: 5}


def test_order_within_the_run_stays_when_numbers_change() -> None:
    snapshot = snapshot_of(envelope(7, 1), envelope(8, 2))

    changed = assign_sequences(snapshot, [envelope(1).header, envelope(2).header, envelope(3).header])

    assert changed == {str(UUID(int=1)): 3, str(UUID(int=2)): 4, str(UUID(int=3)): 5}


def test_order_stays_also_where_others_have_left_gaps() -> None:
    snapshot = snapshot_of(envelope(7, 1), envelope(8, 3), envelope(9, 9))

    changed = assign_sequences(snapshot, [envelope(number).header for number in (1, 2, 3, 5)])

    assert changed == {str(UUID(int=1)): 2, str(UUID(int=2)): 4, str(UUID(int=3)): 5, str(UUID(int=5)): 6}


def test_checkpoint_that_another_machine_has_stored_takes_the_number_it_has_there() -> None:
    snapshot = snapshot_of(envelope(7, 1), envelope(1, 5))
    ours = envelope(1, 3)

    assert assign_sequences(snapshot, [ours.header]) == {ours.checkpoint_id: 5}


@pytest.mark.parametrize("is_begun", [False, True])
def test_number_below_its_floor_goes_beyond_it_even_if_it_was_begun_under_it(is_begun: bool) -> None:
    snapshot = snapshot_of(envelope(7, 5), envelope(8, 9))
    first, second = envelope(1, 1), envelope(2, 2)
    own = own_files(snapshot, [first, second], is_batch=False, layout=LAYOUT)

    changed = assign_sequences(
        snapshot,
        [first.header, second.header],
        own=own,
        tried=[own[first.checkpoint_id]] if is_begun else (),
        arrivals={first.checkpoint_id: Arrival(1, floor=9), second.checkpoint_id: Arrival(2, floor=9)},
    )

    assert changed == {first.checkpoint_id: 10, second.checkpoint_id: 11}


def test_numbers_that_nobody_asked_for_follow_the_arrival_even_after_one_was_moved() -> None:
    first, moved, third, asked_for = envelope(1, 1), envelope(2, 5), envelope(3, 3), envelope(4, 4)
    arrivals = {each.checkpoint_id: Arrival(rank) for rank, each in enumerate((first, moved, third))}

    changed = assign_sequences(
        snapshot_of(envelope(7, 1)),
        [each.header for each in (third, asked_for, moved, first)],
        arrivals=arrivals,
    )

    assert changed == {first.checkpoint_id: 2, third.checkpoint_id: 6}


def test_name_of_an_earlier_attempt_is_never_used_for_another_checkpoint() -> None:
    first, second = envelope(1, 2), envelope(2, 3)
    own = own_files(RunSnapshot(Index("r")), [first, second], is_batch=False, layout=LAYOUT)
    snapshot = snapshot_of(envelope(7, 2))

    changed = assign_sequences(snapshot, [first.header, second.header], tried=own.values(), own=own)

    assert changed == {str(UUID(int=1)): 4, str(UUID(int=2)): 5}


def test_batch_that_loses_one_number_is_stored_under_others() -> None:
    first, second = envelope(1), envelope(2)
    own = own_files(RunSnapshot(Index("r")), [first, second], is_batch=True, layout=LAYOUT)
    snapshot = snapshot_of(envelope(7, 1))

    changed = assign_sequences(snapshot, [first.header, second.header], tried=own.values(), own=own)

    assert changed == {str(UUID(int=1)): 3, str(UUID(int=2)): 4}


def test_batch_of_which_another_writer_has_indexed_a_part_is_stored_under_other_numbers() -> None:
    envelopes = [envelope(1), envelope(2), envelope(3)]
    tried = own_files(RunSnapshot(Index("r")), envelopes, is_batch=True, layout=LAYOUT).values()
    snapshot = snapshot_of(envelope(2, 9))
    own = own_files(snapshot, envelopes, is_batch=True, layout=LAYOUT)

    changed = assign_sequences(snapshot, [each.header for each in envelopes], tried=tried, own=own)

    assert changed == {str(UUID(int=1)): 4, str(UUID(int=2)): 9, str(UUID(int=3)): 5}


def item(number: int, sequence: int | None = None, *, is_automatic: bool = True) -> QueueItem:
    """Return the queue item of `envelope(number, sequence)`."""
    identity = str(UUID(int=number))
    return QueueItem(
        identity, "r", sequence or number, Trigger.MANUAL, Priority.MEDIUM, 100, float(number), is_automatic
    )


def ranks(*numbers: int) -> dict[str, int]:
    """Return arrival numbers: the checkpoints came in in this order."""
    return {str(UUID(int=number)): rank for rank, number in enumerate(numbers, 1)}


def index_of_segments(*spans: tuple[int, int]) -> Index:
    """Return an index with segments of these numbers, of which only the outlines are known."""
    closed = []
    for first, last in spans:
        entries = snapshot_of(*map(envelope, range(first, last + 1))).index.entries
        closed.append(close_segment("r", "checkpoints/r", entries).in_short())
    return Index("r", segments=tuple(closed))


@pytest.mark.parametrize(
    ("items", "highest_known", "expected"),
    [
        ([], 20, []),
        ([item(90, 13)], 12, []),
        ([item(90, 10)], 12, [9]),
        ([item(90, 12)], 12, []),
        ([item(90, 3)], 3, []),
        ([item(90, 3)], 6, [1, 5]),
        ([item(90, 3)], 20, [1, 5, 9]),
        ([item(90, 13), item(91, 7)], 13, [5, 9]),
        ([item(90, 12, is_automatic=False)], 12, [9]),
        ([item(90, 3, is_automatic=False)], 3, [1, 5, 9]),
        ([item(90, 13, is_automatic=False), item(91, 14)], 14, []),
        ([item(2, 13)], 13, [1]),
        ([item(2, 13, is_automatic=False), item(11, 14)], 14, [1, 9]),
    ],
    ids=[
        "no items",
        "above all",
        "within the last",
        "at the end of the last",
        "the rest came from elsewhere",
        "part of the rest came from elsewhere",
        "nothing came from elsewhere",
        "the lowest counts",
        "asked for, at the end of the last",
        "asked for, with all that is above",
        "asked for, above all",
        "stored in the first",
        "stored in two",
    ],
)
def test_only_segments_that_tell_something_about_the_items_are_read(
    items: list[QueueItem], highest_known: int, expected: list[int]
) -> None:
    chosen = segments_about(index_of_segments((1, 4), (5, 8), (9, 12)), items, highest_known)

    assert [segment.first for segment in chosen] == expected


def test_segment_that_was_read_is_not_read_again() -> None:
    entries = snapshot_of(envelope(1), envelope(2)).index.entries
    index = Index("r", segments=(close_segment("r", "checkpoints/r", entries),))

    assert segments_about(index, [item(1)], 2) == []


@pytest.mark.parametrize("is_read", [True, False])
def test_item_whose_number_ends_a_segment_comes_after_it_whether_that_was_read_or_not(is_read: bool) -> None:
    closed = close_segment("r", "checkpoints/r", snapshot_of(envelope(1), envelope(2)).index.entries)
    index = Index(
        "r", snapshot_of(envelope(3)).index.entries, segments=(closed if is_read else closed.in_short(),)
    )
    snapshot, mine = RunSnapshot(index), envelope(9, 2)

    changed = assign_sequences(
        snapshot, [mine.header], arrivals=find_arrivals(snapshot, [item(9, 2)], ranks(9))
    )

    assert changed == {mine.checkpoint_id: 4}


def test_only_those_whose_number_nobody_asked_for_have_an_arrival() -> None:
    asked = item(2, is_automatic=False)

    assert find_arrivals(snapshot_of(), [item(1), asked], ranks(1, 2)) == {item(1).checkpoint_id: Arrival(1)}
    assert ids_to_rank(snapshot_of(), [asked]) == []


def test_what_another_machine_has_stored_since_is_gone_beyond() -> None:
    snapshot = snapshot_of(envelope(7, 1), envelope(8, 3))

    assert find_arrivals(snapshot, [item(1)], ranks(1)) == {item(1).checkpoint_id: Arrival(1, floor=3)}
    assert ids_to_rank(snapshot, [item(1)]) == [item(1).checkpoint_id, *reversed(list(snapshot.index.by_id))]


def test_what_came_in_later_here_but_was_more_urgent_keeps_its_place() -> None:
    snapshot = snapshot_of(envelope(7, 1), envelope(2, 2))

    assert find_arrivals(snapshot, [item(1)], ranks(1, 2)) == {item(1).checkpoint_id: Arrival(1, floor=1)}


def test_what_came_in_before_stays_before_also_above_what_came_in_later() -> None:
    snapshot = snapshot_of(envelope(3, 15), envelope(1, 17))

    arrivals = find_arrivals(snapshot, [item(2, 14)], ranks(1, 2, 3))

    assert arrivals == {item(2, 14).checkpoint_id: Arrival(2, floor=17)}


def test_places_of_an_earlier_attempt_are_given_up_for_who_came_in_before() -> None:
    stored = snapshot_of(envelope(2, 1))
    (entry,) = stored.index.entries
    rebuilt = replace(stored, is_index_stored=False)

    assert release_places(rebuilt, ranks(1, 2), {entry.file_path}).index.entries == ()
    assert release_places(rebuilt, ranks(2, 1), {entry.file_path}) == rebuilt
    assert release_places(rebuilt, ranks(1, 2), tried=()) == rebuilt
    assert release_places(stored, ranks(1, 2), {entry.file_path}) is stored


def test_checkpoint_that_only_the_latest_has_is_disowned_if_it_is_stored_anew() -> None:
    latest = envelope(3)
    snapshot = replace(snapshot_of(envelope(1), latest), revived=latest)

    assert disown_revived(snapshot, [item(1)]) is snapshot
    disowned = disown_revived(snapshot, [item(3)])
    assert (disowned.revived, list(disowned.index.by_id)) == (None, [item(1).checkpoint_id])
