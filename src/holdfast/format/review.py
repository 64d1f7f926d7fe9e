"""What a run waits for that needs a person, as the index stores it and the resume plan tells it."""

from dataclasses import asdict, dataclass
from typing import Any, Literal, get_args

ReviewKind = Literal["circuit_breaker", "escalation", "gate"]

_KINDS = get_args(ReviewKind)


@dataclass(frozen=True, slots=True)
class Review:
    """Why a run waits for a person: since when, in which phase, and the checkpoint that says so."""

    kind: ReviewKind
    reason: str
    phase: str
    since: str
    checkpoint_id: str

    def to_mapping(self) -> dict[str, Any]:
        """Return it for JSON."""
        return asdict(self)


def parse_review(value: Any) -> Review | None:
    """Return the review that an index tells of; None if it tells of none, or makes no sense."""
    if not isinstance(value, dict) or value.get("kind") not in _KINDS:
        return None
    words = {name: str(value.get(name) or "") for name in ("reason", "phase", "since", "checkpoint_id")}
    return Review(kind=value["kind"], **words)
