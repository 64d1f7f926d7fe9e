"""Checkpoints of other systems: recognised by their shape, and converted without a digit being changed."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.importing.formats import agent_loops, builds, checkpoints, dag_rows, sessions
from holdfast.importing.formats.conversion import Conversion, Convert
from holdfast.jsontext.parse import parse_exact

__all__ = ["FORMATS", "Conversion", "convert", "recognise", "split_documents"]

_Shape = tuple[Callable[[Mapping[str, Any]], bool], Convert]

FORMATS: Mapping[str, _Shape] = {
    "checkpoint": (checkpoints.is_one, checkpoints.convert),
    "agentic-loop checkpoint": (agent_loops.is_one, agent_loops.convert),
    "workflow checkpoint": (sessions.is_one, sessions.convert),
    "checkpoint row": (dag_rows.is_one, dag_rows.convert),
    "task state": (builds.is_one, builds.convert),
}
"""What can be taken in, the most particular shape first."""


def split_documents(text: bytes) -> list[Any]:
    """Return what a file holds: one document, a list of them, the rows of a query, or a batch.

    Raises InvalidCheckpoint.
    """
    value = parse_exact(text.strip())
    if isinstance(value, dict):
        for name in ("checkpoints", "rows"):
            if isinstance(value.get(name), list):
                return list(value[name])
    return value if isinstance(value, list) else [value]


def recognise(document: Any) -> str | None:
    """Return the name of the format that a document has; None if it is none of ours."""
    if not isinstance(document, dict):
        return None
    return next((name for name, (is_one, _) in FORMATS.items() if is_one(document)), None)


def convert(document: Any, *, run_id: str | None = None) -> Conversion:
    """Return the checkpoint that a document of another system is. `run_id` is for those that name none.

    Raises InvalidCheckpoint with the reason why it cannot be taken in.
    """
    name = recognise(document)
    if name is None:
        raise InvalidCheckpoint("", f"it is none of these: {', '.join(FORMATS)}")
    _, convert_one = FORMATS[name]
    return convert_one(name, document, run_id)
