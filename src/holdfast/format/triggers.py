"""What makes a checkpoint, and how urgent that makes it."""

from enum import StrEnum
from functools import lru_cache


class Priority(StrEnum):
    """How urgent a checkpoint is; `rank` sorts the most urgent first."""

    CRITICAL = "critical"
    HIGH = "high"
    MEDIUM = "medium"

    @property
    def rank(self) -> int:
        """Return 0 for the most urgent."""
        return _RANKS[self]


_RANKS = {priority: rank for rank, priority in enumerate(Priority)}


class Trigger(StrEnum):
    """Why a checkpoint was made."""

    CIRCUIT_BREAKER = "circuit_breaker"
    STEP_FAILED = "step_failed"
    INTERRUPTED = "interrupted"
    ERROR = "error"
    PHASE_COMPLETE = "phase_complete"
    GATE_DECISION = "gate_decision"
    ESCALATION = "escalation"
    COST_THRESHOLD = "cost_threshold"
    DESTRUCTIVE_OP = "destructive_op"
    LAYER_COMPLETE = "layer_complete"
    STEP_COMPLETE = "step_complete"
    RUN_COMPLETE = "run_complete"
    REVIEW = "review"
    ROLLBACK = "rollback"
    ITERATION = "iteration"
    EXPENSIVE_OP = "expensive_op"
    MANUAL = "manual"
    BEFORE_STEP = "before_step"
    TASK_CHANGE = "task_change"
    INTERVAL = "interval"
    SPECIALIST_FINISHED = "specialist_finished"
    EVALUATION_COMPLETED = "evaluation_completed"
    CONFIDENCE_THRESHOLD = "confidence_threshold"
    MEMORY_PRESSURE = "memory_pressure"
    DEBUG_BREAKPOINT = "debug_breakpoint"
    PHASE_START = "phase_start"
    SPECIALIST_LAUNCHED = "specialist_launched"

    @property
    def priority(self) -> Priority:
        """Return how urgent a checkpoint with this trigger is, unless its caller says otherwise."""
        if self in _CRITICAL:
            return Priority.CRITICAL
        return Priority.HIGH if self in _HIGH else Priority.MEDIUM


_CRITICAL = frozenset({Trigger.CIRCUIT_BREAKER, Trigger.STEP_FAILED, Trigger.INTERRUPTED, Trigger.ERROR})
_HIGH = frozenset(
    {
        Trigger.PHASE_COMPLETE,
        Trigger.GATE_DECISION,
        Trigger.ESCALATION,
        Trigger.COST_THRESHOLD,
        Trigger.DESTRUCTIVE_OP,
        Trigger.LAYER_COMPLETE,
        Trigger.STEP_COMPLETE,
        Trigger.RUN_COMPLETE,
        Trigger.REVIEW,
        Trigger.ROLLBACK,
    }
)

# How the systems that Holdfast serves spell the same thing.
_OTHER_SPELLINGS = {
    "phase_completed": Trigger.PHASE_COMPLETE,
    "after_each_phase": Trigger.PHASE_COMPLETE,
    "after_gate_decision": Trigger.GATE_DECISION,
    "on_circuit_breaker_trip": Trigger.CIRCUIT_BREAKER,
    "on_escalation": Trigger.ESCALATION,
    "on_iteration_start": Trigger.ITERATION,
    "iteration_start": Trigger.ITERATION,
    "on_cost_threshold": Trigger.COST_THRESHOLD,
    "after_expensive_operation": Trigger.EXPENSIVE_OP,
    "expensive_operation": Trigger.EXPENSIVE_OP,
    "before_destructive_operation": Trigger.DESTRUCTIVE_OP,
    "destructive_operation": Trigger.DESTRUCTIVE_OP,
    "before_risky_operation": Trigger.DESTRUCTIVE_OP,
    "confidence_threshold_crossed": Trigger.CONFIDENCE_THRESHOLD,
    "error_encountered": Trigger.ERROR,
    "memory_pressure_high": Trigger.MEMORY_PRESSURE,
    "user_requested": Trigger.MANUAL,
    "after_step": Trigger.STEP_COMPLETE,
    "step_completed": Trigger.STEP_COMPLETE,
    "layer_completed": Trigger.LAYER_COMPLETE,
    "run_completed": Trigger.RUN_COMPLETE,
    "evaluation_complete": Trigger.EVALUATION_COMPLETED,
    "phase_started": Trigger.PHASE_START,
    "specialist_started": Trigger.SPECIALIST_LAUNCHED,
    "signal": Trigger.INTERRUPTED,
    "time_interval": Trigger.INTERVAL,
    "task_changed": Trigger.TASK_CHANGE,
}


@lru_cache(maxsize=256)
def parse_trigger(text: str) -> Trigger:
    """Return the trigger that `text` names, in any of its known spellings.

    >>> parse_trigger("user_requested"), parse_trigger("BeforeStep")
    (<Trigger.MANUAL: 'manual'>, <Trigger.BEFORE_STEP: 'before_step'>)

    Raises ValueError with the list of triggers.
    """
    name = "".join(f"_{letter.lower()}" if letter.isupper() else letter for letter in text).strip("_")
    try:
        return _OTHER_SPELLINGS.get(name) or Trigger(name)
    except ValueError:
        raise ValueError(f"{text!r} is not a trigger; use one of {', '.join(Trigger)}") from None
