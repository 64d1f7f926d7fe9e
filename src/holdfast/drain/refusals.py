"""What follows from a refusal: which checkpoints are quarantined, what is tried in halves, what must wait."""

from dataclasses import dataclass, replace

from holdfast.drain.chunks import CommitStep, SinglesStep, Step
from holdfast.errors import Refused
from holdfast.format.paths import Layout
from holdfast.format.receipt import QueueItem

# GitHub refuses this one content, or this one file; every other checkpoint may go on.
_ABOUT_CONTENT = frozenset({"secret_detected", "rules", "invalid"})
_OBSTRUCTED = "obstructed"


@dataclass(frozen=True, slots=True)
class Quarantine:
    """These checkpoints are what GitHub will not take; the others of the step may be tried again."""

    items: tuple[QueueItem, ...]


@dataclass(frozen=True, slots=True)
class Divide:
    """One of the checkpoints is at fault, nobody knows which: the step is tried again as these."""

    steps: tuple[Step, ...]


@dataclass(frozen=True, slots=True)
class Isolate:
    """Something in the folder of this run is in the way: it waits, and every other run goes on."""

    run_id: str


@dataclass(frozen=True, slots=True)
class Halt:
    """No checkpoint is at fault, but a setting, a permission or a proxy: nothing can be written."""


def judge_refusal(step: Step, error: Refused, layout: Layout) -> Quarantine | Divide | Isolate | Halt:
    """Return what to do about a step that GitHub refuses; its items have the numbers they were sent with."""
    if error.kind == _OBSTRUCTED:
        return _isolate_run(step, error, layout)
    if error.kind not in _ABOUT_CONTENT:
        return Halt()
    culprits = tuple(
        item
        for item in step.items
        if layout.checkpoint_path(item.run_id, item.sequence, item.trigger) == error.path
    )
    is_part = layout.is_part(error.path)
    if is_part and len(step.items) == 1:
        culprits = step.items
    if culprits:
        return Quarantine(culprits)
    if is_part or not isinstance(step, SinglesStep):
        return Divide(_halves(step))
    return _isolate_run(step, error, layout)


def _isolate_run(step: Step, error: Refused, layout: Layout) -> Divide | Isolate | Halt:
    """Return that the run of the refused path waits; if nobody knows which one that is, find it by halves."""
    run_id, _ = layout.parse_path(error.path)
    if run_id in step.run_ids:
        return Isolate(run_id)
    if len(step.run_ids) > 1:
        return Divide(_halves(step))
    return Isolate(next(iter(step.run_ids))) if isinstance(step, CommitStep) else Halt()


def _halves(step: Step) -> tuple[Step, ...]:
    """Return the step as two; one checkpoint by itself becomes a file of its own."""
    middle = (len(step.items) + 1) // 2
    halves = [half for half in (step.items[:middle], step.items[middle:]) if half]
    return tuple(
        replace(step, items=half) if len(half) > 1 else SinglesStep(half[0].run_id, half) for half in halves
    )
