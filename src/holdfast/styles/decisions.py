"""Decisions of a run: what was decided, by whom, why, and what else was considered."""

from collections.abc import Iterable
from dataclasses import dataclass

from holdfast.styles.values import Document, as_dict, as_list, freeze


@dataclass(frozen=True, slots=True)
class Decision:
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
