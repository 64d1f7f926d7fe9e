"""What each command of the step does with the library, and what it tells of it."""

import json
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from pathlib import Path

from holdfast.action.handover import hand_over, take_in
from holdfast.action.inputs import Command, Inputs
from holdfast.action.job import Job
from holdfast.action.outcome import Outcome, Row
from holdfast.cli.exits import ExitCode
from holdfast.cli.render import format_count
from holdfast.cli.session import Session
from holdfast.core.encoding import encode, join_members
from holdfast.core.resume import ResumePlan
from holdfast.core.ticket import Progress, Receipt
from holdfast.errors import Stopped, UnknownRun

# A step's outputs travel with the job; what is larger stays in the file.
MOST_PLAN_BYTES = 256 * 1024


@dataclass(frozen=True, slots=True)
class Step:
    """All that a command works with."""

    inputs: Inputs
    job: Job
    session: Session


def carry_out(step: Step) -> Outcome:
    """Do what the step asks for. Raises HoldfastError, WrongUse."""
    return _COMMANDS[step.inputs.command](step)


def save(step: Step) -> Outcome:
    """Save a checkpoint and, unless told otherwise, see it verified in the repository."""
    inputs, holdfast = step.inputs, step.session.holdfast
    receipt = holdfast.submit(_checkpoint(inputs, step.job))
    if inputs.is_waiting:
        receipt = holdfast.wait(receipt.checkpoint_id, timeout_s=inputs.timeout_s) or receipt
    return _tell_saved(receipt, step)


def drain(step: Step) -> Outcome:
    """Take in what an earlier job handed over, if anything, and drain the spool."""
    holdfast, spool = step.session.holdfast, step.session.assembly.spool
    problems = take_in(step.session, step.inputs.spool_dir)
    waiting = spool.pending()
    try:
        result = holdfast.drain(timeout_s=step.inputs.timeout_s)
        verified, reason = result.verified, result.reason
    except Stopped as error:
        verified, reason = len(waiting) - len(spool.pending()), str(error)
    receipts = [receipt for ticket in waiting if (receipt := holdfast.receipt(ticket.checkpoint_id))]
    handover = hand_over(step.session, step.inputs.spool_dir, reason)
    problems += handover.problems
    return Outcome(
        title=f"{format_count(verified)} verified, {handover.left:,} left in the spool",
        outputs={"status": "spooled" if handover.left else "verified", **handover.outputs},
        rows=tuple(_row(receipt) for receipt in receipts),
        problems=tuple(problems),
        code=ExitCode.WORK_LEFT if handover.left else ExitCode.FAILED if problems else ExitCode.DONE,
    )


def resume(step: Step) -> Outcome:
    """Find out where the run goes on, and put its state into a file."""
    run_id = step.inputs.run_id
    try:
        plan = step.session.holdfast.resume(run_id)
    except UnknownRun:
        fact = "There is no checkpoint of this run yet: it begins at the beginning."
        return Outcome(title=f"nothing to resume for {run_id}", outputs={"found": "false"}, facts=(fact,))
    state_file = step.job.temp / "holdfast" / "resume" / run_id / "state.json"
    state_file.parent.mkdir(parents=True, exist_ok=True)
    state_file.write_bytes(plan.state_text)
    facts = [f"Completed: {', '.join(str(place) for place in plan.completed) or 'nothing'}.", *plan.warnings]
    return Outcome(
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


def _checkpoint(inputs: Inputs, job: Job) -> bytes:
    """Return the checkpoint in its short form, with the state's bytes as they were given."""
    header: dict[str, object] = {
        "run_id": inputs.run_id,
        "trigger": inputs.trigger,
        "phase": inputs.phase or None,
        "status": inputs.status or None,
        "workflow": job.workflow or None,
        "context_fields": {"github_actions": job.context()},
    }
    texts = {name: encode(value, name) for name, value in header.items() if value is not None}
    return join_members({**texts, "state": inputs.state})


def _tell_saved(receipt: Receipt, step: Step) -> Outcome:
    is_done = receipt.status is Progress.VERIFIED or not step.inputs.is_waiting
    handover = hand_over(step.session, step.inputs.spool_dir, receipt.reason or "")
    code = ExitCode.FAILED if receipt.status is Progress.REFUSED else ExitCode.WORK_LEFT
    return Outcome(
        title=f"checkpoint {receipt.sequence_number} of {receipt.run_id} is {receipt.status}",
        outputs={
            "checkpoint-id": receipt.checkpoint_id,
            "sequence": str(receipt.sequence_number),
            "status": str(receipt.status),
            "file-path": receipt.file_path,
            **handover.outputs,
        },
        rows=(_row(receipt, step.inputs.phase),),
        problems=() if is_done else handover.problems,
        code=ExitCode.DONE if is_done else code,
    )


def _row(receipt: Receipt, phase: str = "") -> Row:
    trigger = receipt.file_path.rpartition("/")[2].removesuffix(".json").split("_", 2)[-1]
    return Row(
        receipt.run_id,
        str(receipt.sequence_number),
        trigger,
        phase,
        str(receipt.status),
        receipt.file_path,
    )


_COMMANDS: Mapping[Command, Callable[[Step], Outcome]] = {
    Command.SAVE: save,
    Command.RESUME: resume,
    Command.DRAIN: drain,
}
