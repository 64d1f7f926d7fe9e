"""The commands of a step: save, resume, drain, complete, cleanup, release."""

import json
import threading
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from pathlib import Path

from holdfast.action.claims import carry_on, release_claim, take_or_renew
from holdfast.action.handover import hand_over, take_in
from holdfast.action.inputs import Command, Inputs
from holdfast.action.job import Job
from holdfast.action.runner import StepOutcome, StoredFile, Table
from holdfast.errors import (
    Claimed,
    GatewayError,
    HoldfastError,
    SpoolBusy,
    Stopped,
    SweepBusy,
    Throttled,
    UnknownRun,
)
from holdfast.format.receipt import Progress, Receipt
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import join_members
from holdfast.presentation.exits import ExitCode, describe
from holdfast.presentation.render import format_count
from holdfast.presentation.session import Session
from holdfast.presentation.sweeps import COLUMNS, changes_of, size_of, sweep_rows
from holdfast.styles.resume import ResumePlan

CANCELLED = "the job was cancelled"
# Outputs travel with the job, which GitHub allows 1 MB in all.
MOST_PLAN_BYTES = 128 * 1024
_RECEIPT_COLUMNS = ("run", "#", "status", "file")
# The timeout is for limits and outages; a write that nothing hinders gets this much in any case.
_LEAST_WAIT_S = 5.0


@dataclass(frozen=True, slots=True)
class ActionStep:
    """One step: what it was told, the job it runs in, and the repository it works on."""

    inputs: Inputs
    job: Job
    session: Session
    cancelled: threading.Event

    def reason(self, known: str | None) -> str:
        """Return why something is unsent: what is `known`, else that the job was cancelled, if it was."""
        return known or (CANCELLED if self.cancelled.is_set() else "")


def save(step: ActionStep) -> StepOutcome:
    """Save a checkpoint and, unless told otherwise, see it verified in the repository."""
    carry_on(step.session, step.job, step.inputs.run_id)
    receipt = step.session.holdfast.submit(_checkpoint(step.inputs, step.job))
    return _see_through(receipt, step)


def complete(step: ActionStep) -> StepOutcome:
    """End the run with a final checkpoint; once that is in the repository, release its claim and clean up."""
    carry_on(step.session, step.job, step.inputs.run_id)
    receipt = step.session.holdfast.complete(step.inputs.run_id, step.inputs.status)
    outcome = _see_through(receipt, step, tidies=False)
    if outcome.outputs["status"] != Progress.VERIFIED:
        return outcome
    try:
        release_claim(step.session, step.job, step.inputs.run_id)
        facts = _clean_up(step.session, is_dry_run=False).facts
    except HoldfastError as error:
        facts = (f"Not cleaned up, the next cleanup will: {error}",)
    return replace(outcome, title=f"{step.inputs.run_id} is {step.inputs.status}", facts=facts)


def drain(step: ActionStep) -> StepOutcome:
    """Take in what earlier jobs handed over, if anything, and drain the spool."""
    holdfast, spool = step.session.holdfast, step.session.assembly.spool
    problems = take_in(step.session, step.inputs.spool_dir)
    waiting = spool.pending()
    try:
        reason = holdfast.drain(timeout_s=step.inputs.timeout_s).reason
    except (Stopped, SpoolBusy) as error:
        reason = str(error)
    receipts = [receipt for item in waiting if (receipt := holdfast.receipt(item.checkpoint_id))]
    verified = sum(receipt.status is Progress.VERIFIED for receipt in receipts)
    handover = hand_over(step.session, step.inputs.spool_dir, step.reason(reason))
    problems += handover.problems
    return StepOutcome(
        title=f"{format_count(verified)} verified, {handover.left:,} left",
        outputs={"status": "spooled" if handover.left else "verified", **handover.outputs},
        table=_table(receipts),
        problems=tuple(problems),
        code=ExitCode.WORK_LEFT if handover.left else ExitCode.FAILED if problems else ExitCode.DONE,
    )


def resume(step: ActionStep) -> StepOutcome:
    """Claim the run if asked to, find out where it goes on, and put its state into a file."""
    if not step.inputs.is_claiming:
        return _resume(step)
    try:
        claim = take_or_renew(step.session, step.job, step.inputs)
    except (Claimed, GatewayError) as error:
        return StepOutcome(
            title=f"{step.inputs.run_id} is not claimed",
            outputs={"claimed": "false", "status": "error"},
            problems=(f"This job must not go on with the run: {describe(error)}",),
            code=ExitCode.WORK_LEFT,
        )
    outcome = _resume(step)
    fact = f"Claimed with fence {claim.fence}, for {claim.ttl_s:g} s from each step on."
    outputs = {"claimed": "true", "claim-token": claim.token, "fence": str(claim.fence)}
    return replace(outcome, outputs=outcome.outputs | outputs, facts=(*outcome.facts, fact))


def _resume(step: ActionStep) -> StepOutcome:
    run_id = step.inputs.run_id
    try:
        plan = step.session.holdfast.resume(run_id)
    except UnknownRun:
        fact = "There is no checkpoint of this run yet: it begins at the beginning."
        return StepOutcome(title=f"nothing to resume for {run_id}", outputs={"found": "false"}, facts=(fact,))
    state_file = step.job.temp / "holdfast" / "resume" / run_id / "state.json"
    state_file.parent.mkdir(parents=True, exist_ok=True)
    state_file.write_bytes(plan.state_text)
    resumes = f"{run_id} resumes at {_place(plan) or 'an unknown place'}"
    completed = f"Completed: {', '.join(str(place) for place in plan.completed) or 'nothing'}."
    return StepOutcome(
        title=resumes if plan.resumable else f"{run_id} is {plan.status}",
        outputs=_resume_outputs(plan, state_file),
        facts=(completed, *plan.warnings),
    )


