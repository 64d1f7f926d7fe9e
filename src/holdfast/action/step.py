"""What a command of the step works with."""

from dataclasses import dataclass

from holdfast.action.inputs import Inputs
from holdfast.action.job import Job
from holdfast.cli.session import Session


@dataclass(frozen=True, slots=True)
class Step:
    """One step: what it was told, the job it runs in, and the repository it works on."""

    inputs: Inputs
    job: Job
    session: Session
