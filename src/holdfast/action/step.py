"""What a command of the step works with."""

import threading
from dataclasses import dataclass

from holdfast.action.inputs import Inputs
from holdfast.action.job import Job
from holdfast.cli.session import Session

CANCELLED = "the job was cancelled"


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
