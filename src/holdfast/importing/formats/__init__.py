"""Checkpoints of other systems: recognised by their shape, and converted without a digit being changed."""

from collections.abc import Callable, Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.importing.formats import agent_loops, builds, dag_rows, earlier_sessions, sessions
from holdfast.importing.formats.conversion import Builder, Conversion
from holdfast.jsontext.parse import parse_exact

__all__ = ["FORMATS", "Conversion", "convert", "name_format", "recognise", "split_documents"]


def _is_checkpoint(document: Mapping[str, Any]) -> bool:
    return "trigger" in document and ("state_snapshot" in document or "state" in document)


def _keep_checkpoint(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return a checkpoint of the specification as it is, with an id if it has none; the run numbers it."""
    builder = Builder(format_name, document)
    checkpoint_id = builder.identify("checkpoint_id")
    run = builder.name_run(run_id, "run_id")
    # The number belongs to the place where it was stored; with another number the integrity is another too.
    left_out = ("sequence_number", "integrity")
    kept = {name: value for name, value in document.items() if name not in left_out}
    return Conversion(
        format_name, {**kept, "checkpoint_id": checkpoint_id, "run_id": run}, tuple(builder.notes)
    )


FORMATS: Mapping[
    str,
    tuple[Callable[[Mapping[str, Any]], bool], Callable[[str, Mapping[str, Any], str | None], Conversion]],
] = {
    "checkpoint": (_is_checkpoint, _keep_checkpoint),
    "agentic-loop checkpoint": (agent_loops.is_one, agent_loops.convert),
    "workflow checkpoint": (sessions.is_one, sessions.convert),
    "earlier workflow checkpoint": (earlier_sessions.is_file, earlier_sessions.convert_file),
    "workflow session state": (earlier_sessions.is_state, earlier_sessions.convert_state),
    "checkpoint row": (dag_rows.is_one, dag_rows.convert),
    "task state": (builds.is_one, builds.convert),
}
"""What can be taken in, the most particular shape first: how to recognise it, and how to convert it."""


def split_documents(text: bytes) -> list[Any]:
    """Return what a file holds: one document, a list of them, the rows of a query, a batch, or JSON lines.

    Raises InvalidCheckpoint.
    """
    try:
        value = parse_exact(text.strip())
    except InvalidCheckpoint:
        lines = _parse_lines(text)
        if lines is None:
            raise
        return lines
    if isinstance(value, dict):
        for name in ("checkpoints", "rows"):
            if isinstance(value.get(name), list):
                return list(value[name])
    return value if isinstance(value, list) else [value]


def _parse_lines(text: bytes) -> list[Any] | None:
    """Return the documents of JSON lines; None if it is one line, or the first of them is no document.

    Raises InvalidCheckpoint with the number of a line that is not JSON.
    """
    lines = [(number, line) for number, line in enumerate(text.splitlines(), 1) if line.strip()]
    documents: list[Any] = []
    for number, line in lines if len(lines) > 1 else []:
        try:
            documents.append(parse_exact(line.strip()))
        except InvalidCheckpoint as error:
            if not documents:
                return None
            raise InvalidCheckpoint(f"line {number}", error.reason) from error
    return documents or None


def recognise(document: Any) -> str | None:
    """Return the name of the format that a document has; None if it is none of ours."""
    if not isinstance(document, dict):
        return None
    return next((name for name, (is_one, _) in FORMATS.items() if is_one(document)), None)


def name_format(document: Any) -> str | None:
    """Return what a document looks like, such as "an agentic-loop checkpoint"; None if nobody knows it.

    >>> name_format({"execution_state": {}, "completed_steps": []})
    'an earlier workflow checkpoint'
    """
    found = recognise(document)
    return found and f"{'an' if found[0] in 'aeiou' else 'a'} {found}"


def convert(document: Any, *, run_id: str | None = None) -> Conversion:
    """Return the checkpoint that a document of another system is. `run_id` is for those that name none.

    Raises InvalidCheckpoint with the reason why it cannot be taken in.
    """
    name = recognise(document)
    if name is None:
        raise InvalidCheckpoint("", f"it is none of these: {', '.join(FORMATS)}")
    _, convert_one = FORMATS[name]
    return convert_one(name, document, run_id)
