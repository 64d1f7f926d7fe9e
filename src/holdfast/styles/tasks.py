"""Tasks: a set of tasks by id, each with its own status."""

from typing import Any

from holdfast.styles.outlook import Outlook, Saved, Today, as_mapping, name_all

_STATUSES = ("pending", "in_progress", "completed", "failed")
_BEGUN = ("in_progress", "failed")


def plan(saved: Saved, _today: Today) -> Outlook:
    """Return the first task that is not completed; what was in progress or failed is repeated."""
    tasks = saved.progress.get("tasks")
    if not isinstance(tasks, dict):
        flaw = "progress.tasks is not an object: nothing says which tasks are completed"
        return Outlook(resume_at=None, completed=(), remaining=None, flaws=(flaw,))
    statuses = {task: _status(record) for task, record in tasks.items()}
    remaining = tuple(task for task, status in statuses.items() if status != "completed")
    first = next(iter(remaining), None)
    unclear = [task for task, status in statuses.items() if status not in _STATUSES]
    flaw = f"tasks without a known status are taken as not completed: {name_all(unclear)}"
    return Outlook(
        resume_at=first,
        completed=tuple(task for task, status in statuses.items() if status == "completed"),
        remaining=remaining,
        retry_current=first is not None and statuses[first] in _BEGUN,
        flaws=(flaw,) if unclear else (),
    )


def _status(record: Any) -> Any:
    return as_mapping(record).get("status")
