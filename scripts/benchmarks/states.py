"""The states that are saved: like those of real workflows, of a known size, the same on every run."""

import json
import random
from typing import Any

State = dict[str, Any]

KILOBYTE = 1000
SIZES = {"5 KB": 5 * KILOBYTE, "50 KB": 50 * KILOBYTE, "140 KB": 140 * KILOBYTE, "5 MB": 5_000 * KILOBYTE}
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
    outputs: State = {}
    state = {"phase_outputs": {"phase_1": outputs}, "cost_accumulated": 12.5, "gate_history": []}
    room = SIZES[name] - size_of(state)
    number = 0
    while room > 0:
        item = _item(source)
        outputs[f"item_{number:05d}"] = item
        room -= size_of(item) + len(f'"item_{number:05d}":,')
        number += 1
    return state


def size_of(value: Any) -> int:
    """Return how many bytes a value takes as compact JSON."""
    return len(encode(value))


def encode(value: Any) -> bytes:
    """Return a value as compact JSON."""
    return json.dumps(value, separators=(",", ":")).encode()


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
