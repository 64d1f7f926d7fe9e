"""The command resume: where the run goes on, in outputs and in a file."""

import json
from pathlib import Path

from holdfast.action.outcome import StepOutcome
from holdfast.action.step import ActionStep
from holdfast.errors import UnknownRun
from holdfast.jsontext.encode import encode
from holdfast.styles.resume import ResumePlan

# Outputs travel with the job, which GitHub allows 1 MB in all.
MOST_PLAN_BYTES = 128 * 1024


def resume(step: ActionStep) -> StepOutcome:
    """Find out where the run goes on, and put its state into a file."""
    run_id = step.inputs.run_id
    try:
        plan = step.session.holdfast.resume(run_id)
    except UnknownRun:
        fact = "There is no checkpoint of this run yet: it begins at the beginning."
        return StepOutcome(title=f"nothing to resume for {run_id}", outputs={"found": "false"}, facts=(fact,))
    state_file = step.job.temp / "holdfast" / "resume" / run_id / "state.json"
    state_file.parent.mkdir(parents=True, exist_ok=True)
    state_file.write_bytes(plan.state_text)
    facts = [f"Completed: {', '.join(str(place) for place in plan.completed) or 'nothing'}.", *plan.warnings]
    return StepOutcome(
        title=f"{run_id} resumes at {_place(plan) or 'an unknown place'}"
        if plan.resumable
        else f"{run_id} is {plan.status}",
        outputs=_resume_outputs(plan, state_file),
        facts=tuple(facts),
    )


def _resume_outputs(plan: ResumePlan, state_file: Path) -> dict[str, str]:
    return {
        "found": "true",
        "resumable": json.dumps(plan.resumable),
        "resume-at": _place(plan),
        "checkpoint-id": plan.checkpoint_id,
        "sequence": str(plan.sequence_number),
        "status": str(plan.status),
        "state-file": str(state_file),
        "plan": _plan_text(plan),
    }


def _place(plan: ResumePlan) -> str:
    return "" if plan.resume_at is None else str(plan.resume_at)


def _plan_text(plan: ResumePlan) -> str:
    """Return the plan as JSON on one line, without the state, which has its file."""
    values = plan.to_mapping()
    del values["state"]
    text = encode(values)
    if len(text) > MOST_PLAN_BYTES:
        values |= {"completed": [], "remaining": None, "warnings": ["the plan is too long for an output"]}
        text = encode(values)
    return text.decode()
