"""Recording phases: saved when one is done and when a gate has decided. One phase runs at a time."""

from typing import Any

from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.block import Scope
from holdfast.recorder.recording import Recording
from holdfast.recorder.run import Recorder
from holdfast.styles.progress import phases
from holdfast.styles.progress.values import Document


class PhasesRun(Recorder):
    """A run in phases, known by names such as `phase_1_plan`. `state["phase_outputs"]` has their outputs."""

    style = phases.STYLE

    def phase(self, name: str) -> "Phase":
        """Return the context of one phase, which runs inside of it."""
        return Phase(self._recording, str(name))

    def gate(
        self, phase: str, *, decision: str, score: float | None = None, iteration: int | None = None
    ) -> Receipt | None:
        """Save what the gate after a phase has decided; the iteration is the gate's next unless given."""
        recording = self._recording

        def change() -> None:
            recording.state.update(
                phases.decide(recording.state, phase, decision=decision, score=score, iteration=iteration)
            )

        return recording.record(Trigger.GATE_DECISION, change, phase=phase)

    def is_done(self, name: str) -> bool:
        """Tell whether the phase has an output."""
        return phases.is_done(self.state, name)

    def _new_progress(self) -> Document:
        return phases.new_progress(map(str, self._options.work))

    def _restored(self, stored: Document) -> Document:
        return phases.restore(stored, self._new_progress())

    def _label(self) -> str | None:
        return phases.name_current(self.state, self.progress)


class Phase(Scope):
    """One phase under way. Its `output` is saved when it is done; until then, it is the partial output."""

    def __init__(self, recording: Recording, name: str) -> None:
        super().__init__(recording, name)
        self._output: Any = None

    @property
    def output(self) -> Any:
        """Return the output as far as it is known."""
        return self._output

    @output.setter
    def output(self, value: Any) -> None:
        self._output = value
        self._recording.amend_state(lambda state: phases.report(state, value))

    def _begin(self) -> None:
        """Enter the phase into the state. The checkpoint before says already that it is next."""
        now = self._recording.now()
        self._recording.amend_state(lambda state: phases.begin(state, self.name, now))

    def _complete(self) -> None:
        recording = self._recording

        def change() -> None:
            recording.state.update(phases.complete(recording.state, self.name, self._output))

        recording.record(Trigger.PHASE_COMPLETE, change, phase=self.name)

    def _fail(self, error: BaseException) -> None:
        self._recording.record_failure(Trigger.ERROR, self.name, error, lambda _: None)
