import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.errors import InvalidCheckpoint
from holdfast.format.ids import parse_run_id
from holdfast.langgraph.names import (
    Kind,
    Place,
    RecordName,
    format_phase,
    name_place,
    parse_phase,
    run_of_thread,
)

MOST_PHASE_CHARACTERS = 256


@given(st.text(max_size=300))
def test_every_thread_is_a_run_of_a_name_that_is_allowed(thread_id: str) -> None:
    assert parse_run_id(run_of_thread(thread_id))


def test_threads_that_cannot_name_a_run_are_kept_apart() -> None:
    names = {run_of_thread(thread) for thread in ("a b", "a_b", "a/b", "", run_of_thread("a b"))}
    assert len(names) == 5


@given(
    st.text(max_size=400), st.text(min_size=1, max_size=11), st.sampled_from([Kind.CHECKPOINT, Kind.WRITES])
)
def test_phase_says_what_a_record_is(namespace: str, checkpoint_id: str, kind: Kind) -> None:
    place = name_place(namespace, checkpoint_id)
    phase = format_phase(kind, place)

    assert len(phase) <= MOST_PHASE_CHARACTERS
    assert parse_phase(phase) == RecordName(kind, place)


@pytest.mark.parametrize("phase", ["phase_1_plan", "human review", "a b c d", ""])
def test_phases_of_others_are_passed_over(phase: str) -> None:
    assert parse_phase(phase) is None


def test_id_that_no_phase_can_hold_is_refused() -> None:
    with pytest.raises(InvalidCheckpoint, match="1 to 100"):
        name_place("", "x" * 101)
    with pytest.raises(InvalidCheckpoint):
        name_place("", "")


def test_deletion_has_no_place_of_its_own() -> None:
    assert parse_phase(format_phase(Kind.DELETED)) == RecordName(Kind.DELETED, Place("", "-"))
