"""The commands that write: save, drain and complete. What cannot be written now is handed over."""

from collections.abc import Iterable

from holdfast.action.cleaning import clean_up
from holdfast.action.handover import hand_over, take_in
from holdfast.action.inputs import Inputs
from holdfast.action.job import Job
from holdfast.action.outcome import StepOutcome, StoredFile, Table
from holdfast.action.step import ActionStep
from holdfast.errors import HoldfastError, SpoolBusy, Stopped
from holdfast.format.receipt import Progress, Receipt
from holdfast.jsontext.encode import encode
from holdfast.jsontext.members import join_members
from holdfast.presentation.exits import ExitCode
from holdfast.presentation.render import format_count

_COLUMNS = ("run", "#", "status", "file")
# The timeout is for limits and outages; a write that nothing hinders gets this much in any case.
_LEAST_WAIT_S = 5.0


def save(step: ActionStep) -> StepOutcome:
    """Save a checkpoint and, unless told otherwise, see it verified in the repository."""
    receipt = step.session.holdfast.submit(_checkpoint(step.inputs, step.job))
    return _see_through(receipt, step)


def complete(step: ActionStep) -> StepOutcome:
    """End the run with a final checkpoint; once that is in the repository, clean up."""
    receipt = step.session.holdfast.complete(step.inputs.run_id, step.inputs.status)
    outcome = _see_through(receipt, step)
    if outcome.outputs["status"] != Progress.VERIFIED:
        return outcome
    try:
        facts = clean_up(step.session, is_dry_run=False).facts
    except HoldfastError as error:
        facts = (f"Not cleaned up, the next cleanup will: {error}",)
    return StepOutcome(
        f"{step.inputs.run_id} is {step.inputs.status}",
        outcome.outputs,
        outcome.table,
        facts,
        outcome.problems,
    )


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


def _see_through(receipt: Receipt, step: ActionStep) -> StepOutcome:
    """Wait for a checkpoint that is on disk to be verified, if asked to, and tell how far it has come."""
    inputs = step.inputs
    if inputs.is_waiting and receipt.status is not Progress.VERIFIED:
        timeout_s = max(inputs.timeout_s, _LEAST_WAIT_S)
        receipt = step.session.holdfast.wait(receipt.checkpoint_id, timeout_s=timeout_s) or receipt
    is_done = receipt.status is Progress.VERIFIED or not inputs.is_waiting
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
    return Table(_COLUMNS, tuple(rows))
