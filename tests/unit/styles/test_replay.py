import json
from typing import Any

from holdfast.styles.replay import Story, replay
from tests.fakes.saved import stamped


def agents_state(*decisions: str, phase: int = 1) -> dict[str, Any]:
    return {
        "progress": {"style": "agents", "phase": phase, "decisions": [{"description": d} for d in decisions]}
    }


def test_each_scene_tells_the_decisions_and_changes_since_the_one_before() -> None:
    first, second, third = replay(
        [
            stamped(agents_state("begin"), sequence=1),
            stamped(agents_state("begin", "spawn"), sequence=2),
            stamped(agents_state("begin", "spawn", phase=2), sequence=3, trigger="phase_complete"),
        ]
    )

    assert [len(scene.decisions) for scene in (first, second, third)] == [1, 1, 0]
    assert second.decisions[0]["description"] == "spawn"
    assert [change.pointer for change in third.changes] == ["/progress/phase"]
    assert third.header.trigger == "phase_complete"


def test_decisions_at_gates_are_decisions_and_equal_ones_count_each() -> None:
    gate = {"gate_id": "g", "decision": "iterate", "score": 0.5}
    scenes = list(
        replay(
            [
                stamped({"gate_history": [gate]}, sequence=1),
                stamped({"gate_history": [gate, gate]}, sequence=2),
            ]
        )
    )

    assert [len(scene.decisions) for scene in scenes] == [1, 1]


def test_state_of_any_kind_can_be_told() -> None:
    scenes = list(replay([stamped(1, sequence=1), stamped([2], sequence=2), stamped(None, sequence=3)]))

    assert [change.operation for scene in scenes for change in scene.changes] == ["replace"] * 3


def test_story_is_told_with_numbers_as_written() -> None:
    envelope = stamped({"a": 1})
    exact = type(envelope)(envelope.header, envelope.content.replace(b'{"a":1}', b'{"a":1.10}'))

    text = Story("r", list(replay([exact])), ["cp_002: damaged"]).to_bytes()

    assert b'{"op":"add","path":"/a","value":1.10}' in text
    assert json.loads(text)["warnings"] == ["cp_002: damaged"]
    assert json.loads(text)["checkpoints"][0]["sequence"] == 1
