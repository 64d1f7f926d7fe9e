"""Agents: specialists that work side by side, phase by phase. A failed one is restarted, three times."""

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.styles.phases import parse_ordinal
from holdfast.styles.style import ResumePoint, Saved, Style, Today
from holdfast.styles.values import (
    Document,
    as_dict,
    as_index,
    as_list,
    as_mapping,
    as_sequence,
    freeze,
    name_all,
    number_of,
)

MAX_RECOVERIES = 3
_COMPLETED = "completed"
_FAILED = "failed"


def plan(saved: Saved, today: Today) -> ResumePoint:
    """Return the saved phase, with every agent that is not completed still to go on."""
    agents, flaws = _agents(saved)
    phase, phase_flaws = _phase(saved)
    failed = failed_agents(saved.progress)
    counts = {agent: recoveries_of(agent, saved.progress, today.recoveries) for agent in failed}
    given_up = tuple(agent for agent, count in counts.items() if count >= most_recoveries(saved.progress))
    return ResumePoint(
        resume_at=phase,
        completed=tuple(agent for agent, status in agents.items() if status == _COMPLETED),
        remaining=tuple(agent for agent, status in agents.items() if status != _COMPLETED),
        retry_current=bool(failed) and not given_up,
        flaws=(*flaws, *phase_flaws),
        warnings=_blockers(saved),
        given_up=given_up,
    )


def most_recoveries(progress: Mapping[str, Any]) -> int:
    """Return how often a failed agent is restarted before the run goes back, as the run itself says."""
    stated = as_index(progress.get("max_recoveries"))
    return MAX_RECOVERIES if stated is None else stated


def has_stepped_back(agent: str, progress: Mapping[str, Any]) -> bool:
    """Whether a run has gone back once because of this agent."""
    return agent in as_sequence(progress.get("stepped_back_for"))


def lost_agents(progress: Mapping[str, Any], checkpoints: int | None = None) -> list[str]:
    """Return the agents that failed too often, and for whom the run cannot go back.

    It has done so already; or every one of its `checkpoints`, if told how many there are, is such a failure.
    """
    return [
        agent
        for agent in spent_agents(progress)
        if has_stepped_back(agent, progress) or checkpoints == recoveries_of(agent, progress, {}) + 1
    ]


def spent_agents(progress: Mapping[str, Any]) -> list[str]:
    """Return the failed agents that were restarted as often as they may be, by what the progress says."""
    most = most_recoveries(progress)
    return [agent for agent in failed_agents(progress) if recoveries_of(agent, progress, {}) >= most]


def settle(progress: Mapping[str, Any], lost: Sequence[str], *, are_done: bool) -> Document:
    """Return the progress once a person has said whether the run goes on without what its lost agents do."""
    agents = dict(as_mapping(progress.get("agents")))
    fresh = {"status": _COMPLETED if are_done else "pending", "recovery_attempts": 0}
    agents |= {agent: {**as_mapping(agents[agent]), **fresh} for agent in lost}
    kept = [agent for agent in as_sequence(progress.get("stepped_back_for")) if agent not in lost]
    return {**progress, "agents": agents, "stepped_back_for": kept}


def failed_agents(progress: Mapping[str, Any]) -> list[str]:
    """Return the agents that a checkpoint shows as failed."""
    return [
        agent for agent, record in as_mapping(progress.get("agents")).items() if _status(record) == _FAILED
    ]


def recoveries_of(agent: str, progress: Mapping[str, Any], counted: Mapping[str, int]) -> int:
    """Return how often a failed agent was restarted: as the checkpoint says, else as was counted.

    A checkpoint says it as `recovery_attempts` of the agent, or in `metrics` by agent or for all.
    """
    record = as_mapping(as_mapping(progress.get("agents")).get(agent))
    overall = as_mapping(progress.get("metrics")).get("recovery_attempts")
    for stated in (record.get("recovery_attempts"), as_mapping(overall).get(agent), overall):
        number = as_index(stated)
        if number is not None:
            return number
    return counted.get(agent, 0)


