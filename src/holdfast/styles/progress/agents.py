"""Progress of a run of agents: what each of them does, knows and is sure of, phase by phase."""

from holdfast.styles.progress.values import Document, as_dict, as_list, freeze

STYLE = "agents"


def new_progress(phase: int = 0) -> Document:
    """Return the progress of a run that has not begun."""
    return {
        "style": STYLE,
        "phase": phase,
        "agents": {},
        "decisions": [],
        "outputs": [],
        "metrics": {},
        "confidence": None,
    }


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress, with whatever it lacks as in `fresh`."""
    phase = stored.get("phase")
    return {
        **fresh,
        **stored,
        "phase": phase if isinstance(phase, int) else fresh["phase"],
        "agents": as_dict(stored.get("agents")),
        "decisions": as_list(stored.get("decisions")),
        "metrics": as_dict(stored.get("metrics")),
    }


def begin_phase(progress: Document, phase: int) -> Document:
    """Return the progress in this phase."""
    return {**progress, "phase": phase}


def complete_phase(progress: Document, phase: int) -> Document:
    """Return the progress with the phase completed, so that the next one is due."""
    return {**progress, "phase": phase + 1}


def begin(progress: Document, agent_id: str) -> Document:
    """Return the progress with the agent at work; what it knew before is kept, what blocked it is not."""
    known = {"confidence": None, "state": None, "last_decision": None, "output_ref": None}
    known.update(progress["agents"].get(agent_id, {}))
    known.pop("error", None)
    attempts = known.get("recovery_attempts")
    recoveries = attempts if isinstance(attempts, int) else 0
    begun = {
        **known,
        "status": "active",
        "blockers": [],
        "phase": progress["phase"],
        "recovery_attempts": recoveries + 1 if known.get("status") == "failed" else recoveries,
    }
    return {**progress, "agents": {**progress["agents"], agent_id: begun}}


def alter(progress: Document, agent_id: str, **fields: object) -> Document:
    """Return the progress with some fields of an agent changed."""
    agent = {**progress["agents"][agent_id], **fields}
    return {**progress, "agents": {**progress["agents"], agent_id: agent}}


def block(progress: Document, agent_id: str, blocker: str) -> Document:
    """Return the progress with one more thing that keeps the agent from going on."""
    blockers = as_list(progress["agents"][agent_id].get("blockers"))
    return alter(progress, agent_id, blockers=[*blockers, blocker])


def complete(progress: Document, agent_id: str) -> Document:
    """Return the progress with the agent done, its state as it is now."""
    state = freeze(progress["agents"][agent_id].get("state"))
    return alter(progress, agent_id, status="completed", state=state, recovery_attempts=0)


def fail(progress: Document, agent_id: str, error: str) -> Document:
    """Return the progress with the agent failed."""
    return alter(progress, agent_id, status="failed", error=error)


def is_agent_done(progress: Document, agent_id: str) -> bool:
    """Tell whether the agent has completed its work in the phase that the run is in."""
    agent = progress["agents"].get(agent_id)
    if not isinstance(agent, dict) or agent.get("status") != "completed":
        return False
    return bool(agent.get("phase", progress["phase"]) == progress["phase"])


def is_phase_done(progress: Document, phase: int) -> bool:
    """Tell whether the run is past this phase."""
    return bool(phase < progress["phase"])
