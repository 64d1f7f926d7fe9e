"""A row of `workflow_checkpoints`: a DAG executor's state after a layer, its columns as JSON or as text."""

from collections.abc import Mapping
from typing import Any

from holdfast.errors import InvalidCheckpoint
from holdfast.importing.formats.conversion import Builder, Conversion, rename
from holdfast.jsontext.parse import parse_exact

_TASK_NAMES = {"taskId": "task_id", "durationMs": "duration_ms"}
_DEPENDENCIES = ("depends_on", "dependsOn", "dependencies")


def is_one(document: Mapping[str, Any]) -> bool:
    """Whether a document is one: a layer's number, a state and the structure of a DAG."""
    has_layer = "layer_index" in document or "layerIndex" in document
    return has_layer and "state" in document and ("dag_structure" in document or "dagStructure" in document)


def convert(format_name: str, document: Mapping[str, Any], run_id: str | None) -> Conversion:
    """Return it as a checkpoint of the style `layers`. Raises InvalidCheckpoint."""
    builder = Builder(format_name, document)
    state = _column(builder, "state")
    dag = _column(builder, "dag_structure", "dagStructure")
    layer = builder.take_number("layer_index", "layerIndex")
    progress = {
        "style": "layers",
        "layer_index": layer,
        "dag_structure": _structure(dag, builder),
        "tasks": [rename(task, _TASK_NAMES) for task in state.get("tasks") or []],
        "messages": state.get("messages") or [],
        "decisions": state.get("decisions") or [],
        "context": state.get("context") or {},
        "execution_config": _column(builder, "execution_config", "executionConfig"),
    }
    others = ("tasks", "messages", "decisions", "context", "checkpoint_id")
    rest = {name: value for name, value in state.items() if name not in others}
    return builder.build(
        checkpoint_id=builder.identify("id"),
        run_id=builder.name_run(run_id, "workflow_id", "workflowId"),
        timestamp=builder.tell_time("timestamp"),
        trigger="layer_complete",
        phase=f"layer_{layer.text}",
        state_snapshot={"progress": {**progress, **rest}},
    )


def _column(builder: Builder, *names: str) -> dict[str, Any]:
    """Return a column, which a client may have given as JSON text. Raises InvalidCheckpoint."""
    value = builder.take(*names)
    if isinstance(value, str):
        value = parse_exact(value.encode(), names[0])
    if value is None:
        return {}
    if not isinstance(value, dict):
        raise InvalidCheckpoint(names[0], "it is not a JSON object")
    return value


def _structure(dag: Mapping[str, Any], builder: Builder) -> dict[str, Any]:
    """Return the structure with its layers as lists of ids, worked out from the dependencies if need be."""
    layers = dag.get("layers")
    if isinstance(layers, list) and all(isinstance(layer, list) for layer in layers):
        return {**dag, "layers": [[_id_of(task) for task in layer] for layer in layers]}
    tasks = dag.get("tasks")
    worked_out = _arrange(tasks) if isinstance(tasks, list) else None
    if worked_out is None:
        builder.notes.append("dag_structure has neither layers nor tasks that can be put into layers")
        return dict(dag)
    builder.notes.append("the layers were worked out from the dependencies of the tasks")
    return {**dag, "layers": worked_out}


def _id_of(task: Any) -> Any:
    if isinstance(task, dict):
        return next((task[name] for name in ("id", "task_id", "taskId") if name in task), None)
    return task


def _arrange(tasks: list[Any]) -> list[list[str]] | None:
    """Put tasks into layers, each after those it depends on; None if they wait for one another."""
    waiting = {_id_of(task): set(_dependencies_of(task)) for task in tasks}
    if not all(isinstance(task, str) for task in waiting):
        return None
    layers: list[list[str]] = []
    done: set[str] = set()
    while waiting:
        layer = [task for task, needed in waiting.items() if needed <= done]
        if not layer:
            return None
        layers.append(layer)
        done.update(layer)
        waiting = {task: needed for task, needed in waiting.items() if task not in done}
    return layers


def _dependencies_of(task: Any) -> list[str]:
    if not isinstance(task, dict):
        return []
    lists = [task[name] for name in _DEPENDENCIES if isinstance(task.get(name), list)]
    return [each for each in (lists[0] if lists else []) if isinstance(each, str)]
