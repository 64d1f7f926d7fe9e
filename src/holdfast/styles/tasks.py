"""Tasks: a set of tasks by id, each with its status, its times and its error."""

from collections.abc import Iterable, Mapping
from typing import Any

from holdfast.styles.style import ResumePoint, Saved, Style, Today
from holdfast.styles.values import Document, as_dict, as_mapping, name_all

_STATUSES = ("pending", "in_progress", "completed", "failed")
IDEMPOTENT = "idempotent"
"""False in the record of a task that must not be done twice, while it is under way."""
_BEGUN = ("in_progress", "failed")


def plan(saved: Saved, _today: Today) -> ResumePoint:
    """Return the first task that is not completed; what was in progress or failed is repeated."""
    tasks = saved.progress.get("tasks")
    if not isinstance(tasks, dict):
        flaw = "progress.tasks is not an object: nothing says which tasks are completed"
        return ResumePoint(resume_at=None, completed=(), remaining=None, flaws=(flaw,))
    statuses = {task: _status(record) for task, record in tasks.items()}
    remaining = tuple(task for task, status in statuses.items() if status != "completed")
    first = next(iter(remaining), None)
    unclear = [task for task, status in statuses.items() if status not in _STATUSES]
    flaw = f"tasks without a known status are taken as not completed: {name_all(unclear)}"
    return ResumePoint(
        resume_at=first,
        completed=tuple(task for task, status in statuses.items() if status == "completed"),
        remaining=remaining,
        retry_current=first is not None and statuses[first] in _BEGUN,
        flaws=(flaw,) if unclear else (),
    )


def _status(record: Any) -> Any:
    return as_mapping(record).get("status")


def new_progress(task_ids: Iterable[str] = (), metadata: Mapping[str, Any] | None = None) -> Document:
    """Return the progress of a run that has not begun; the tasks that are named are pending."""
    return {
        "style": "tasks",
        "tasks": {task_id: _record("pending") for task_id in task_ids},
        "metadata": dict(metadata or {}),
    }


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress, with the tasks of `fresh` that it does not know as pending."""
    tasks = {**as_dict(fresh["tasks"]), **as_dict(stored.get("tasks"))}
    return {**fresh, **stored, "tasks": tasks, "metadata": as_dict(stored.get("metadata"))}


def begin(progress: Document, task_id: str, now: str, *, is_idempotent: bool = True) -> Document:
    """Return the progress with the task in progress, whatever it was before.

    One that is not idempotent is marked as such until it has ended: if it is cut off, a person decides.
    """
    record = _record("in_progress", started_at=now)
    return _with(progress, task_id, record if is_idempotent else {**record, IDEMPOTENT: False})


def complete(progress: Document, task_id: str, now: str, *, output: Any = None) -> Document:
    """Return the progress with the task completed, and its output, if it has one."""
    record = _record("completed", _started_at(progress, task_id), now)
    return _with(progress, task_id, record if output is None else {**record, "output": output})


def fail(progress: Document, task_id: str, now: str, error: str) -> Document:
    """Return the progress with the task failed."""
    return _with(progress, task_id, _record("failed", _started_at(progress, task_id), now, error))


def cut_off(progress: Mapping[str, Any]) -> list[str]:
    """Return the tasks that are under way, or were when the run ended, and must not be done twice."""
    return [
        task_id
        for task_id, record in as_mapping(progress.get("tasks")).items()
        if _status(record) == "in_progress" and as_mapping(record).get(IDEMPOTENT) is False
    ]


def settle(progress: Mapping[str, Any], *, are_done: bool) -> Document:
    """Return the progress once a person has said whether those that were cut off are done."""
    status = "completed" if are_done else "pending"
    tasks = dict(as_mapping(progress.get("tasks")))
    for task_id in cut_off(progress):
        kept = {name: value for name, value in tasks[task_id].items() if name != IDEMPOTENT}
        tasks[task_id] = {**kept, "status": status}
    return {**progress, "tasks": tasks}


def repeat(progress: Mapping[str, Any], task_id: str) -> Mapping[str, Any]:
    """Return the progress with a completed task pending again."""
    tasks = as_mapping(progress.get("tasks"))
    if _status(tasks.get(task_id)) != "completed":
        return progress
    pending = {**tasks[task_id], "status": "pending", "completed_at": None}
    return {**progress, "tasks": {**tasks, task_id: pending}}


def is_done(progress: Document, task_id: str) -> bool:
    """Whether the task is completed."""
    record = progress["tasks"].get(task_id)
    return isinstance(record, dict) and record.get("status") == "completed"


def label(_state: Document, progress: Document) -> str | None:
    """Return the id of the first task that is not completed, or of the last one."""
    every = list(progress["tasks"])
    unfinished = [task_id for task_id in every if not is_done(progress, task_id)]
    return next(iter(unfinished or every[-1:]), None)


def _started_at(progress: Document, task_id: str) -> str | None:
    started_at = progress["tasks"].get(task_id, {}).get("started_at")
    return started_at if isinstance(started_at, str) else None


def _record(
    status: str, started_at: str | None = None, completed_at: str | None = None, error: str | None = None
) -> Document:
    return {"status": status, "started_at": started_at, "completed_at": completed_at, "error": error}


def _with(progress: Document, task_id: str, record: Document) -> Document:
    return {**progress, "tasks": {**progress["tasks"], task_id: record}}


STYLE = Style("tasks", "Tasks", plan, restore, label, repeat=repeat)
