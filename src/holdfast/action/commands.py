"""The commands of the step, by name."""

from collections.abc import Callable, Mapping

from holdfast.action.cleaning import cleanup
from holdfast.action.inputs import Command
from holdfast.action.outcome import StepOutcome
from holdfast.action.resuming import resume
from holdfast.action.saving import complete, drain, save
from holdfast.action.step import ActionStep

_COMMANDS: Mapping[Command, Callable[[ActionStep], StepOutcome]] = {
    Command.SAVE: save,
    Command.RESUME: resume,
    Command.DRAIN: drain,
    Command.COMPLETE: complete,
    Command.CLEANUP: cleanup,
}


def carry_out(step: ActionStep) -> StepOutcome:
    """Do what the step asks for. Raises HoldfastError."""
    return _COMMANDS[step.inputs.command](step)
