"""What is saved: the specification's own checkpoint, with states of a known size, the same on every run."""

import json
import random
from typing import Any

State = dict[str, Any]

KILOBYTE = 1000
SIZES = {
    "5 KB": 5 * KILOBYTE,
    "10 KB": 10 * KILOBYTE,
    "50 KB": 50 * KILOBYTE,
    "140 KB": 140 * KILOBYTE,
    "5 MB": 5_000 * KILOBYTE,
}
_WORDS = (
    "plan",
    "build",
    "test",
    "gate",
    "review",
    "deploy",
    "cost",
    "token",
    "retry",
    "agent",
    "error",
    "note",
)


def make_state(name: str) -> State:
    """Return the state of one of the named sizes; 140 KB is one of a thousand tasks.

    >>> round(size_of(make_state("50 KB")) / 1000)
    50
    """
    source = random.Random(name)
    if name == "140 KB":
        return {
            "progress": {"style": "tasks", "tasks": {f"task-{n:04d}": _task(n, source) for n in range(1000)}}
        }
    state = _snapshot()
    outputs = state["phase_outputs"]["phase_1"]
    room = SIZES[name] - size_of(state)
    number = 0
    while room > 0:
        item = _item(source)
        outputs[f"item_{number:05d}"] = item
        room -= size_of(item) + len(f'"item_{number:05d}":,')
        number += 1
    return state


def make_checkpoint(state: State, *, checkpoint_id: str, run_id: str, sequence: int) -> State:
    """Return the specification's own checkpoint around a state: every field that it names.

    >>> list(make_checkpoint({}, checkpoint_id="an id", run_id="a run", sequence=1))[-2:]
    ['state_snapshot', 'context_fields']
    """
    return {
        "checkpoint_id": checkpoint_id,
        "run_id": run_id,
        "timestamp": f"2026-03-01T{sequence // 60 % 24:02d}:{sequence % 60:02d}:00.000Z",
        "trigger": "iteration",
        "phase": "phase_1_plan",
        "sequence_number": sequence,
        "state_snapshot": state,
        "context_fields": {
            "api_metrics": {
                "github": {"calls": 17, "latency_ms": 212.5},
                "openai": {"calls": 4, "latency_ms": 941},
            },
            "fallback_flags": {"openai": False, "search": True},
            "iteration_counts": {"gate_1": 2, "gate_2": 0},
            "warnings": ["the search API was slow"],
        },
    }


def size_of(value: Any) -> int:
    """Return how many bytes a value takes as compact JSON."""
    return len(encode(value))


def encode(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


def _snapshot() -> State:
    """Return a state with every member that the specification names; `phase_1` is there to be filled."""
    outputs: State = {f"phase_{number}": None for number in ("0", "0_5", *range(1, 9))}
    outputs |= {"phase_0": {"goal": "a plan for the release", "approved": True}, "phase_1": {}}
    return {
        "phase_outputs": outputs,
        "current_phase_state": {
            "phase": "phase_1_plan",
            "started_at": "2026-03-01T00:00:00.000Z",
            "progress": {"done": 3, "of": 7},
            "partial_output": None,
        },
        "gate_history": [
            {"gate_id": f"gate_{number}", "decision": "pass", "score": 0.875, "iteration": 1}
            for number in range(3)
        ],
        "circuit_breaker_state": {"openai": {"state": "closed", "failures": 0}},
        "cost_accumulated": 12.75,
        "health_history": [{"phase": "phase_0", "status": "healthy", "latency_ms": 120}],
        "errors_encountered": [{"phase": "phase_0", "message": "a call was repeated", "fatal": False}],
        "active_lessons": ["prefer small changes", "test before you deploy"],
    }


def _task(number: int, source: random.Random) -> State:
    moment = f"2026-03-01T{number // 60 % 24:02d}:{number % 60:02d}:00Z"
    status = "completed" if number < 700 else "pending"
    return {
        "status": status,
        "started_at": moment,
        "completed_at": moment,
        "error": None,
        "owner": source.choice(_WORDS),
    }


def _item(source: random.Random) -> State:
    return {
        "summary": " ".join(source.choices(_WORDS, k=12)),
        "score": round(source.random(), 6),
        "tokens": source.randrange(100_000),
        "is_final": source.random() < 0.5,
        "labels": source.choices(_WORDS, k=4),
    }
