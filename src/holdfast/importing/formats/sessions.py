"""The `checkpoint.json` of a workflow session, as Rust writes it: tagged enums, durations in two parts."""

import re
from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.format.triggers import parse_trigger
from holdfast.importing.formats.conversion import Builder, Conversion
from holdfast.jsontext.parse import Number

_KINDS = ("before_step", "completed", "failed", "interrupted")
_TYPES = ("standard", "iterative", "mapreduce")
_STATUSES = {"failed": "failed", "interrupted": "interrupted"}
_TRIGGERS = {
    "before_step": "before_step",
    "completed": "step_complete",
    "failed": "step_failed",
    "interrupted": "interrupted",
}
_TAGS = ("kind", "type")


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether a document is one: a session with a state and completed steps."""
    return all(name in document for name in ("session_id", "state", "completed_steps"))


def convert(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return it as a checkpoint of the style `steps`. Raises InvalidCheckpoint."""
    builder = Builder(format_name, document)
    steps = [_step(record) for record in builder.take("completed_steps") or []]
    state = _state(builder, steps)
    kind = str(state["kind"])
    workflow_path = builder.take("workflow_path")
    progress = {
        "style": "steps",
        "state": state,
        "completed_steps": steps,
        "variables": builder.take("variables") or {},
        "workflow_path": workflow_path,
        "working_directory": builder.take("worktree_path", "working_directory"),
        "workflow_type": _workflow_type(builder),
        "mapreduce_state": builder.take("mapreduce_state"),
    }
    step = state["step_index"]
    return builder.build(
        checkpoint_id=builder.identify("checkpoint_id"),
        run_id=builder.name_run(run_id, "session_id"),
        timestamp=builder.tell_time("created_at"),
        trigger=_trigger(builder, kind),
        phase=f"step_{step.text if isinstance(step, Number) else step}",
        status=_STATUSES.get(kind, "in_progress"),
        workflow=workflow_path if isinstance(workflow_path, str) else None,
        state_snapshot={"progress": progress},
    )


def parse_variant(value: Any) -> tuple[str, dict[str, Any]] | None:
    """Return the name and the fields of an enum's value, however it is tagged; None if it is none.

    >>> parse_variant({"Failed": {"step_index": 3}}), parse_variant("MapReduce")
    (('failed', {'step_index': 3}), ('map_reduce', {}))
    >>> parse_variant({"type": "before_step", "step_index": 3})
    ('before_step', {'step_index': 3})
    """
    if isinstance(value, str):
        return _snake(value), {}
    if not isinstance(value, dict):
        return None
    for tag in _TAGS:
        if isinstance(value.get(tag), str):
            return _snake(value[tag]), {name: each for name, each in value.items() if name != tag}
    if len(value) == 1:
        ((name, fields),) = value.items()
        if isinstance(fields, dict):
            return _snake(name), fields
    return None


def parse_duration_s(value: Any) -> Any:
    """Return a duration in seconds, to the last digit.

    >>> parse_duration_s({"secs": Number("2"), "nanos": Number("50000000")}), parse_duration_s(Number("1.50"))
    (2.05, 1.50)
    """
    if not isinstance(value, dict):
        return value
    parts = [value.get("secs"), value.get("nanos", Number("0"))]
    texts = [part.text for part in parts if isinstance(part, Number) and part.text.isdigit()]
    if len(texts) != len(parts):
        return value
    fraction = f"{texts[1]:0>9}".rstrip("0")
    return Number(f"{texts[0]}.{fraction}" if fraction else texts[0])


def _state(builder: Builder, steps: list[Any]) -> dict[str, Any]:
    variant = parse_variant(builder.take("state"))
    if variant is None or variant[0] not in _KINDS:
        raise InvalidCheckpoint("state", f"it is none of {', '.join(_KINDS)}")
    kind, fields = variant
    if not isinstance(fields.get("step_index"), Number):
        following = _next_step(steps)
        builder.notes.append(f"the state names no step: {following}, after the last completed one, was taken")
        fields = {**fields, "step_index": following}
    return {"kind": kind, **fields}


def _next_step(steps: list[Any]) -> int:
    indexes = [record.get("step_index") for record in steps if isinstance(record, dict)]
    return max((int(index.text) for index in indexes if isinstance(index, Number)), default=-1) + 1


def _step(record: Any) -> Any:
    if not isinstance(record, dict) or "duration" not in record:
        return record
    renamed = {"duration_s" if name == "duration" else name: value for name, value in record.items()}
    return {**renamed, "duration_s": parse_duration_s(record["duration"])}


def _workflow_type(builder: Builder) -> dict[str, Any]:
    stated = builder.take("workflow_type")
    name, fields = parse_variant(stated) or ("", {})
    kind = name.replace("_", "")
    if kind in _TYPES:
        return {"kind": kind, **fields}
    if stated is not None:
        builder.notes.append("the workflow_type is not known: taken as standard")
    return {"kind": "standard"}


def _trigger(builder: Builder, kind: str) -> str:
    reason = builder.take("reason")
    if isinstance(reason, str):
        try:
            return parse_trigger(reason).value
        except ValueError:
            builder.notes.append(f"the reason {reason!r} is not known: taken from the state")
    return _TRIGGERS[kind]


def _snake(name: str) -> str:
    return re.sub(r"(?<=[a-z])(?=[A-Z])", "_", name).lower()
