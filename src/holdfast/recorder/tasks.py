"""Recording tasks: saved when one begins, is completed or fails. They may run side by side."""

from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.recorder.block import Scope
from holdfast.recorder.run import Recorder
from holdfast.styles.progress import tasks
from holdfast.styles.progress.values import Document, freeze


class TasksRun(Recorder):
    """A run of tasks, known by their ids."""

    style = tasks.STYLE

    def task(self, task_id: str) -> "Task":
        """Return the context of one task, which runs inside of it."""
        return Task(self._recording, str(task_id))

    def describe(self, **metadata: Any) -> None:
        """Add to the metadata of the run, which the next checkpoint takes along."""
        added = freeze(metadata)
        self._recording.amend_progress(
            lambda progress: {**progress, "metadata": {**progress["metadata"], **added}}
        )

    def is_done(self, name: str) -> bool:
        """Tell whether the task is completed."""
        return tasks.is_done(self.progress, name)

    def _new_progress(self) -> Document:
        return tasks.new_progress(map(str, self._options.work), self._options.metadata)

    def _restored(self, stored: Document) -> Document:
        return tasks.restore(stored, self._new_progress())

    def _label(self) -> str | None:
        return tasks.name_current(self.progress)


class Task(Scope):
    """One task under way."""

    def _begin(self) -> None:
        recording = self._recording

        def change() -> None:
            recording.progress = tasks.begin(recording.progress, self.name, recording.now())

        recording.record(Trigger.TASK_CHANGE, change, phase=self.name)

    def _complete(self) -> None:
        recording = self._recording

        def change() -> None:
            recording.progress = tasks.complete(recording.progress, self.name, recording.now())

        recording.record(Trigger.TASK_CHANGE, change, phase=self.name)

    def _fail(self, error: BaseException) -> None:
        recording = self._recording

        def change(text: str) -> None:
            recording.progress = tasks.fail(recording.progress, self.name, recording.now(), text)

        recording.record_failure(Trigger.TASK_CHANGE, self.name, error, change)