def cleanup(step: ActionStep) -> StepOutcome:
    """Clean up by the rules of retention, or only say what that would do."""
    try:
        return _clean_up(step.session, is_dry_run=step.inputs.is_dry_run)
    except (Throttled, SweepBusy, Stopped) as error:
        return StepOutcome(
            title="not everything is cleaned up",
            outputs={"status": "postponed"},
            problems=(f"The next cleanup goes on: {error}",),
            code=ExitCode.WORK_LEFT,
        )


def release(step: ActionStep) -> StepOutcome:
    """Let go of the run that this job has claimed, if it has."""
    run_id = step.inputs.run_id
    was_ours = release_claim(step.session, step.job, run_id)
    if was_ours is None:
        return StepOutcome(title=f"this job holds no claim of {run_id}", outputs={"status": "done"})
    if was_ours:
        return StepOutcome(title=f"{run_id} is released", outputs={"status": "done"})
    return StepOutcome(
        title=f"{run_id} was taken over",
        outputs={"status": "error"},
        problems=(f"Run {run_id!r} was not this job's any more: someone else had taken it over.",),
        code=ExitCode.FAILED,
    )


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


def _see_through(receipt: Receipt, step: ActionStep, *, tidies: bool = True) -> StepOutcome:
    """Wait for a checkpoint that is on disk to be verified, if asked to, and tell how far it has come."""
    inputs = step.inputs
    if inputs.is_waiting and receipt.status is not Progress.VERIFIED:
        timeout_s = max(inputs.timeout_s, _LEAST_WAIT_S)
        holdfast, checkpoint_id = step.session.holdfast, receipt.checkpoint_id
        receipt = holdfast.wait(checkpoint_id, timeout_s=timeout_s, tidies=tidies) or receipt
    is_done = receipt.status in (Progress.VERIFIED, Progress.DISABLED) or not inputs.is_waiting
    is_refused = receipt.status is Progress.REFUSED
    handover = hand_over(step.session, inputs.spool_dir, "" if is_refused else step.reason(receipt.reason))
    return StepOutcome(
        title=f"checkpoint {receipt.sequence_number} of {receipt.run_id} is {receipt.status}",
        outputs={
            "checkpoint-id": receipt.checkpoint_id,
            "sequence": str(receipt.sequence_number),
            "status": str(receipt.status),
            "file-path": receipt.file_path,
            **handover.outputs,
        },
        table=_table([receipt]),
        problems=() if is_done else handover.problems,
        code=ExitCode.DONE if is_done else ExitCode.FAILED if is_refused else ExitCode.WORK_LEFT,
    )


def _table(receipts: Iterable[Receipt]) -> Table:
    rows = [
        (
            receipt.run_id,
            str(receipt.sequence_number),
            str(receipt.status),
            StoredFile(receipt.file_path) if receipt.status is Progress.VERIFIED else receipt.file_path,
        )
        for receipt in receipts
    ]
    return Table(_RECEIPT_COLUMNS, tuple(rows))


def _resume_outputs(plan: ResumePlan, state_file: Path) -> dict[str, str]:
    return {
        "found": "true",
        "resumable": json.dumps(plan.resumable),
        "resume-at": _place(plan),
        "needs-review": json.dumps(plan.needs_review),
        "saved-at": plan.saved_at,
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
    values = plan.without_state()
    text = encode(values)
    if len(text) > MOST_PLAN_BYTES:
        values |= {"completed": [], "remaining": None, "warnings": ["the plan is too long for an output"]}
        text = encode(values)
    return text.decode()


def _clean_up(session: Session, *, is_dry_run: bool) -> StepOutcome:
    """Return what retention did or would do. Raises HoldfastError."""
    report = session.holdfast.cleanup(dry_run=is_dry_run)
    changes = changes_of(report, is_dry_run=is_dry_run)
    sentence = (
        f"{'Would delete' if is_dry_run else 'Deleted'} {size_of(changes)} of "
        f"{len(changes):,} of {format_count(len(report.plan.runs), 'run')}."
    )
    deleted = sum(len(run.delete) for run in changes)
    return StepOutcome(
        title="dry run of a cleanup" if is_dry_run else "cleanup",
        outputs={"status": "postponed" if report.rest_because else "done", "deleted": str(deleted)},
        table=Table(COLUMNS, tuple(sweep_rows(report, is_dry_run=is_dry_run))),
        facts=(sentence,),
        problems=(f"The next cleanup goes on: {report.rest_because}",) if report.rest_because else (),
        code=ExitCode.WORK_LEFT if report.rest_because else ExitCode.DONE,
    )


_COMMANDS: Mapping[Command, Callable[[ActionStep], StepOutcome]] = {
    Command.SAVE: save,
    Command.RESUME: resume,
    Command.DRAIN: drain,
    Command.COMPLETE: complete,
    Command.CLEANUP: cleanup,
    Command.RELEASE: release,
}


def carry_out(step: ActionStep) -> StepOutcome:
    """Do what the step asks for. Raises HoldfastError."""
    return _COMMANDS[step.inputs.command](step)
