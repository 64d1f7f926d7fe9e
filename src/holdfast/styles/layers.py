"""Layers: a DAG whose tasks run layer by layer. Only completed tasks are stored, and which layer is next."""

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from holdfast.format.triggers import Trigger
from holdfast.styles.style import ResumePoint, Saved, Style, Today
from holdfast.styles.values import (
    Document,
    as_dict,
    as_index,
    as_list,
    as_mapping,
    as_sequence,
    name_all,
    number_of,
)

Layers = tuple[tuple[str, ...], ...]
_COMPLETED = frozenset({"completed", "complete", "done", "success", "succeeded", "ok", "skipped"})
_BROKEN_OFF = frozenset({Trigger.ERROR, Trigger.INTERRUPTED, Trigger.STEP_FAILED})


@dataclass(slots=True)
class _Findings:
    flaws: list[str] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)


def plan(saved: Saved, today: Today) -> ResumePoint:
    """Return the saved layer. In a DAG that has changed: the first layer with something left to do."""
    found = _Findings()
    layers = _stored_layers(saved, found)
    index = as_index(saved.progress.get("layer_index"))
    completed = _completed(saved, layers, index, found)
    present = _present_layers(today, found)
    if present is not None and present != layers:
        found.warnings += [] if layers is None else [_compare(layers, present, completed)]
        layers, index = present, _first_open(present, completed)
    if index is None:
        index = _first_open(layers or (), completed)
        found.flaws.append(f"progress.layer_index is not a layer's number: layer {index} was taken")
    if layers is not None and index > len(layers):
        found.flaws.append(f"progress.layer_index is {index}, but the DAG has {len(layers)} layers")
    return ResumePoint(
        resume_at=index,
        completed=completed,
        remaining=None if layers is None else _open_tasks(layers, completed),
        retry_current=_is_repeated(saved, layers, index, completed),
        flaws=tuple(found.flaws),
        warnings=tuple(found.warnings),
    )


def parse_layers(dag: Any) -> Layers | None:
    """Return the layers of a DAG, given as `{layers: [[task ids]]}` or as the list alone; None if neither.

    >>> parse_layers({"layers": [["a"], ["b", "c"]]})
    (('a',), ('b', 'c'))
    """
    layers = dag.get("layers") if isinstance(dag, dict) else dag
    if not isinstance(layers, list | tuple):
        return None
    if not all(isinstance(layer, list | tuple) for layer in layers):
        return None
    if not all(isinstance(task, str) for layer in layers for task in layer):
        return None
    return tuple(tuple(layer) for layer in layers)


def is_completed(task: Any) -> bool:
    """Whether a task's record says that it is done; one that says nothing of it is.

    >>> is_completed({"task_id": "a"}), is_completed({"task_id": "a", "status": "failed"})
    (True, False)
    """
    status = as_mapping(task).get("status")
    return status is None or str(status).lower() in _COMPLETED


def task_id_of(task: Any) -> str | None:
    """Return the id of a completed task's record, in either spelling."""
    identity = as_mapping(task).get("task_id", as_mapping(task).get("taskId"))
    return identity if isinstance(identity, str) else None


def _completed(saved: Saved, layers: Layers | None, index: int | None, found: _Findings) -> tuple[str, ...]:
    """Return the tasks that are recorded, and those of the layers before the saved one: they are done."""
    recorded = _recorded(saved, found)
    known = set(recorded)
    unfinished = _unfinished(saved)
    for layer in (layers or ())[: index or 0]:
        if open_tasks := [task for task in layer if task in unfinished]:
            found.warnings.append(f"a layer is done, but these of its tasks are not: {name_all(open_tasks)}")
        lacking = [task for task in layer if task not in known and task not in unfinished]
        if 0 < len(lacking) < len(layer):
            found.warnings.append(
                f"a layer is done, but has no record of these of its tasks: {name_all(lacking)}"
            )
        recorded += lacking
    return tuple(dict.fromkeys(recorded))


def _recorded(saved: Saved, found: _Findings) -> list[str]:
    tasks = saved.progress.get("tasks", [])
    if not isinstance(tasks, list):
        found.flaws.append("progress.tasks is not a list: no task is taken as completed")
    named = [task_id_of(task) for task in as_sequence(tasks)]
    if None in named:
        found.flaws.append("an entry of progress.tasks has no task_id: it is not taken as completed")
    done = [task_id_of(task) for task in as_sequence(tasks) if is_completed(task)]
    return [name for name in done if name is not None]


def _unfinished(saved: Saved) -> set[str]:
    """Return the tasks of which a record says that they are not done, and none that they are."""
    tasks = as_sequence(saved.progress.get("tasks"))
    done = {task_id_of(task) for task in tasks if is_completed(task)}
    return {name for task in tasks if (name := task_id_of(task)) is not None and name not in done}


def _stored_layers(saved: Saved, found: _Findings) -> Layers | None:
    stored = saved.progress.get("dag_structure")
    layers = parse_layers(stored)
    if stored is not None and layers is None:
        found.flaws.append("progress.dag_structure is not {layers: [[task ids]]}: what remains is not known")
    return layers


