"""What workflow sessions wrote before they had one format: their session state, and their checkpoint files.

The session state says `current_step`, the checkpoint file has an `execution_state`; both list completed
steps, as records, as indexes or by name.
"""

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.importing.formats.conversion import Builder, Conversion
from holdfast.importing.formats.sessions import parse_duration_s, parse_variant
from holdfast.jsontext.parse import Number

_CURRENT = ("current_step", "current_step_index")
_KINDS = {
    "failed": "failed",
    "interrupted": "interrupted",
    "paused": "interrupted",
    "cancelled": "interrupted",
}
_TRIGGERS = {"before_step": "before_step", "failed": "step_failed", "interrupted": "interrupted"}
_RUN = ("session_id", "run_id", "workflow_id", "id")


def is_state(document: Mapping[str, Any]) -> bool:
    """Whether a document is a session's state, by itself or within its session."""
    inner = document.get("workflow_state", document)
    return isinstance(inner, dict) and "current_step" in inner and "completed_steps" in inner


def is_file(document: Mapping[str, Any]) -> bool:
    """Whether a document is an earlier checkpoint file."""
    return "execution_state" in document and "completed_steps" in document


def convert_state(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return a session's state as a checkpoint of the style `steps`. Raises InvalidCheckpoint."""
    inner = document.get("workflow_state")
    whole = {**document, **inner} if isinstance(inner, dict) else document
    flat = {name: value for name, value in whole.items() if name != "workflow_state"}
    builder = Builder(format_name, flat)
    return _convert(builder, run_id, builder.take_number("current_step"), builder.take("status"))


def convert_file(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return an earlier checkpoint file as a checkpoint of the style `steps`. Raises InvalidCheckpoint."""
    builder = Builder(format_name, document)
    execution = builder.take("execution_state")
    if not isinstance(execution, dict):
        raise InvalidCheckpoint("execution_state", "it is no object that says which step is next")
    at = next((execution[name] for name in _CURRENT if isinstance(execution.get(name), Number)), None)
    if at is None or not at.text.isdigit():
        raise InvalidCheckpoint("execution_state.current_step", "it is not a whole number from 0 on")
    conversion = _convert(builder, run_id, at, execution.get("status"), execution.get("total_steps"))
    context = dict(conversion.checkpoint["context_fields"]["imported"])
    kept = {"imported": {**context, "execution_state": execution}}
    return Conversion(conversion.format, {**conversion.checkpoint, "context_fields": kept}, conversion.notes)


def _convert(
    builder: Builder, run_id: str | None, current: Number, status: Any, total: Any = None
) -> Conversion:
    stated, _ = parse_variant(status) or ("", {})
    kind = _KINDS.get(stated, "before_step")
    completed = [_step(index, record) for index, record in enumerate(builder.take("completed_steps") or [])]
    workflow_path = builder.take("workflow_path")
    progress = {
        "style": "steps",
        "state": _state(kind, current, builder),
        "completed_steps": [record for record in completed if record.get("success") is not False],
        "failed_steps": [],
        "variables": builder.take("variables", "variable_state", "captured_outputs") or {},
        "workflow_path": workflow_path,
        "working_directory": builder.take("worktree_path", "working_directory"),
        "workflow_type": {"kind": "standard"},
        "mapreduce_state": builder.take("mapreduce_state"),
    }
    if isinstance(total, Number):
        progress["total_steps"] = total
    is_done = stated in ("completed", "complete", "success")
    return builder.build(
        checkpoint_id=builder.identify("checkpoint_id"),
        run_id=builder.name_run(run_id, *_RUN),
        timestamp=builder.tell_time("timestamp", "updated_at", "created_at", "last_checkpoint"),
        trigger="run_complete" if is_done else _TRIGGERS[kind],
        phase=f"step_{current.text}",
        status="completed" if is_done else kind if kind in ("failed", "interrupted") else "in_progress",
        workflow=workflow_path if isinstance(workflow_path, str) else None,
        state_snapshot={"progress": progress},
    )


def _state(kind: str, current: Number, builder: Builder) -> dict[str, Any]:
    state: dict[str, Any] = {"kind": kind, "step_index": current}
    if kind == "failed":
        error = builder.take("error", "error_message")
        return {**state, "error": error if isinstance(error, str) else "not told", "retryable": True}
    return {**state, "in_progress": True} if kind == "interrupted" else state


def _step(place: int, record: Any) -> dict[str, Any]:
    """Return what is known of a completed step: a record, an index, or a name in its place."""
    if isinstance(record, Number):
        return {"step_index": record}
    if not isinstance(record, dict):
        return {"step_index": place, "command": record}
    named = {"duration_s" if name == "duration" else name: value for name, value in record.items()}
    if "duration" in record:
        named["duration_s"] = parse_duration_s(record["duration"])
    return named if "step_index" in named else {"step_index": place, **named}
