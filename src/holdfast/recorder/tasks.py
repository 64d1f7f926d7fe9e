"""Recording tasks: saved when one begins, is completed or fails. They may run side by side."""

from collections.abc import Callable
from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.styles import tasks
from holdfast.styles.values import Document, freeze


class TasksRun(Recorder):
    """A run of tasks, known by their ids."""

    _style = tasks.STYLE

    def task(self, task_id: str) -> "Task":
        """Return the context of one task, which runs inside of it."""
        return Task(self._run, str(task_id))

    def describe(self, **metadata: Any) -> None:
        """Add to the metadata of the run, which the next checkpoint takes along."""
        added = freeze(metadata)
        self._run.amend(lambda progress: {**progress, "metadata": {**progress["metadata"], **added}})

    def is_done(self, name: str) -> bool:
        """Whether the task is completed."""
        return tasks.is_done(self.progress, name)

    def _new_progress(self) -> Document:
        return tasks.new_progress(map(str, self._options.work), self._options.metadata)


class Task(WorkBlock):
    """One task under way."""

    def _begin(self) -> None:
        self._record(tasks.begin)

    def _complete(self) -> None:
        self._record(tasks.complete)

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
