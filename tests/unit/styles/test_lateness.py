from dataclasses import replace

from holdfast.format.index import IndexEntry
from holdfast.format.stored_file import entry_of
from holdfast.styles.lateness import machine_of, mark_late, tell_late
from tests.fakes.saved import stamped


def entry(number: int, moment: str, **header: str) -> IndexEntry:
    return entry_of(stamped({}, sequence=number, timestamp=moment, **header), "x")


STORED = [
    entry(1, "2026-11-16T10:00:00Z"),
    entry(2, "2026-11-16T12:00:00Z", status="completed", trigger="run_complete"),
]


def test_what_comes_late_is_marked_with_its_machine_and_told() -> None:
    late = stamped({}, sequence=3, timestamp="2026-11-16T11:00:00Z")

    (marked,) = mark_late([entry_of(late, "x")], STORED, "laptop")
    (warning,) = tell_late(late.header, [*STORED, marked])

    assert machine_of(marked) == "laptop"
    assert "of the machine laptop, was saved at 2026-11-16T11:00:00Z, 1:00:00 before checkpoint 2" in warning
    assert "(run_complete, completed)" in warning


def test_what_comes_in_time_is_neither_marked_nor_told() -> None:
    prompt = stamped({}, sequence=3, timestamp="2026-11-16T11:59:30Z")

    (marked,) = mark_late([entry_of(prompt, "x")], STORED, "laptop")

    assert machine_of(marked) == ""
    assert tell_late(prompt.header, [*STORED, marked]) == []


def test_other_members_of_an_entry_stay() -> None:
    late = replace(entry(3, "2026-11-16T11:00:00Z"), others=b'"color":"red"')

    (marked,) = mark_late([late], STORED, "laptop")

    assert marked.others == b'"color":"red","machine":"laptop"'
