"""The `state.json` of a build: tasks by id, each with its status, its times and its error."""

from collections.abc import Mapping
from typing import Any

from holdfast.importing.formats.conversion import Builder, Conversion

_STATUSES = {
    "pending": "in_progress",
    "running": "in_progress",
    "in_progress": "in_progress",
    "completed": "completed",
    "failed": "failed",
}
_TRIGGERS = {"in_progress": "task_change", "completed": "run_complete", "failed": "error"}
# What Go writes for a time that was never set.
_NEVER = "0001-01-01T00:00:00Z"


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether a document is one: an id, a status, and tasks that have one each."""
    tasks = document.get("tasks")
    return isinstance(tasks, dict) and "id" in document and "status" in document


def convert(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return it as a checkpoint of the style `tasks`. Raises InvalidCheckpoint."""
    builder = Builder(format_name, document)
    stated = builder.take("status")
    status = _STATUSES.get(stated) if isinstance(stated, str) else None
    if status is None:
        builder.notes.append(f"the status {stated!r} is not known: taken as in_progress")
        status = "in_progress"
    progress = {
        "style": "tasks",
        "tasks": {task: _task(task, record) for task, record in builder.take("tasks").items()},
        "metadata": builder.take("metadata") or {},
    }
    # A build has one file that is written again and again, so its id tells the run, not the checkpoint.
    return builder.build(
        checkpoint_id=builder.identify("checkpoint_id"),
        run_id=builder.name_run(run_id, "id"),
        timestamp=builder.tell_time("updated_at", "created_at"),
        trigger=_TRIGGERS[status],
        status=status,
        state_snapshot={"progress": progress},
    )


def _task(task: str, record: Any) -> Any:
    """Return the record without the id that it is found under, and without times that never were."""
    if not isinstance(record, dict):
        return record
    kept = {name: value for name, value in record.items() if not (name == "id" and value == task)}
    return {name: None if value == _NEVER else value for name, value in kept.items()}
