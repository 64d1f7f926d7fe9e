"""Every sample loads, and its plan is the one that a reader of the sample would make."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.format.checkpoint import draft_from_text, stamp
from holdfast.styles.known import STYLES
from holdfast.styles.resume import plan_resume

CHECKPOINTS = Path(__file__).parents[2] / "fixtures/checkpoints"

# where it goes on, whether that was begun before, how many units are completed, whether a person is warned
PLANS: dict[str, tuple[Any, bool, int, bool]] = {
    "agents/active": (2, False, 1, False),
    "agents/blocked": (2, False, 1, True),
    "agents/completed": (4, False, 4, False),
    "agents/failed": (2, True, 1, False),
    "agents/given_up": (2, False, 1, True),
    "layers/after_layer": (2, False, 3, False),
    "layers/all_layers": (4, False, 6, False),
    "layers/failed": (2, True, 3, False),
    "layers/first_layer": (1, False, 1, False),
    "layers/within_layer": (1, True, 2, False),
    "phases/circuit_breaker": ("human_review", False, 5, True),
    "phases/cost_threshold": ("phase_4_build", True, 5, False),
    "phases/destructive_op": ("phase_4_build", True, 5, False),
    "phases/escalation": ("human_review", False, 4, True),
    "phases/expensive_op": ("phase_4_build", True, 5, False),
    "phases/gate_decision": ("phase_1_requirements_gate", False, 3, False),
    "phases/iteration": ("phase_3_design", True, 4, False),
    "phases/manual": ("phase_1_requirements", True, 2, False),
    "phases/phase_complete": ("phase_3", False, 4, False),
    "phases/phase_complete_last": ("complete", False, 10, False),
    "phases/phase_complete_named": ("phase_3_design", False, 4, False),
    "phases/run_complete": ("complete", False, 10, False),
    "steps/before_step": (2, True, 2, False),
    "steps/completed": (3, False, 3, False),
    "steps/failed_for_good": (3, False, 3, True),
    "steps/failed_retryable": (3, True, 3, False),
    "steps/interrupted": (2, True, 2, False),
    "steps/interrupted_between": (2, False, 2, False),
    "steps/iterative": (1, True, 1, False),
    "steps/mapreduce": (1, True, 1, False),
    "steps/run_complete": (5, False, 5, False),
    "tasks/completed": (None, False, 4, False),
    "tasks/failed": ("compile", True, 2, False),
    "tasks/in_progress": ("compile", True, 2, False),
    "tasks/interrupted": ("compile", True, 2, False),
    "tasks/pending": ("fetch-dependencies", False, 0, False),
}


def test_every_sample_has_a_plan_and_every_style_has_samples() -> None:
    found = {f"{path.parent.name}/{path.stem}" for path in CHECKPOINTS.rglob("*.json")}

    assert found == set(PLANS)
    assert {name.split("/")[0] for name in found} == set(STYLES)


@pytest.mark.parametrize("name", sorted(PLANS))
def test_sample_is_planned(name: str) -> None:
    text = (CHECKPOINTS / f"{name}.json").read_bytes()
    draft = draft_from_text(text, now="2026-11-16T10:00:00Z", new_id=str)

    plan = plan_resume(stamp(draft.body(draft.sequence or 0)))

    resume_at, is_repeated, completed, is_warned = PLANS[name]
    assert (plan.resume_at, plan.retry_current, len(plan.completed)) == (resume_at, is_repeated, completed)
    assert bool(plan.warnings) is is_warned
    assert plan.resumable is (plan.status != "completed")
    assert plan.state == json.loads(text)["state_snapshot"]
    assert not set(plan.completed) & set(plan.remaining or [])
