"""What a run waits for that needs a person, or that one has stopped it, as the index stores it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

ReviewKind = Literal["circuit_breaker", "escalation", "gate"]

_KINDS = get_args(ReviewKind)
_STOPPED = "stopped"


@dataclass(frozen=True, slots=True)
class Review:
    """Why a run waits for a person: since when, in which phase, and the checkpoint that says so.

    `agents` are those that failed too often, if that is why.
    """

    kind: ReviewKind
    reason: str
    phase: str
    since: str
    checkpoint_id: str
    agents: tuple[str, ...] = ()

    def to_mapping(self) -> dict[str, Any]:
        """Return it for JSON; `agents` are left out where there are none."""
        members = asdict(self) | {"agents": list(self.agents)}
        return {name: value for name, value in members.items() if name != "agents" or value}


@dataclass(frozen=True, slots=True)
class Stop:
    """That a review has ended a run for good: since when, and the checkpoint that says so."""

    since: str
    checkpoint_id: str

    def to_mapping(self) -> dict[str, Any]:
        """Return it for JSON."""
        return {"kind": _STOPPED, **asdict(self)}


Held = Review | Stop
"""What keeps a run from going on, whatever checkpoints come after it."""


def parse_held(value: Any) -> Held | None:
    """Return what an index tells of a review; None if it tells of none, or makes no sense."""
    if not isinstance(value, dict):
        return None
    words = {name: str(value.get(name) or "") for name in ("reason", "phase", "since", "checkpoint_id")}
    if value.get("kind") == _STOPPED:
        return Stop(words["since"], words["checkpoint_id"])
    if value.get("kind") not in _KINDS:
        return None
    return Review(kind=value["kind"], **words, agents=_parse_agents(value.get("agents")))


def _parse_agents(names: Any) -> tuple[str, ...]:
    are_names = isinstance(names, list) and all(isinstance(name, str) for name in names)
    return tuple(names) if are_names else ()
