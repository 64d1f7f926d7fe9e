"""Recording agents: saved when one has finished or failed, when a phase is done, and with every decision."""

from collections.abc import Iterable
from typing import Any

from holdfast.format.receipt import Receipt
from holdfast.format.triggers import Trigger
from holdfast.recorder.run import Recorder, WorkBlock
from holdfast.recorder.state import RunState
from holdfast.styles import agents
from holdfast.styles.measures import add_confidence, sinks_below
from holdfast.styles.style import Decision, add_decision
from holdfast.styles.values import Document, freeze


class AgentsRun(Recorder):
    """A run of agents, known by their ids, in phases with numbers.

    `outputs` and `metrics` are yours to fill.
    """

    _style = agents.STYLE

    def agent(self, agent_id: str) -> "Agent":
        """Return the context of one agent, which works inside of it."""
        return Agent(self._run, str(agent_id))

    def phase(self, number: int) -> "AgentsPhase":
        """Return the context of one phase, in which agents work; each of them has its work to do anew."""
        return AgentsPhase(self._run, number)

    def decide(
        self,
        *,
        agent: str,
        type: str,  # noqa: A002 - the name that the stored decision has
        description: str,
        rationale: str | None = None,
        confidence: float | None = None,
        alternatives: Iterable[object] = (),
    ) -> Receipt | None:
        """Save a decision, so that it can be replayed."""
        run = self._run
        decision = Decision(agent, type, description, rationale, confidence, list(alternatives))
        return run.record(Trigger.MANUAL, lambda progress: add_decision(progress, decision, run.now()))

    @property
    def outputs(self) -> list[Any]:
        """Return the outputs of the run, to be added to freely."""
        outputs: list[Any] = self.progress["outputs"]
        return outputs

    @property
    def metrics(self) -> dict[str, Any]:
        """Return the metrics of the run, to be filled freely."""
        metrics: dict[str, Any] = self.progress["metrics"]
        return metrics

    @property
    def confidence(self) -> Any:
        """Return how sure the run is as a whole."""
        return self.progress["confidence"]

    @confidence.setter
    def confidence(self, value: Any) -> None:
        report_confidence(self._run, None, freeze(value))

    def is_done(self, name: str | int) -> bool:
        """Whether the agent has done its work in this phase, or the phase with this number is over."""
        if isinstance(name, int):
            return agents.is_phase_done(self.progress, name)
        return agents.is_agent_done(self.progress, name)

    def _new_progress(self) -> Document:
        return agents.new_progress(max_recoveries=self._options.max_recoveries)


class Agent(WorkBlock):
    """One agent at work. After a resume it knows the state and the confidence that it had before."""

    __slots__ = ()

    @property
    def output(self) -> Any:
        """Return the agent's output as far as it is known."""
        return self._field("output")

    @output.setter
    def output(self, value: Any) -> None:
        self._alter(output=value)

    @property
    def state(self) -> Any:
        """Return what the agent keeps for itself."""
        return self._field("state")

    @state.setter
    def state(self, value: Any) -> None:
        self._alter(state=value)

    @property
    def confidence(self) -> Any:
        """Return how sure the agent is."""
        return self._field("confidence")

    @confidence.setter
    def confidence(self, value: float) -> None:
        report_confidence(self._run, self.name, value)

    @property
    def output_ref(self) -> Any:
        """Return where the agent's output is."""
        return self._field("output_ref")

    @output_ref.setter
    def output_ref(self, value: str) -> None:
        self._alter(output_ref=value)

    def block(self, reason: str) -> None:
        """Enter what keeps the agent from going on."""
        self._run.amend(lambda progress: agents.block(progress, self.name, reason))

    def _field(self, name: str) -> Any:
        return self._run.progress["agents"].get(self.name, {}).get(name)

    def _alter(self, **fields: Any) -> None:
        self._run.amend(lambda progress: agents.alter(progress, self.name, **fields))

    def _begin(self) -> None:
        def begin(progress: Document) -> Document:
            return agents.begin(progress, self.name)

        if self._run.options.save_at_begin:
            self._run.record(Trigger.SPECIALIST_LAUNCHED, begin, phase=self.name)
        else:
            self._run.amend(begin)

    def _complete(self) -> None:
        self._run.record(Trigger.SPECIALIST_FINISHED, lambda progress: agents.complete(progress, self.name))

    def _fail(self, error: BaseException) -> None:
        self._run.record_failure(
            Trigger.ERROR, self.name, error, lambda progress, text: agents.fail(progress, self.name, text)
        )


class AgentsPhase(WorkBlock):
    """One phase under way, in which agents work."""

    __slots__ = ("number",)

    def __init__(self, run: RunState, number: int) -> None:
        super().__init__(run, f"phase_{number}")
        self.number = number

    def _begin(self) -> None:
        def enter(progress: Document) -> Document:
            return agents.enter_phase(progress, self.number)

        if self._run.options.save_at_begin:
            self._run.record(Trigger.PHASE_START, enter, phase=self.name)
        else:
            self._run.amend(enter)

    def _complete(self) -> None:
        self._run.record(
            Trigger.PHASE_COMPLETE,
            lambda progress: agents.enter_phase(progress, self.number + 1),
            phase=self.name,
        )


def report_confidence(run: RunState, agent: str | None, value: Any) -> None:
    """Enter how sure an agent is, or the run; when that sinks below the limit, save it at once."""
    holder = run.progress if agent is None else run.progress["agents"].get(agent, {})
    before, now = holder.get("confidence"), run.now()

    def report(progress: Document) -> Document:
        added = add_confidence(progress, agent, value, now)
        if agent is None:
            return {**added, "confidence": value}
        return agents.alter(added, agent, confidence=value)

    if sinks_below(before, value, run.options.confidence_below):
        run.record(Trigger.CONFIDENCE_THRESHOLD, report)
    else:
        run.amend(report)
