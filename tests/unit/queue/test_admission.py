import pytest

from holdfast.errors import CheckpointChanged, InvalidCheckpoint, SpoolFull, SpoolUnwritable
from holdfast.format.paths import Layout
from holdfast.format.receipt import Persistence, Progress
from holdfast.queue.admission import (
    Prepared,
    PutTerms,
    RunNumbers,
    check_known,
    check_limits,
    make_body,
    make_row,
    prepare,
)
from holdfast.queue.contract import QueueLimits
from holdfast.queue.rows import Totals
from tests.fakes.spooling import FakeEntry

TERMS = PutTerms(QueueLimits(), Layout(), 1000.0, Persistence.DELAYED, are_new=False)


def test_number_is_the_wanted_one_if_it_is_free_and_else_the_next() -> None:
    numbers = RunNumbers(highest=7, floor=3)

    chosen = [numbers.choose(wanted, {5}.__contains__) for wanted in (None, 9, 4, 5, 3, 1)]

    assert chosen == [8, 9, 4, 8, 8, 8]


def test_items_of_one_run_are_prepared_under_numbers_that_follow_each_other() -> None:
    entries = [FakeEntry(), FakeEntry(sequence=7), FakeEntry(), FakeEntry(run_id="other")]

    prepared = prepare(entries, {"build-1": 3, "other": 1}.__getitem__)

    assert [each.number for each in prepared if isinstance(each, Prepared)] == [3, 7, 8, 1]
    assert [entry.bodies_made for entry in entries] == [1, 1, 1, 1]


def test_wrong_item_has_its_error_in_its_place_and_takes_no_number() -> None:
    class Broken(FakeEntry):
        def body(self, sequence: int) -> bytes:
            raise InvalidCheckpoint("state", "cannot be encoded")

    first, broken, nameless, last = prepare(
        [FakeEntry(), Broken(), FakeEntry(run_id=""), FakeEntry()], lambda _: 1
    )

    assert isinstance(broken, InvalidCheckpoint)
    assert isinstance(nameless, InvalidCheckpoint)
    assert isinstance(first, Prepared)
    assert isinstance(last, Prepared)
    assert (first.number, last.number) == (1, 2)


def test_failure_of_the_disk_concerns_all_of_them() -> None:
    def fail(_: str) -> int:
        raise SpoolUnwritable("no disk")

    with pytest.raises(SpoolUnwritable):
        prepare([FakeEntry()], fail)


def test_row_of_an_accepted_item_says_all_of_it_and_is_sealed() -> None:
    entry = FakeEntry(sequence=4, fingerprint="f", content=b"state")

    row = make_row(make_body(entry, 5), TERMS)

    receipt = row.receipt
    assert (receipt.status, receipt.persistence) == (Progress.SPOOLED, Persistence.DELAYED)
    assert receipt.file_path == "checkpoints/build-1/cp_005_manual.json"
    assert (row.sequence, row.is_automatic, row.size, row.changed_at) == (5, 1, 7, 1000.0)
    assert row.is_sound
    for altered in (row._replace(sequence=6), row._replace(run_id="other"), row._replace(digest=bytes(32))):
        assert not altered.is_sound
    assert row._replace(sequence=6).sealed().is_sound


@pytest.mark.parametrize(
    ("changes", "is_same"),
    [
        ({}, True),
        ({"content": b"made anew"}, True),
        ({"fingerprint": "g"}, True),
        ({"fingerprint": "g", "content": b"other"}, False),
        ({"fingerprint": None}, True),
        ({"fingerprint": None, "content": b"other"}, False),
        ({"run_id": "other"}, False),
    ],
)
def test_repetition_is_known_by_its_fingerprint_or_else_by_its_bytes(
    changes: dict[str, object], is_same: bool
) -> None:
    row = make_row(make_body(FakeEntry(checkpoint_id="c", fingerprint="f"), 3), TERMS)
    again = FakeEntry(**{"checkpoint_id": "c", "fingerprint": "f", **changes})  # type: ignore[arg-type]

    if is_same:
        check_known(again, row)
    else:
        with pytest.raises(CheckpointChanged):
            check_known(again, row)


def test_limits_count_what_waits_and_what_is_set_aside() -> None:
    limits = QueueLimits(max_bytes=100, max_items=3)
    totals = Totals(depth=1, bytes=40, set_aside=1, set_aside_bytes=40)

    assert check_limits(totals, 20, limits) == totals._replace(depth=2, bytes=60)
    with pytest.raises(SpoolFull, match=r"2 checkpoints in 80 bytes and takes at most 3 in 100"):
        check_limits(totals, 21, limits)
    with pytest.raises(SpoolFull):
        check_limits(totals._replace(depth=2), 1, limits)
