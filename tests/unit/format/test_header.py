from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.header import FENCE, UNNAMED_PHASE, RunStatus, check_header, header_values, read_header
from holdfast.format.triggers import Priority, Trigger

GIVEN: dict[str, Any] = {
    "checkpoint_id": "b5be10ba-b8d3-4cb7-a05b-5677bf833375",
    "run_id": "build-42",
    "timestamp": "2026-03-01T00:00:00.000Z",
    "trigger": "manual",
    "priority": "medium",
}


def test_what_is_left_out_has_its_default() -> None:
    header = check_header(GIVEN)

    assert (header.trigger, header.priority) == (Trigger.MANUAL, Priority.MEDIUM)
    assert (header.phase, header.status, header.workflow) == (UNNAMED_PHASE, RunStatus.IN_PROGRESS, None)
    assert (header.sequence_number, header.fence) == (None, None)


def test_null_is_as_good_as_left_out_and_other_members_are_none_of_the_header() -> None:
    values = header_values({**GIVEN, "workflow": None, FENCE: 3, "state": {"answer": 42}})

    assert values == {**GIVEN, FENCE: 3}


@pytest.mark.parametrize("missing", sorted(GIVEN))
def test_what_must_be_there_is_asked_for_by_name(missing: str) -> None:
    rest = {name: value for name, value in GIVEN.items() if name != missing}

    with pytest.raises(InvalidCheckpoint, match=f"{missing}: Field required"):
        check_header(rest)


def test_every_fault_is_named_the_first_one_first() -> None:
    with pytest.raises(InvalidCheckpoint) as refused:
        check_header({**GIVEN, "phase": "", FENCE: 0})

    assert str(refused.value).startswith("phase: String should have at least 1 character; fence: ")


def test_a_newer_format_asks_for_an_upgrade() -> None:
    with pytest.raises(InvalidCheckpoint, match="newer than this Holdfast reads"):
        check_header({**GIVEN, "format_version": 99})


def test_a_state_that_looks_like_the_end_of_the_header_does_not_confuse() -> None:
    told = {**GIVEN, "phase": ',"state_snapshot":', "workflow": '","state_snapshot":{"', "state": {}}
    body = draft_from_mapping(told, now=GIVEN["timestamp"], new_id=str).body(3)

    header = read_header(body)

    assert header.phase == ',"state_snapshot":'
    assert header.workflow == '","state_snapshot":{"'
