"""Recording layers: saved when one is completed, with the completed tasks alone."""

from collections.abc import Iterable
from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.recorder.block import Scope
from holdfast.recorder.recording import Recording
from holdfast.recorder.run import Recorder
from holdfast.styles.progress import layers
from holdfast.styles.progress.decisions import Decision, add_decision
from holdfast.styles.progress.values import Document, freeze


class LayersRun(Recorder):
    """A run in layers, which are known by their index; `context` and `messages` are yours to fill."""

    style = layers.STYLE

    def layer(self, index: int) -> "Layer":
        """Return the context of one layer, whose tasks run inside of it."""
        return Layer(self._recording, index)

    @property
    def context(self) -> dict[str, Any]:
        """Return what the tasks share, to be filled freely."""
        context: dict[str, Any] = self.progress["context"]
        return context

    @property
    def messages(self) -> list[Any]:
        """Return the messages of the run, to be added to freely."""
        messages: list[Any] = self.progress["messages"]
        return messages

    def decide(
        self,
        *,
        type: str,  # noqa: A002 - the name that the stored decision has
        description: str,
        agent: str | None = None,
        rationale: str | None = None,
        confidence: float | None = None,
        alternatives: Iterable[object] = (),
    ) -> None:
        """Enter a decision, which the next checkpoint takes along."""
        decision = Decision(agent, type, description, rationale, confidence, alternatives)
        now = self._recording.now()
        self._recording.amend_progress(lambda progress: add_decision(progress, decision, now))

    def is_done(self, name: int | str) -> bool:
        """Tell whether the layer with this index, or the task with this id, is completed."""
        if isinstance(name, int):
            return layers.is_layer_done(self.progress, name)
        return layers.is_task_done(self.progress, name)

    def _all_work(self) -> Iterable[Any]:
        return range(len(list(super()._all_work())))

    def _new_progress(self) -> Document:
        return layers.new_progress(self._options.work, self._options.execution_config)

    def _restored(self, stored: Document) -> Document:
        return layers.restore(stored, self._new_progress())

    def _dag(self) -> Any:
        return [list(layer) for layer in self._options.work] or None

    def _label(self) -> str | None:
        return f"layer_{self.progress['layer_index']}"


class Layer(Scope):
    """One layer under way. Its tasks may be completed in several threads at once."""

    def __init__(self, recording: Recording, index: int) -> None:
        super().__init__(recording, f"layer_{index}")
        self.index = index

    def task(self, task_id: str, result: Any = None, *, duration_s: float | None = None) -> None:
        """Enter that a task of this layer is completed; its result is kept as it is now.

        The duration is that since the layer began, unless given.
        """
        now = self._recording.now()
        elapsed_s = self._elapsed_s() if duration_s is None else duration_s
        record = layers.TaskResult(task_id, freeze(result), now, elapsed_s)
        self._recording.amend_progress(lambda progress: layers.complete_task(progress, record))

    def _begin(self) -> None:
        """Nothing is saved: the checkpoint before says already that this layer is next."""

    def _complete(self) -> None:
        recording = self._recording

        def change() -> None:
            recording.progress = layers.complete_layer(recording.progress, self.index)

        recording.record(Trigger.LAYER_COMPLETE, change, phase=self.name)

    def _fail(self, error: BaseException) -> None:
        self._recording.record_failure(Trigger.ERROR, self.name, error, lambda _: None)
