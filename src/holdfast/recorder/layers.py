"""Recording layers: saved when one is completed, with the completed tasks alone."""

from collections.abc import Iterable
from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.recorder.state import RunState
from holdfast.styles import layers
from holdfast.styles.style import Decision, add_decision
from holdfast.styles.values import Document, freeze


class LayersRun(Recorder):
    """A run in layers, which are known by their index; `context` and `messages` are yours to fill."""

    _style = layers.STYLE

    def layer(self, index: int) -> "Layer":
        """Return the context of one layer, whose tasks run inside of it."""
        return Layer(self._run, index)

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
        now = self._run.now()
        self._run.amend(lambda progress: add_decision(progress, decision, now))

    def is_done(self, name: int | str) -> bool:
        """Whether the layer with this index, or the task with this id, is completed."""
        if isinstance(name, int):
            return layers.is_layer_done(self.progress, name)
        return layers.is_task_done(self.progress, name)

    def _all_work(self) -> Iterable[Any]:
        return range(len(list(super()._all_work())))

    def _new_progress(self) -> Document:
        return layers.new_progress(self._options.work, self._options.execution_config)

    def _dag(self) -> Any:
        return [list(layer) for layer in self._options.work] or None


class Layer(WorkBlock):
    """One layer under way. Its tasks may be completed in several threads at once.

    Its `output` is saved when it is completed.
    """

    __slots__ = ("index", "output")

    def __init__(self, run: RunState, index: int) -> None:
        super().__init__(run, f"layer_{index}")
        self.index = index
        self.output: Any = None

    def task(self, task_id: str, result: Any = None, *, duration_s: float | None = None) -> None:
        """Enter that a task of this layer is completed; its result is kept as it is now.

        The duration is that since the layer began, unless given.
        """
        now = self._run.now()
        elapsed_s = self._elapsed_s() if duration_s is None else duration_s
        kept = freeze(result)
        self._run.amend(lambda progress: layers.complete_task(progress, task_id, kept, now, elapsed_s))

    def _begin(self) -> None:
        """Nothing is saved: the checkpoint before says already that this layer is next."""

    def _complete(self) -> None:
        self._run.record(
            Trigger.LAYER_COMPLETE,
            lambda progress: layers.complete_layer(progress, self.index, output=freeze(self.output)),
            phase=self.name,
        )