def _present_layers(today: Today, found: _Findings) -> Layers | None:
    present = parse_layers(today.dag)
    if today.dag is not None and present is None:
        found.warnings.append("the DAG that was given is not {layers: [[task ids]]}, so it was not compared")
    return present


def _compare(stored: Layers, present: Layers, completed: Sequence[str]) -> str:
    """Say how the DAG has changed, and which tasks no longer fit."""
    before, now = _places(stored), _places(present)
    gone = [task for task in before if task not in now]
    added = [task for task in now if task not in before]
    moved = [task for task in before if task in now and now[task] != before[task]]
    first_open = _first_open(present, completed)
    early = [task for task in completed if now.get(task, -1) > first_open]
    parts = ["the DAG has changed since the checkpoint"]
    parts += [f"no longer in it: {name_all(gone)}"] if gone else []
    parts += [f"new: {name_all(added)}"] if added else []
    parts += [f"in another layer: {name_all(moved)}"] if moved else []
    parts += [f"completed, but now after tasks that are not: {name_all(early)}"] if early else []
    return "; ".join(parts)


def _first_open(layers: Sequence[Iterable[str]], completed: Iterable[str]) -> int:
    done = set(completed)
    return next((place for place, layer in enumerate(layers) if not done.issuperset(layer)), len(layers))


def _open_tasks(layers: Layers, completed: Iterable[str]) -> tuple[str, ...]:
    done = set(completed)
    return tuple(dict.fromkeys(task for layer in layers for task in layer if task not in done))


def _is_repeated(saved: Saved, layers: Layers | None, index: int, completed: Sequence[str]) -> bool:
    """Whether the layer was begun already, so that a part of it runs a second time."""
    layer = layers[index] if layers and index < len(layers) else ()
    return saved.trigger in _BROKEN_OFF or not set(completed).isdisjoint(layer)


def _places(layers: Layers) -> dict[str, int]:
    return {task: place for place, layer in enumerate(layers) for task in layer}


def new_progress(
    layers: Iterable[Iterable[str]] = (), execution_config: Mapping[str, Any] | None = None
) -> Document:
    """Return the progress of a run that has not begun."""
    return {
        "style": "layers",
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
        progress["layer_index"] = _first_open(layers, _done_tasks(progress))
        progress["dag_structure"] = fresh["dag_structure"]
    return progress


def complete_task(progress: Document, task_id: str, result: object, now: str, duration_s: float) -> Document:
    """Return the progress with a task of the layer under way completed."""
    record = {"task_id": task_id, "result": result, "timestamp": now, "duration": duration_s}
    others = [task for task in progress["tasks"] if task.get("task_id") != task_id]
    return {**progress, "tasks": [*others, record]}


def complete_layer(progress: Document, index: int, *, output: Any = None) -> Document:
    """Return the progress with the layer completed, and its output, if it has one.

    A layer that is completed before an earlier one does not count: it runs again, because counting it would
    skip the earlier one. Its tasks are known all the same.
    """
    if output is not None:
        outputs = as_dict(progress.get("layer_outputs"))
        progress = {**progress, "layer_outputs": {**outputs, f"layer_{index}": output}}
    if index > progress["layer_index"]:
        return progress
    return {**progress, "layer_index": index + 1}


def repeat(progress: Mapping[str, Any], place: str) -> Mapping[str, Any]:
    """Return the progress at a completed layer, with all of its tasks to be done again."""
    number, tasks = number_of(place, "layer_"), progress.get("tasks")
    is_done = number is not None and number < (as_index(progress.get("layer_index")) or 0)
    if number is None or not is_done or not isinstance(tasks, list):
        return progress
    layers = parse_layers(progress.get("dag_structure")) or ()
    own = layers[number] if number < len(layers) else ()
    tasks = [task for task in tasks if task_id_of(task) not in own]
    return {**progress, "layer_index": number, "tasks": tasks}


def is_layer_done(progress: Document, index: int) -> bool:
    """Whether the layer, and all before it, are completed."""
    return bool(index < progress["layer_index"])


def is_task_done(progress: Document, task_id: str) -> bool:
    """Whether the task is completed."""
    return any(task.get("task_id") == task_id and is_completed(task) for task in progress["tasks"])


def _done_tasks(progress: Document) -> set[str]:
    """Return the tasks that are recorded, and those of the layers that were completed as a whole."""
    layers = as_list(as_dict(progress.get("dag_structure")).get("layers"))[: progress["layer_index"]]
    return {str(task.get("task_id")) for task in progress["tasks"] if is_completed(task)} | {
        str(task_id) for layer in layers for task_id in as_list(layer)
    }


def label(_state: Document, progress: Document) -> str:
    """Return the layer that is next."""
    return f"layer_{progress['layer_index']}"


STYLE = Style("layers", "Tasks", plan, restore, label, repeat=repeat)
