"""Progress of a run in layers: the layer that is next, and the tasks that are completed, never the others."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from holdfast.styles.progress.values import Document, as_dict, as_list

STYLE = "layers"


@dataclass(frozen=True, slots=True)
class TaskResult:
    """What a completed task left behind."""

    task_id: str
    result: Any
    completed_at: str
    duration_s: float


def new_progress(
    layers: Iterable[Iterable[str]] = (), execution_config: Mapping[str, Any] | None = None
) -> Document:
    """Return the progress of a run that has not begun."""
    return {
        "style": STYLE,
        "layer_index": 0,
        "dag_structure": {"layers": [list(layer) for layer in layers]},
        "tasks": [],
        "messages": [],
        "decisions": [],
        "context": {},
        "execution_config": dict(execution_config or {}),
    }


def restore(stored: Document, fresh: Document) -> Document:
    """Return the stored progress; the graph and the configuration that `fresh` gives, if any, count.

    The layers that were completed are those of the stored graph. If the graph is another one now, the run
    goes on at the first layer that has a task to do.
    """
    progress = {**fresh, **stored}
    for name in ("tasks", "messages", "decisions"):
        progress[name] = as_list(stored.get(name))
    progress["context"] = as_dict(stored.get("context"))
    index = stored.get("layer_index")
    progress["layer_index"] = index if isinstance(index, int) and index >= 0 else 0
    if fresh["execution_config"]:
        progress["execution_config"] = fresh["execution_config"]
    layers = fresh["dag_structure"]["layers"]
    if layers and fresh["dag_structure"] != stored.get("dag_structure"):
        done = _done_tasks(progress)
        unfinished = [index for index, layer in enumerate(layers) if not done.issuperset(layer)]
        progress["layer_index"] = unfinished[0] if unfinished else len(layers)
        progress["dag_structure"] = fresh["dag_structure"]
    return progress


def complete_task(progress: Document, done: TaskResult) -> Document:
    """Return the progress with a task of the layer under way completed."""
    record = {
        "task_id": done.task_id,
        "result": done.result,
        "timestamp": done.completed_at,
        "duration": done.duration_s,
    }
    others = [task for task in progress["tasks"] if task.get("task_id") != done.task_id]
    return {**progress, "tasks": [*others, record]}


def complete_layer(progress: Document, index: int) -> Document:
    """Return the progress with the layer completed.

    A layer that is completed before an earlier one is not counted: it runs again rather than that the earlier
    one is skipped. Its tasks are known all the same.
    """
    if index > progress["layer_index"]:
        return progress
    return {**progress, "layer_index": index + 1}


def is_layer_done(progress: Document, index: int) -> bool:
    """Tell whether the layer, and all before it, are completed."""
    return bool(index < progress["layer_index"])


def is_task_done(progress: Document, task_id: str) -> bool:
    """Tell whether the task is completed."""
    return any(task.get("task_id") == task_id for task in progress["tasks"])


def _done_tasks(progress: Document) -> set[str]:
    """Return the tasks that are recorded, and those of the layers that were completed as a whole."""
    layers = as_list(as_dict(progress.get("dag_structure")).get("layers"))[: progress["layer_index"]]
    return {str(task.get("task_id")) for task in progress["tasks"]} | {
        str(task_id) for layer in layers for task_id in as_list(layer)
    }
