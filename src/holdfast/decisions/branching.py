"""Going on from an older checkpoint: in the same run, or as another one."""

from holdfast.decisions.carrying import carry_on
from holdfast.format.checkpoint import Envelope
from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.styles.resume import trigger_in_force


def write_rollback(target: Envelope, note: str | None) -> bytes:
    """Return the checkpoint that carries an older one's state on, so that the run goes on from there.

    `context_fields.rollback` names that one, and its trigger, which says where the run goes on.
    """
    header = target.header
    back_to = {
        "checkpoint_id": target.checkpoint_id,
        "sequence_number": target.sequence,
        "trigger": trigger_in_force(target),
        "note": note,
    }
    own = {
        "run_id": header.run_id,
        "trigger": Trigger.ROLLBACK,
        "phase": header.phase,
        "status": RunStatus.IN_PROGRESS,
        "workflow": header.workflow,
    }
    return carry_on(target, own, context={"rollback": back_to})


def ends_run(envelope: Envelope) -> bool:
    """Whether a checkpoint is the review that has stopped its run."""
    return envelope.header.trigger is Trigger.REVIEW and envelope.header.status is RunStatus.FAILED


def write_fork(source: Envelope, run_id: str) -> bytes:
    """Return the first checkpoint of another run, which goes on where the source does and names it."""
    header = source.header
    own = {
        "run_id": run_id,
        "trigger": Trigger.MANUAL if header.trigger is Trigger.RUN_COMPLETE else header.trigger,
        "phase": header.phase,
        "status": RunStatus.IN_PROGRESS,
        "workflow": header.workflow,
    }
    origin = {"run_id": header.run_id, "checkpoint_id": source.checkpoint_id}
    return carry_on(source, own, others={"forked_from": origin}, keeps_decision=True)
