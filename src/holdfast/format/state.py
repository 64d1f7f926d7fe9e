"""The state of a run as the specification describes it.

These models check what they know and let everything else through. The stored bytes are the
caller's own, never a model's output, so that nothing is altered on the way.
"""

from typing import Annotated, Any

from pydantic import AfterValidator, BaseModel, ConfigDict

_LOOSE = ConfigDict(frozen=True, strict=True, extra="allow")


def _is_number(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, int | float | None):
        raise ValueError("use a number")  # noqa: TRY004 - pydantic reports ValueError with the field's path
    return value


Number = Annotated[Any, AfterValidator(_is_number)]


class GateDecision(BaseModel):
    """One decision at a gate."""

    model_config = _LOOSE

    gate_id: str | None = None
    decision: str | None = None
    score: Number = None
    iteration: int | None = None


class CurrentPhaseState(BaseModel):
    """How far the phase in progress has come."""

    model_config = _LOOSE

    phase: str | None = None
    started_at: str | None = None
    progress: dict[str, Any] | None = None
    partial_output: Any = None


class StateSnapshot(BaseModel):
    """The complete state of a run at one moment."""

    model_config = _LOOSE

    phase_outputs: dict[str, Any] | None = None
    current_phase_state: CurrentPhaseState | None = None
    gate_history: list[GateDecision] | None = None
    circuit_breaker_state: dict[str, Any] | None = None
    cost_accumulated: Number = None
    health_history: list[Any] | None = None
    errors_encountered: list[Any] | None = None
    active_lessons: list[Any] | None = None
    progress: dict[str, Any] | None = None


class ContextFields(BaseModel):
    """What surrounds the state: how the run has been going."""

    model_config = _LOOSE

    api_metrics: dict[str, Any] | None = None
    fallback_flags: dict[str, Any] | None = None
    iteration_counts: dict[str, Any] | None = None
    warnings: list[Any] | None = None
