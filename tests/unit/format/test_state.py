"""What is known of a state is checked, place by place; everything else passes."""

from typing import Any

import pytest

from holdfast.format.state import find_faults_of_context, find_faults_of_state

STRING, LIST, OBJECT = "a valid string", "a valid list", "a valid dictionary"


@pytest.mark.parametrize(
    "state",
    [
        {},
        {"anything": object()},
        {"phase_outputs": None, "gate_history": None, "cost_accumulated": None},
        {"phase_outputs": {"phase_1": 1}, "cost_accumulated": 0.5, "progress": {"style": 7}},
        {"gate_history": [{"gate_id": "g", "decision": "pass", "score": 1, "iteration": 2, "more": []}, {}]},
        {"current_phase_state": {"phase": "p", "started_at": None, "partial_output": 5}},
    ],
)
def test_what_the_specification_allows_has_no_flaw(state: dict[str, Any]) -> None:
    assert list(find_faults_of_state(state)) == []


@pytest.mark.parametrize(
    ("state", "place", "reason"),
    [
        ({"phase_outputs": []}, ("phase_outputs",), OBJECT),
        ({"current_phase_state": "p"}, ("current_phase_state",), OBJECT),
        ({"current_phase_state": {"phase": 5}}, ("current_phase_state", "phase"), STRING),
        ({"current_phase_state": {"progress": 5}}, ("current_phase_state", "progress"), OBJECT),
        ({"gate_history": {}}, ("gate_history",), LIST),
        ({"gate_history": [{}, 5]}, ("gate_history", 1), OBJECT),
        ({"gate_history": [{"iteration": True}]}, ("gate_history", 0, "iteration"), "a valid integer"),
        ({"gate_history": [{"score": "1"}]}, ("gate_history", 0, "score"), "a number"),
        ({"gate_history": [{"decision": True}]}, ("gate_history", 0, "decision"), STRING),
        ({"cost_accumulated": True}, ("cost_accumulated",), "a number"),
        ({"health_history": ()}, ("health_history",), LIST),
        ({"active_lessons": "x"}, ("active_lessons",), LIST),
        ({"errors_encountered": {}}, ("errors_encountered",), LIST),
        ({"circuit_breaker_state": "open"}, ("circuit_breaker_state",), OBJECT),
        ({"progress": []}, ("progress",), OBJECT),
    ],
)
def test_a_flaw_has_its_place_and_its_reason(state: Any, place: tuple[str | int, ...], reason: str) -> None:
    ((found, why),) = find_faults_of_state(state)

    assert found == place
    assert reason in why


def test_every_flaw_is_told() -> None:
    context = {"api_metrics": 1, "fallback_flags": 2, "iteration_counts": 3, "warnings": {}}

    assert [place for place, _ in find_faults_of_context(context)] == [(name,) for name in context]
    assert list(find_faults_of_context({"warnings": ["w"], "own": 1})) == []
