"""Recording steps: saved before and after each, when one fails, and when a signal comes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.block import Scope
from holdfast.recorder.recording import Recording
from holdfast.recorder.run import Recorder
from holdfast.styles.progress import steps
from holdfast.styles.progress.values import Document, freeze


class StepsRun(Recorder):
    """A run of steps, known by their names. `mapreduce_state` is yours to set."""

    style = steps.STYLE

    def step(self, name: str) -> "Step":
        """Return the context of one step, which runs inside of it."""
        return Step(self._recording, str(name))

    def iteration(self, number: int, *, most: int | None = None) -> Receipt | None:
        """Begin iteration `number`: no step of it is done, the variables are as they were. Saves that."""
        recording = self._recording

        def change() -> None:
            recording.progress = steps.begin_iteration(recording.progress, number, most)

        return recording.record(Trigger.ITERATION, change)

    @property
    def current_iteration(self) -> int | None:
        """Return the number of the iteration under way, if the workflow has iterations."""
        number = self.progress["workflow_type"].get("current_iteration")
        return number if isinstance(number, int) else None

    @property
    def variables(self) -> Mapping[str, Any]:
        """Return what the completed steps have captured."""
        variables: Mapping[str, Any] = self.progress["variables"]
        return variables

    @property
    def mapreduce_state(self) -> Any:
        """Return the state of a map-reduce workflow."""
        return self.progress["mapreduce_state"]

    @mapreduce_state.setter
    def mapreduce_state(self, value: Any) -> None:
        self._recording.amend_progress(lambda progress: {**progress, "mapreduce_state": value})

    def is_done(self, name: str) -> bool:
        """Tell whether the step is completed; with iterations, in the one under way."""
        return steps.is_done(self.progress, name)

    def _new_progress(self) -> Document:
        options, kind = self._options, self._options.workflow_type
        return steps.new_progress(
            [str(name) for name in options.work],
            workflow_path=options.workflow,
            working_directory=options.working_directory or str(Path.cwd()),
            workflow_type={"kind": kind} if isinstance(kind, str) else kind,
        )

    def _restored(self, stored: Document) -> Document:
        return steps.restore(stored, self._new_progress())

    def _interrupted(self, progress: Document) -> Document:
        return steps.interrupt(progress)

    def _label(self) -> str | None:
        return steps.name_current(self.progress)


class Step(Scope):
    """One step under way. What it captures and its `output` are saved when it is completed.

    If it fails, `retryable` says whether it may be repeated; unless set, the error's own `retryable`
    attribute does, or else it may.
    """

    def __init__(self, recording: Recording, name: str) -> None:
        super().__init__(recording, name)
        self.output: Any = None
        self.retryable: bool | None = None
        self._captured: dict[str, Any] = {}
        self._index = 0

    def capture(self, **variables: Any) -> None:
        """Keep these values, as they are now, for the steps that follow."""
        self._captured.update({name: freeze(value) for name, value in variables.items()})

    def _begin(self) -> None:
        recording = self._recording

        def change() -> None:
            recording.progress, self._index = steps.place(recording.progress, self.name)
            recording.progress = steps.begin(recording.progress, self._index)

        recording.record(Trigger.BEFORE_STEP, change, phase=self.name)

    def _complete(self) -> None:
        recording, duration_s = self._recording, self._elapsed_s()

        def change() -> None:
            outcome = steps.StepResult(freeze(self.output), self._captured, duration_s, recording.now())
            recording.progress = steps.complete(recording.progress, self._index, outcome)

        recording.record(Trigger.STEP_COMPLETE, change, phase=self.name)

    def _fail(self, error: BaseException) -> None:
        recording = self._recording

        def change(text: str) -> None:
            is_retryable = self._is_retryable(error)
            recording.progress = steps.fail(
                recording.progress, self._index, error=text, is_retryable=is_retryable
            )

        recording.record_failure(Trigger.STEP_FAILED, self.name, error, change)

    def _is_retryable(self, error: BaseException) -> bool:
        stated = getattr(error, "retryable", True) if self.retryable is None else self.retryable
        return stated is not False
