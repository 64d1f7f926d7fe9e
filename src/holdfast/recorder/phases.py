"""Recording phases: saved when one is done and when a gate has decided. One phase runs at a time."""

from typing import Any

from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.recorder.state import RunState
from holdfast.styles import phases
from holdfast.styles.values import Document


class PhasesRun(Recorder):
    """A run in phases, known by names such as `phase_1_plan`. `state["phase_outputs"]` has their outputs."""

    _style = phases.STYLE

    def phase(self, name: str) -> "Phase":
        """Return the context of one phase, which runs inside of it."""
        return Phase(self._run, str(name))

    def gate(
        self, phase: str, *, decision: str, score: float | None = None, iteration: int | None = None
    ) -> Receipt | None:
        """Save what the gate after a phase has decided; the iteration is the gate's next unless given."""
        return self._run.record(
            Trigger.GATE_DECISION,
            state=lambda state: phases.decide(
                state, phase, decision=decision, score=score, iteration=iteration
            ),
            phase=phase,
        )

    def is_done(self, name: str) -> bool:
        """Whether the phase has an output."""
        return phases.is_done(self.state, name)

    def _new_progress(self) -> Document:
        return phases.new_progress(map(str, self._options.work))


class Phase(WorkBlock):
    """One phase under way. Its `output` is saved when it is done; until then, it is the partial output."""

    __slots__ = ("_output",)

    def __init__(self, run: RunState, name: str) -> None:
        super().__init__(run, name)
        self._output: Any = None

    @property
    def output(self) -> Any:
        """Return the output as far as it is known."""
        return self._output

    @output.setter
    def output(self, value: Any) -> None:
        self._output = value
        self._run.amend(state=lambda state: phases.report(state, value))

    def _begin(self) -> None:
        """Enter the phase into the state. The checkpoint before says already that it is next."""
        now = self._run.now()

        def begin(state: Document) -> Document:
            return phases.begin(state, self.name, now)

        if self._run.options.save_at_begin:
            self._run.record(Trigger.PHASE_START, state=begin, phase=self.name)
        else:
            self._run.amend(state=begin)

    def _complete(self) -> None:
        self._run.record(
            Trigger.PHASE_COMPLETE,
            state=lambda state: phases.complete(state, self.name, self._output),
            phase=self.name,
        )
