"""Recording tasks: saved when one begins, is completed or fails. They may run side by side."""

from collections.abc import Callable
from functools import partial
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.recorder.state import RunState
from holdfast.styles import tasks
from holdfast.styles.values import Document, freeze


class TasksRun(Recorder):
    """A run of tasks, known by their ids."""

    _style = tasks.STYLE

    def task(self, task_id: str, *, idempotent: bool = True) -> "Task":
        """Return the context of one task, which runs inside of it.

        One that is not `idempotent` must not be done twice: should it be cut off, the run waits for a person.
        """
        return Task(self._run, str(task_id), is_idempotent=idempotent)

    def describe(self, **metadata: Any) -> None:
        """Add to the metadata of the run, which the next checkpoint takes along."""
        added = freeze(metadata)
        self._run.amend(lambda progress: {**progress, "metadata": {**progress["metadata"], **added}})

    def is_done(self, name: str) -> bool:
        """Whether the task is completed."""
        return tasks.is_done(self.progress, name)

    def _is_in_doubt(self, name: Any) -> bool:
        return name in tasks.cut_off(self.progress)

    def _new_progress(self) -> Document:
        return tasks.new_progress(map(str, self._options.work), self._options.metadata)


class Task(WorkBlock):
    """One task under way. Its `output` is saved when it is completed."""

    __slots__ = ("_is_idempotent", "output")

    def __init__(self, run: RunState, name: str, *, is_idempotent: bool = True) -> None:
        super().__init__(run, name)
        self.output: Any = None
        self._is_idempotent = is_idempotent

    def _begin(self) -> None:
        if self.name in tasks.cut_off(self._run.progress):
            reason = "it was cut off and must not be done twice; decide with holdfast review"
            raise InvalidCheckpoint(f"task {self.name}", reason)
        self._record(partial(tasks.begin, is_idempotent=self._is_idempotent))

    def _complete(self) -> None:
        self._record(partial(tasks.complete, output=freeze(self.output)))

    def _record(self, change: Callable[[Document, str, str], Document]) -> None:
        run = self._run
        run.record(
            Trigger.TASK_CHANGE, lambda progress: change(progress, self.name, run.now()), phase=self.name
        )

    def _fail(self, error: BaseException) -> None:
        run = self._run
        run.record_failure(
            Trigger.TASK_CHANGE,
            self.name,
            error,
            lambda progress, text: tasks.fail(progress, self.name, run.now(), text),
        )
