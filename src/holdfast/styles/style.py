"""What the workflow styles share: what each of them says, and how a decision is entered.

The progress is the JSON document that a checkpoint stores as `state_snapshot.progress`. What changes it is in
the style's own module; such a function takes one and returns another, and never alters what it was given.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

from holdfast.format.header import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.styles.values import Document, Place, as_dict, as_list, freeze

DEFAULT_STYLE = "phases"
"""The style of a run that names none."""


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as a style sees it; `state` and `progress` are empty where they are no objects.

    With `is_let_on`, a person has just decided that the run continues.
    """

    trigger: Trigger
    phase: str
    status: RunStatus
    state: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)
    is_let_on: bool = False


@dataclass(frozen=True, slots=True)
class Today:
    """What the caller knows about the run now, as far as it says so.

    `dag` is the workflow's present layers; `recoveries` counts, for each agent that failed, how often it
    was restarted and failed again; `phases` are those that were completed, by the index.
    """

    dag: Any = None
    recoveries: Mapping[str, int] = field(default_factory=dict)
    phases: tuple[str, ...] = ()


class ResumePoint(NamedTuple):
    """Where a run goes on, in the terms of its style.

    `flaws` say what is wrong with the stored progress and what was assumed instead, `warnings` what a
    person should know. `given_up` names agents that were restarted too often.
    """

    resume_at: Place | None
    completed: tuple[Place, ...]
    remaining: tuple[Place, ...] | None
    retry_current: bool = False
    flaws: tuple[str, ...] = ()
    warnings: tuple[str, ...] = ()
    given_up: tuple[str, ...] = ()


def _unchanged(progress: Document) -> Document:
    return progress


def _not_repeated(progress: Mapping[str, Any], _place: str) -> Mapping[str, Any]:
    return progress


class Style(NamedTuple):
    """One workflow style. A new one is a module that makes such a value, and its name in `known.STYLES`.

    name       what `progress.style` says
    parts      what a run of it completes, for people
    plan       where a saved run goes on
    restore    the stored progress in a new process; the second argument is that of a run that has not begun
    label      the phase that a checkpoint is labelled with, from the state and the progress
    interrupt  the progress of a run that is told to stop; most styles have no word for that
    repeat     the progress with a place, as `label` names it, to be done again if it is completed
    """

    name: str
    parts: str
    plan: Callable[[Saved, Today], ResumePoint]
    restore: Callable[[Document, Document], Document]
    label: Callable[[Document, Document], str | None]
    interrupt: Callable[[Document], Document] = _unchanged
    repeat: Callable[[Mapping[str, Any], str], Mapping[str, Any]] = _not_repeated


class Decision(NamedTuple):
    """One decision, so that it can be understood and replayed later."""

    agent: str | None
    type: str
    description: str
    rationale: str | None = None
    confidence: float | None = None
    alternatives: Iterable[object] = ()


def add_decision(progress: Document, decision: Decision, now: str) -> Document:
    """Return the progress with one more decision, which is its agent's last one if that agent is known."""
    record = {
        "timestamp": now,
        "agent": decision.agent,
        "type": decision.type,
        "description": decision.description,
        "rationale": decision.rationale,
        "confidence": decision.confidence,
        "alternatives_considered": freeze(list(decision.alternatives)),
    }
    added = {**progress, "decisions": [*as_list(progress.get("decisions")), record]}
    agents = as_dict(progress.get("agents"))
    if decision.agent not in agents:
        return added
    agent = {**agents[decision.agent], "last_decision": decision.description}
    return {**added, "agents": {**agents, decision.agent: agent}}
