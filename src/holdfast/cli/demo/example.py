"""The example run of the demo: a workflow of phases whose circuit breaker trips while it builds."""

from dataclasses import dataclass
from typing import Any

CRASH_CHECKPOINTS = 24


@dataclass(frozen=True, slots=True)
class Moment:
    """What one checkpoint of the example is saved with."""

    trigger: str
    phase: str
    state: dict[str, Any]
    status: str = "in_progress"


_PLAN = {"phase_1_plan": {"goal": "a landing page", "tasks": 7}}
_DESIGN = {**_PLAN, "phase_2_design": {"pages": ["home", "pricing"], "palette": ["#0b3954", "#ff6663"]}}
_GATE = {"gate_id": "design_review", "decision": "approve", "score": 0.93, "iteration": 1}

EXAMPLE = (
    Moment("phase_complete", "phase_1_plan", {"phase_outputs": _PLAN, "cost_accumulated": 0.12}),
    Moment(
        "gate_decision",
        "phase_2_design",
        {"phase_outputs": _PLAN, "gate_history": [_GATE], "cost_accumulated": 0.31},
    ),
    Moment(
        "phase_complete",
        "phase_2_design",
        {"phase_outputs": _DESIGN, "gate_history": [_GATE], "cost_accumulated": 0.44},
    ),
    Moment(
        "iteration",
        "phase_3_build",
        {
            "phase_outputs": _DESIGN,
            "current_phase_state": {"phase": "phase_3_build", "progress": {"files_done": 3, "files": 11}},
            "gate_history": [_GATE],
            "cost_accumulated": 1.07,
        },
    ),
    Moment(
        "circuit_breaker",
        "phase_3_build",
        {
            "phase_outputs": _DESIGN,
            "current_phase_state": {"phase": "phase_3_build", "progress": {"files_done": 4, "files": 11}},
            "gate_history": [_GATE],
            "circuit_breaker_state": {
                "is_open": True,
                "failures": 3,
                "reason": "the build failed three times",
            },
            "errors_encountered": [{"phase": "phase_3_build", "message": "npm exited with 1"}],
            "cost_accumulated": 1.19,
        },
        status="interrupted",
    ),
)


def crash_moment(number: int) -> Moment:
    """Return the checkpoint of that number, from 1 on, of the run whose draining process is killed."""
    progress = {"files_done": number, "files": CRASH_CHECKPOINTS}
    return Moment(
        "iteration",
        "phase_3_build",
        {
            "current_phase_state": {"phase": "phase_3_build", "progress": progress},
            "cost_accumulated": number / 8,
        },
    )
