"""What a style is told of a checkpoint, and what it makes of it."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.format.checkpoint import RunStatus
from holdfast.format.triggers import Trigger

Place = str | int
_SHOWN = 20


@dataclass(frozen=True, slots=True)
class Saved:
    """A checkpoint as a style sees it; `state` and `progress` are empty where they are no objects."""

    trigger: Trigger
    phase: str
    status: RunStatus
    state: Mapping[str, Any] = field(default_factory=dict)
    progress: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Today:
    """What the caller knows about the run now, as far as it says so.

    `dag` is the workflow's present layers; `recoveries` counts, for each agent that failed, how often it
    was restarted and failed again.
    """

    dag: Any = None
    recoveries: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Outlook:
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


def as_index(value: object) -> int | None:
    """Return `value` if it counts something from 0 on."""
    return value if isinstance(value, int) and not isinstance(value, bool) and value >= 0 else None


def as_mapping(value: object) -> Mapping[str, Any]:
    """Return `value` if it is a JSON object, else an empty one."""
    return value if isinstance(value, dict) else {}


def as_sequence(value: object) -> Sequence[Any]:
    """Return `value` if it is a JSON array, else an empty one."""
    return value if isinstance(value, list) else []


def name_all(names: Iterable[Place]) -> str:
    """Return names for a sentence, the first twenty of many.

    >>> name_all(["lint", "test"])
    'lint, test'
    """
    every = [str(name) for name in names]
    more = len(every) - _SHOWN
    return ", ".join(every[:_SHOWN]) + (f" and {more} more" if more > 0 else "")
