"""The state of a run as the specification describes it: what is known of it is checked, all else let through.

The stored bytes are the caller's own, so that nothing is altered on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any

Place = tuple[str | int, ...]
Fault = tuple[Place, str]
"""Where something is wrong, and what."""

_Shape = Callable[[Any], Sequence[Fault]]
"""Returns what is wrong with a value, each place told from that value on."""

# Every save asks, and almost none has a fault: no place is spelled out before there is one.
_NONE: Sequence[Fault] = ()


def _is(kind: type, name: str) -> _Shape:
    def find(value: object) -> Sequence[Fault]:
        if isinstance(value, kind) and not (kind is int and isinstance(value, bool)):
            return _NONE
        return [((), f"Input should be a valid {name}")]

    return find


def _number(value: object) -> Sequence[Fault]:
    if isinstance(value, (int, float)) and not isinstance(value, bool):
        return _NONE
    return [((), "use a number")]


def _members(**shapes: _Shape) -> _Shape:
    """Return the shape of an object of which some members are known; each may be left out, or null."""

    def find(value: object) -> Sequence[Fault]:
        if not isinstance(value, (dict, Mapping)):  # the first is much the quicker to tell
            return [((), "Input should be a valid dictionary")]
        faults: list[Fault] = []
        for name, shape in shapes.items():
            member = value.get(name)
            if member is not None and (found := shape(member)):
                faults += within(name, found)
        return faults

    return find


def _each(shape: _Shape) -> _Shape:
    def find(value: object) -> Sequence[Fault]:
        if not isinstance(value, list):
            return [((), "Input should be a valid list")]
        faults: list[Fault] = []
        for number, element in enumerate(value):
            if found := shape(element):
                faults += within(number, found)
        return faults

    return find


def within(step: str | int, faults: Sequence[Fault]) -> list[Fault]:
    """Return the same faults, each place told from one step further out.

    >>> within("gate_history", [((0, "score"), "use a number")])
    [(('gate_history', 0, 'score'), 'use a number')]
    """
    return [((step, *place), reason) for place, reason in faults]


_string, _integer = _is(str, "string"), _is(int, "integer")
_object, _list = _is(dict, "dictionary"), _is(list, "list")

find_faults_of_state = _members(
    phase_outputs=_object,
    current_phase_state=_members(phase=_string, started_at=_string, progress=_object),
    gate_history=_each(_members(gate_id=_string, decision=_string, score=_number, iteration=_integer)),
    circuit_breaker_state=_object,
    cost_accumulated=_number,
    health_history=_list,
    errors_encountered=_list,
    active_lessons=_list,
    progress=_object,
)
"""What is wrong with a state, and where."""

find_faults_of_context = _members(
    api_metrics=_object, fallback_flags=_object, iteration_counts=_object, warnings=_list
)
"""What is wrong with what surrounds a state, which says how the run has been going."""
