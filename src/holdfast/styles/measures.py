"""What a run measures of itself in any style: its cost by item, its evaluations, how sure it is.

The cost and the evaluations are members of the state, the confidences are in the progress of agents.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.styles.values import Document, as_dict, as_list, freeze

NEAR_LIMIT = 0.8
"""The share of its limit at which the cost is worth a checkpoint: a snapshot before a potential halt."""

_DIGITS_OF_COST = 10
_LONGEST_HISTORY = 1000


def add_cost(state: Mapping[str, Any], usd: float, item: str | None, now: str) -> Document:
    """Return the members with more spent, on an item if one is named, and the total in its history.

    >>> changed = add_cost({"cost_accumulated": 0.1}, 0.2, "model", "2026-11-18T01:00:00Z")
    >>> changed["cost_accumulated"], changed["cost_breakdown"], changed["cost_history"]
    (0.3, {'model': 0.2}, [{'timestamp': '2026-11-18T01:00:00Z', 'total': 0.3}])
    """
    total = _sum(state.get("cost_accumulated"), usd)
    history = [*as_list(state.get("cost_history")), {"timestamp": now, "total": total}]
    changed: Document = {"cost_accumulated": total, "cost_history": history[-_LONGEST_HISTORY:]}
    if item is not None:
        items = as_dict(state.get("cost_breakdown"))
        changed["cost_breakdown"] = {**items, item: _sum(items.get(item), usd)}
    return changed


def nears_limit(before: float, now: float, limit: float | None) -> bool:
    """Whether the cost has just come near its limit.

    >>> nears_limit(7.9, 8.0, 10), nears_limit(8.0, 9.0, 10)
    (True, False)
    """
    return limit is not None and before < NEAR_LIMIT * limit <= now


def sinks_below(before: object, now: object, limit: float | None) -> bool:
    """Whether a confidence has just come below its limit; one that is not known is not below it."""
    return _is_below(now, limit) and not _is_below(before, limit)


def add_evaluation(
    state: Mapping[str, Any], score: float, now: str, *, iteration: int | None, details: Mapping[str, Any]
) -> Document:
    """Return the members with one more evaluation; its iteration is the next one unless given."""
    history = as_list(state.get("evaluation_history"))
    record = {"timestamp": now, "iteration": len(history) + 1 if iteration is None else iteration}
    stated = {name: freeze(value) for name, value in details.items() if value is not None}
    return {"evaluation_history": [*history, {**record, "score": score, **stated}]}


def add_confidence(progress: Document, agent: str | None, confidence: object, now: str) -> Document:
    """Return the progress with one more confidence, of an agent or of the run, in its history."""
    history = as_list(progress.get("confidence_history"))
    record = {"timestamp": now, "agent": agent, "confidence": confidence}
    return {**progress, "confidence_history": [*history, record][-_LONGEST_HISTORY:]}


def _sum(before: Any, usd: float) -> float:
    return round((before or 0) + usd, _DIGITS_OF_COST)


def _is_below(value: object, limit: float | None) -> bool:
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    return limit is not None and is_number and value < limit  # type: ignore[operator]
