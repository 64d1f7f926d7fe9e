"""Recording steps: saved before and after each, when one fails, and when a signal comes."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.recorder.state import RunState
from holdfast.styles import steps
from holdfast.styles.values import Document, freeze


class StepsRun(Recorder):
    """A run of steps, known by their names. `mapreduce_state` is yours to set."""

    _style = steps.STYLE

    def step(self, name: str) -> "Step":
        """Return the context of one step, which runs inside of it."""
        return Step(self._run, str(name))

    def iteration(self, number: int, *, most: int | None = None) -> Receipt | None:
        """Begin iteration `number`: no step of it is done, the variables are as they were. Saves that."""
        return self._run.record(
            Trigger.ITERATION, lambda progress: steps.begin_iteration(progress, number, most)
        )

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
        self._run.amend(lambda progress: {**progress, "mapreduce_state": value})

    def is_done(self, name: str) -> bool:
        """Whether the step is completed; with iterations, in the one under way."""
        return steps.is_done(self.progress, name)

    def _new_progress(self) -> Document:
        options, kind = self._options, self._options.workflow_type
        return steps.new_progress(
            [str(name) for name in options.work],
            workflow_path=options.workflow,
            working_directory=options.working_directory or str(Path.cwd()),
            workflow_type={"kind": kind} if isinstance(kind, str) else kind,
        )


class Step(WorkBlock):
    """One step under way. What it captures and its `output` are saved when it is completed.

    If it fails, `retryable` says whether it may be repeated; unless set, the error's own `retryable`
    attribute does, or else it may.
    """

    __slots__ = ("_captured", "_index", "output", "retryable")

    def __init__(self, run: RunState, name: str) -> None:
        super().__init__(run, name)
        self.output: Any = None
        self.retryable: bool | None = None
        self._captured: dict[str, Any] = {}
        self._index = 0

    def capture(self, **variables: Any) -> None:
        """Keep these values, as they are now, for the steps that follow."""
        self._captured.update({name: freeze(value) for name, value in variables.items()})

    def _begin(self) -> None:
        def begin(progress: Document) -> Document:
            placed, self._index = steps.place(progress, self.name)
            return steps.begin(placed, self._index)

        self._run.record(Trigger.BEFORE_STEP, begin, phase=self.name)

    def _complete(self) -> None:
        duration_s = self._elapsed_s()

        def complete(progress: Document) -> Document:
            return steps.complete(
                progress,
                self._index,
                output=freeze(self.output),
                captured=self._captured,
                duration_s=duration_s,
                now=self._run.now(),
            )

        self._run.record(Trigger.STEP_COMPLETE, complete, phase=self.name)

    def _fail(self, error: BaseException) -> None:
        def fail(progress: Document, text: str) -> Document:
            return steps.fail(progress, self._index, error=text, is_retryable=self._is_retryable(error))

        self._run.record_failure(Trigger.STEP_FAILED, self.name, error, fail)

    def _is_retryable(self, error: BaseException) -> bool:
        stated = getattr(error, "retryable", True) if self.retryable is None else self.retryable
        return stated is not False