def count_recoveries(agents: Iterable[str], earlier: Iterable[Saved]) -> dict[str, int]:
    """Return how many earlier checkpoints, the newest first, show each agent as failed already.

    Each of them stands for a restart that failed again. The count ends where the agent was completed or not
    there yet; a checkpoint that was only made by the clock tells nothing new.
    """
    counts = dict.fromkeys(agents, 0)
    counting = set(counts)
    for saved in earlier:
        records, most = as_mapping(saved.progress.get("agents")), most_recoveries(saved.progress)
        counting -= {agent for agent in counting if _status(records.get(agent)) in (None, _COMPLETED)}
        if not counting or min(counts[agent] for agent in counting) >= most:
            break
        for agent in counting:
            if _status(records.get(agent)) == _FAILED and saved.trigger is not Trigger.INTERVAL:
                counts[agent] += 1
    return counts


def _agents(saved: Saved) -> tuple[dict[str, str | None], tuple[str, ...]]:
    agents = saved.progress.get("agents")
    if not isinstance(agents, dict):
        return {}, ("progress.agents is not an object: no agent can be restored",)
    statuses = {agent: _status(record) for agent, record in agents.items()}
    unclear = [agent for agent, status in statuses.items() if status is None]
    flaw = f"agents without a status are taken as not completed: {name_all(unclear)}"
    return statuses, (flaw,) if unclear else ()


def _status(record: Any) -> str | None:
    status = as_mapping(record).get("status")
    return status if isinstance(status, str) else None


def _phase(saved: Saved) -> tuple[int | None, tuple[str, ...]]:
    phase = as_index(saved.progress.get("phase"))
    if phase is not None:
        return phase, ()
    ordinal = parse_ordinal(saved.phase)
    if ordinal is not None:
        return ordinal[0], (f"progress.phase is not a number: {ordinal[0]} was taken from {saved.phase!r}",)
    return None, ("progress.phase is not a number: nothing says which phase the run was in",)


def _blockers(saved: Saved) -> tuple[str, ...]:
    blocked = []
    for agent, record in as_mapping(saved.progress.get("agents")).items():
        blockers = as_sequence(as_mapping(record).get("blockers"))
        if blockers and _status(record) != _COMPLETED:
            blocked.append(f"agent {agent} is blocked: {name_all(map(str, blockers))}")
    return tuple(blocked)


def new_progress(*, max_recoveries: int | None = None) -> Document:
    """Return the progress of a run that has not begun, and how often a failed agent is restarted, if told."""
    told = {} if max_recoveries is None else {"max_recoveries": max_recoveries}
    return {
        "style": "agents",
        "phase": 0,
        "agents": {},
        "decisions": [],
        "outputs": [],
        "metrics": {},
        "confidence": None,
        **told,
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
        **{name: fresh[name] for name in ("max_recoveries",) if name in fresh},
    }


def enter_phase(progress: Document, phase: int) -> Document:
    """Return the progress in this phase."""
    return {**progress, "phase": phase}


def repeat(progress: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the progress in an earlier phase, with what its agents did in it to be done again."""
    number, agents = number_of(place, "phase_"), progress.get("agents")
    is_done = number is not None and number < (as_index(progress.get("phase")) or 0)
    if number is None or not is_done or not isinstance(agents, dict):
        return progress
    again = {
        agent: {**record, "status": "pending"}
        for agent, record in agents.items()
        if _status(record) == _COMPLETED and as_index(record.get("phase")) == number
    }
    return {**progress, "phase": number, "agents": {**agents, **again}}


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
        "recovery_attempts": recoveries + 1 if known.get("status") == _FAILED else recoveries,
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
    agent = progress["agents"][agent_id]
    kept = {name: freeze(agent[name]) for name in ("state", "output") if name in agent}
    return alter(progress, agent_id, status=_COMPLETED, recovery_attempts=0, **kept)


def fail(progress: Document, agent_id: str, error: str) -> Document:
    """Return the progress with the agent failed."""
    return alter(progress, agent_id, status=_FAILED, error=error)


def is_agent_done(progress: Document, agent_id: str) -> bool:
    """Whether the agent has completed its work in the phase that the run is in."""
    agent = progress["agents"].get(agent_id)
    if not isinstance(agent, dict) or agent.get("status") != _COMPLETED:
        return False
    return bool(agent.get("phase", progress["phase"]) == progress["phase"])


def is_phase_done(progress: Document, phase: int) -> bool:
    """Whether the run is past this phase."""
    return bool(phase < progress["phase"])


def label(_state: Document, progress: Document) -> str:
    """Return the phase that the run is in."""
    return f"phase_{progress['phase']}"


STYLE = Style("agents", "Agents", plan, restore, label, repeat=repeat)
