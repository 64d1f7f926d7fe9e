"""The checkpoint of an agentic loop: agents with opaque state, decisions with rationale, metrics."""

from collections.abc import Mapping
from typing import Any

from holdfast.importing.formats.conversion import Builder, Conversion, rename

_STATUSES = ("in_progress", "completed", "failed", "interrupted")
_TRIGGERS = {"completed": "run_complete", "failed": "error", "interrupted": "interrupted"}
_AGENT_NAMES = {"internalState": "state", "agentType": "agent_type", "lastDecision": "last_decision"}
_DECISION_NAMES = {"alternatives": "alternatives_considered"}


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether a document is one: it has agents, and the phase that they are in."""
    return "phase" in document and any(
        isinstance(document.get(name), dict) for name in ("agents", "agentStates")
    )


def convert(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return it as a checkpoint of the style `agents`. Raises InvalidCheckpoint."""
    builder = Builder(format_name, document)
    status = _status(builder)
    phase = builder.take_number("phase")
    return builder.build(
        checkpoint_id=builder.identify("checkpoint_id", "id"),
        run_id=builder.name_run(run_id, "workflow_id", "workflowId"),
        timestamp=builder.tell_time("timestamp"),
        trigger=builder.take("trigger") or _TRIGGERS.get(status, "manual"),
        phase=f"phase_{phase.text}",
        status=status,
        state_snapshot={"progress": _progress(builder, phase)},
    )


def _progress(builder: Builder, phase: Any) -> dict[str, Any]:
    agents = builder.take("agents", "agentStates")
    decisions = builder.take("decisions") or []
    progress = {
        "style": "agents",
        "phase": phase,
        "agents": {agent: rename(record, _AGENT_NAMES) for agent, record in agents.items()},
        "decisions": [rename(decision, _DECISION_NAMES) for decision in decisions],
    }
    for name in ("outputs", "metrics", "confidence"):
        value = builder.take(name)
        if value is not None:
            progress[name] = value
    return progress


def _status(builder: Builder) -> str:
    status = builder.take("status")
    if status in _STATUSES:
        return str(status)
    if status is not None:
        builder.notes.append(f"the status {status!r} is not known: taken as in_progress")
    return "in_progress"
