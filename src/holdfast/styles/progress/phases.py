"""Progress of a run in phases: the outputs of those that are done, the gates, and the one in progress.

Here it is the state itself that tells the progress, so these functions return the members of it that change.
"""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.format.checkpoint import RunStatus
from holdfast.format.triggers import Trigger
from holdfast.styles.outlook import Saved, Today
from holdfast.styles.phases import parse_ordinal, plan
from holdfast.styles.progress.values import Document, as_dict, as_list, freeze

STYLE = "phases"


def new_progress(phases: Iterable[str] = ()) -> Document:
    """Return the progress of a run that has not begun; the order of its phases, if that is known."""
    names = list(phases)
    return {"style": STYLE, "phases": names} if names else {"style": STYLE}


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress; the phases that `fresh` names count."""
    return {**stored, **fresh}


def begin(state: Mapping[str, Any], name: str, now: str) -> Document:
    """Return what changes when a phase begins. One that was done before is not, until it is done again."""
    outputs = as_dict(state.get("phase_outputs"))
    current: Document = {"phase": name, "started_at": now, "progress": {}, "partial_output": None}
    if name in outputs:
        current["previous_output"] = outputs[name]
    others = {known: output for known, output in outputs.items() if known != name}
    return {"phase_outputs": others, "current_phase_state": current}


def report(state: Mapping[str, Any], output: object) -> Document:
    """Return what changes when the phase in progress has come to a part of its output."""
    return {"current_phase_state": {**as_dict(state.get("current_phase_state")), "partial_output": output}}


def complete(state: Mapping[str, Any], name: str, output: object) -> Document:
    """Return what changes when a phase is done. Its output is never null: that would mean it is not done."""
    kept = freeze({} if output is None else output)
    outputs = {**as_dict(state.get("phase_outputs")), name: kept}
    return {"phase_outputs": outputs, "current_phase_state": None}


def decide(
    state: Mapping[str, Any], gate_id: str, *, decision: str, score: float | None, iteration: int | None
) -> Document:
    """Return what changes when a gate has decided; without an iteration, it is the gate's next."""
    history = as_list(state.get("gate_history"))
    if iteration is None:
        iteration = 1 + sum(isinstance(past, dict) and past.get("gate_id") == gate_id for past in history)
    entry = {"gate_id": gate_id, "decision": decision, "score": score, "iteration": iteration}
    return {"gate_history": [*history, entry]}


def is_done(state: Mapping[str, Any], name: str) -> bool:
    """Tell whether the phase has an output, under its name or under its number alone.

    >>> is_done({"phase_outputs": {"phase_1": {}, "phase_2": None}}, "phase_1_plan")
    True
    """
    outputs = as_dict(state.get("phase_outputs"))
    ordinal = parse_ordinal(name)
    short = "phase_" + "_".join(map(str, ordinal)) if ordinal else name
    return any(outputs.get(key) is not None for key in (name, short))


def find_next(state: Mapping[str, Any], progress: Mapping[str, Any], last: str) -> str:
    """Return the phase that is due after `last` was completed; `last` itself if nothing says which."""
    saved = Saved(Trigger.PHASE_COMPLETE, last, RunStatus.IN_PROGRESS, state, progress)
    due = plan(saved, Today()).resume_at
    return last if due is None else str(due)


def name_current(state: Mapping[str, Any], progress: Mapping[str, Any]) -> str | None:
    """Return the phase in progress; between two phases the one that is due, so that none runs twice."""
    current = as_dict(state.get("current_phase_state")).get("phase")
    if isinstance(current, str):
        return current
    done = [name for name, output in as_dict(state.get("phase_outputs")).items() if output is not None]
    if done:
        return find_next(state, progress, done[-1])
    names = progress.get("phases")
    return str(names[0]) if isinstance(names, list) and names else None
