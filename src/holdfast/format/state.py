"""The state of a run as the specification describes it: what is known of it is checked, all else let through.

The stored bytes are the caller's own, so that nothing is altered on the way.
"""

from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

Place = tuple[str | int, ...]
Fault = tuple[Place, str]
"""Where something is wrong, and what."""

# Every save asks, and almost none has a fault: no place is spelled out before there is one.
_NONE: Sequence[Fault] = ()


class _Shape(NamedTuple):
    """What a value must be like. `find` returns what is wrong, each place told from that value on.

    Of values whose very type is among `sound`, nothing needs to be asked.
    """

    find: Callable[[Any], Sequence[Fault]]
    sound: frozenset[type] = frozenset()


def _is(*kinds: type, reason: str) -> _Shape:
    def find(value: object) -> Sequence[Fault]:
        return _NONE if isinstance(value, kinds) and not isinstance(value, bool) else [((), reason)]

    return _Shape(find, frozenset(kinds))


def _members(**shapes: _Shape) -> _Shape:
    """Return the shape of an object of which some members are known; each may be left out, or null."""

    def find(value: object) -> Sequence[Fault]:
        if not isinstance(value, (dict, Mapping)):  # the first is much the quicker to tell
            return [((), "Input should be a valid dictionary")]
        faults: list[Fault] = []
        for name, shape in shapes.items():
            member = value.get(name)
            if member is None or type(member) in shape.sound:
                continue
            if found := shape.find(member):
                faults += within(name, found)
        return faults

    return _Shape(find)


def _each(shape: _Shape) -> _Shape:
    def find(value: object) -> Sequence[Fault]:
        if not isinstance(value, list):
            return [((), "Input should be a valid list")]
        faults: list[Fault] = []
        for number, element in enumerate(value):
            if found := shape.find(element):
                faults += within(number, found)
        return faults

    return _Shape(find)


def within(step: str | int, faults: Sequence[Fault]) -> list[Fault]:
    """Return the same faults, each place told from one step further out.

    >>> within("gate_history", [((0, "score"), "use a number")])
    [(('gate_history', 0, 'score'), 'use a number')]
    """
    return [((step, *place), reason) for place, reason in faults]


_string = _is(str, reason="Input should be a valid string")
_integer = _is(int, reason="Input should be a valid integer")
_number = _is(int, float, reason="use a number")
_object = _is(dict, reason="Input should be a valid dictionary")
_list = _is(list, reason="Input should be a valid list")

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
).find
"""What is wrong with a state, and where."""

find_faults_of_context = _members(
    api_metrics=_object, fallback_flags=_object, iteration_counts=_object, warnings=_list
).find
"""What is wrong with what surrounds a state, which says how the run has been going."""
