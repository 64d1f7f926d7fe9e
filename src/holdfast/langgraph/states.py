"""What is stored of a checkpoint and of writes, as states of Holdfast, and back.

A record's state has the `channel_values` as members, and everything else that LangGraph needs under
`langgraph`.
"""

from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import (
    WRITES_IDX_MAP,
    Checkpoint,
    CheckpointMetadata,
    CheckpointTuple,
    PendingWrite,
    get_checkpoint_metadata,
)
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.langgraph.names import Kind, Place, format_phase, name_place
from holdfast.langgraph.values import decode_members, decode_value, encode_members, encode_value

_DETAILS = "langgraph"
_VALUES = "channel_values"

State = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class Target:
    """What a config points at."""

    thread_id: str
    namespace: str
    checkpoint_id: str | None


@dataclass(frozen=True, slots=True)
class Record:
    """A state to be saved, and the phase that says what it is."""

    phase: str
    state: dict[str, Any]


def read_target(config: RunnableConfig) -> Target:
    """Return what a config points at. Raises KeyError if it names no thread, as LangGraph's own savers do."""
    chosen = config["configurable"]
    checkpoint_id = chosen.get("checkpoint_id")
    return Target(
        str(chosen["thread_id"]),
        str(chosen.get("checkpoint_ns") or ""),
        str(checkpoint_id) if checkpoint_id else None,
    )


def make_config(thread_id: str, namespace: str, checkpoint_id: str) -> RunnableConfig:
    """Return the config that points at one checkpoint."""
    return {
        "configurable": {
            "thread_id": thread_id,
            "checkpoint_ns": namespace,
            "checkpoint_id": checkpoint_id,
        }
    }


def write_checkpoint(
    config: RunnableConfig,
    checkpoint: Checkpoint,
    metadata: CheckpointMetadata,
    serde: SerializerProtocol,
) -> Record:
    """Return the record of a checkpoint; the one that `config` points at is its parent."""
    target = read_target(config)
    others: dict[str, Any] = {name: value for name, value in checkpoint.items() if name != _VALUES}
    whole_metadata: dict[str, Any] = dict(get_checkpoint_metadata(config, metadata))
    details = {
        "thread_id": target.thread_id,
        "checkpoint_ns": target.namespace,
        "checkpoint_id": checkpoint["id"],
        "parent_checkpoint_id": target.checkpoint_id,
        "checkpoint": encode_members(others, serde),
        "metadata": encode_members(whole_metadata, serde),
    }
    phase = format_phase(Kind.CHECKPOINT, name_place(target.namespace, checkpoint["id"]))
    return Record(phase, {_VALUES: encode_members(checkpoint["channel_values"], serde), _DETAILS: details})


def write_writes(
    config: RunnableConfig,
    writes: Sequence[tuple[str, Any]],
    task_id: str,
    task_path: str,
    serde: SerializerProtocol,
) -> Record:
    """Return the record of what a task has written for the checkpoint that `config` points at."""
    target = read_target(config)
    checkpoint_id = target.checkpoint_id or ""
    details = {
        "thread_id": target.thread_id,
        "checkpoint_ns": target.namespace,
        "checkpoint_id": checkpoint_id,
        "task_id": task_id,
        "task_path": task_path,
        "writes": [
            [WRITES_IDX_MAP.get(channel, number), channel, encode_value(value, serde)]
            for number, (channel, value) in enumerate(writes)
        ],
    }
    phase = format_phase(Kind.WRITES, name_place(target.namespace, checkpoint_id))
    return Record(phase, {_DETAILS: details})


def write_deletion(thread_id: str, places: Collection[Place]) -> Record:
    """Return the record that takes checkpoints, and the writes for them, out of a thread."""
    deleted = [[place.namespace, place.checkpoint_id] for place in places]
    return Record(format_phase(Kind.DELETED), {_DETAILS: {"thread_id": thread_id, "deleted": deleted}})


def read_deletion(state: State) -> list[Place]:
    """Return what a deletion has taken out."""
    return [
        Place(namespace, checkpoint_id) for namespace, checkpoint_id in _details(state).get("deleted", ())
    ]


def move_record(state: State, thread_id: str) -> dict[str, Any]:
    """Return the same state as one of another thread."""
    return {**state, _DETAILS: {**_details(state), "thread_id": thread_id}}


def read_thread_id(state: State) -> str | None:
    """Return the thread that a record belongs to; None if it is not a record of a thread."""
    thread_id = _details(state).get("thread_id")
    return thread_id if isinstance(thread_id, str) else None


def read_parent(state: State) -> str | None:
    """Return the id of the checkpoint that came before the one in this record."""
    parent: str | None = _details(state).get("parent_checkpoint_id")
    return parent


def read_metadata(state: State, serde: SerializerProtocol) -> dict[str, Any]:
    """Return the metadata of the checkpoint in this record."""
    return decode_members(_details(state).get("metadata", {}), serde)


def read_tuple(state: State, writes: Iterable[State], serde: SerializerProtocol) -> CheckpointTuple:
    """Return a checkpoint as LangGraph wants it, from its record and those of the writes for it."""
    details = _details(state)
    thread_id, namespace = details["thread_id"], details["checkpoint_ns"]
    parent = read_parent(state)
    checkpoint: Any = {
        **decode_members(details["checkpoint"], serde),
        _VALUES: decode_members(dict(state[_VALUES]), serde),
    }
    metadata: Any = read_metadata(state, serde)
    return CheckpointTuple(
        config=make_config(thread_id, namespace, details["checkpoint_id"]),
        checkpoint=checkpoint,
        metadata=metadata,
        parent_config=make_config(thread_id, namespace, parent) if parent else None,
        pending_writes=_merge_writes(writes, serde),
    )


def _merge_writes(records: Iterable[State], serde: SerializerProtocol) -> list[PendingWrite]:
    """Return all writes. The first of a task counts; of errors, interrupts and the like the last."""
    merged: dict[tuple[str, int], tuple[str, str, Any]] = {}
    for record in records:
        details = _details(record)
        for number, channel, value in details["writes"]:
            key = (details["task_id"], number)
            if number < 0 or key not in merged:
                merged[key] = (details["task_path"], channel, value)
    # By task path, task and number: the order in which LangGraph itself applies them.
    ordered = sorted(merged.items(), key=lambda each: (each[1][0], *each[0]))
    return [(task_id, channel, decode_value(value, serde)) for (task_id, _), (_, channel, value) in ordered]


def _details(state: State) -> Mapping[str, Any]:
    details: Mapping[str, Any] = state.get(_DETAILS) or {}
    return details
