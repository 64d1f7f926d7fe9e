"""HoldfastSaver: what LangGraph calls to save the state of a graph, and to find it again."""

import builtins
from collections.abc import Iterator, Sequence
from itertools import groupby, islice
from typing import Any, Self

from langchain_core.runnables import RunnableConfig
from langgraph.checkpoint.base import ChannelVersions, Checkpoint, CheckpointMetadata, CheckpointTuple
from langgraph.checkpoint.serde.base import SerializerProtocol

from holdfast.langgraph.asynchronous import AsynchronousSaver
from holdfast.langgraph.cleansing_serializer import CleansingSerializer
from holdfast.langgraph.names import Place, spell_namespace
from holdfast.langgraph.states import (
    make_config,
    read_metadata,
    read_parent,
    read_target,
    read_tuple,
    write_checkpoint,
    write_writes,
)
from holdfast.langgraph.thread_index import Filed
from holdfast.langgraph.thread_store import Thread, ThreadStore
from holdfast.library import Holdfast

# How many checkpoints are read at a time when many are listed.
_READ_AT_ONCE = 20
# Graphs with delta channels have this in their metadata: their values are spread over older checkpoints.
_DELTA_COUNTERS = "counters_since_delta_snapshot"


class HoldfastSaver(AsynchronousSaver):
    """Keeps the threads of LangGraph as runs of a Holdfast.

    Whatever is put is safe on the local disk when the call returns, and can be read back at once; a drain
    takes it to GitHub, where other machines find it. Values that are JSON are stored as they are, others by
    `serde`: LangGraph's own serializer unless given, which never uses pickle. Closing the saver closes a
    Holdfast that `from_env` has opened, never one that was handed in.
    """

    def __init__(self, holdfast: Holdfast, *, serde: SerializerProtocol | None = None) -> None:
        super().__init__(serde=serde)
        self.holdfast = holdfast
        self._store = ThreadStore(holdfast)
        self._is_owner = False

    @classmethod
    def from_env(cls, *, serde: SerializerProtocol | None = None) -> Self:
        """Return one that is set up by HOLDFAST_… variables and holdfast.toml; close it after use."""
        saver = cls(Holdfast.from_env(), serde=serde)
        saver._is_owner = True
        return saver

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the Holdfast that `from_env` opened. What is spooled stays spooled."""
        if self._is_owner:
            self.holdfast.close()

    @property
    def _writing_serde(self) -> SerializerProtocol:
        return CleansingSerializer(self.serde, self.holdfast.redact_text)

    def put(
        self,
        config: RunnableConfig,
        checkpoint: Checkpoint,
        metadata: CheckpointMetadata,
        new_versions: ChannelVersions,
    ) -> RunnableConfig:
        """Save a checkpoint; return once it is on disk, with the config that points at it."""
        del new_versions  # every checkpoint has all values, changed or not
        target = read_target(config)
        record = write_checkpoint(config, checkpoint, metadata, self._writing_serde)
        self._store.save(target.thread_id, record, is_checkpoint=True)
        return make_config(target.thread_id, target.namespace, checkpoint["id"])

    def put_writes(
        self, config: RunnableConfig, writes: Sequence[tuple[str, Any]], task_id: str, task_path: str = ""
    ) -> None:
        """Save what a task has written for a checkpoint; return once it is on disk."""
        record = write_writes(config, writes, task_id, task_path, self._writing_serde)
        self._store.save(read_target(config).thread_id, record, is_checkpoint=False)

    def get_tuple(self, config: RunnableConfig) -> CheckpointTuple | None:
        """Return the checkpoint that a config points at, the newest unless it names one; None if none is."""
        target = read_target(config)
        thread = self._store.look(target.thread_id)
        if thread is None:
            return None
        filed = thread.index.find(spell_namespace(target.namespace), target.checkpoint_id)
        if filed is None:
            return None
        ((state, writes),) = thread.read_all([filed])
        return read_tuple(state, writes, self.serde)

    def list(
        self,
        config: RunnableConfig | None,
        *,
        filter: dict[str, Any] | None = None,
        before: RunnableConfig | None = None,
        limit: int | None = None,
    ) -> Iterator[CheckpointTuple]:
        """Yield checkpoints, the newest first: of a thread, or of all; those with this metadata."""
        before_id = read_id(before)
        candidates = [
            (thread, filed)
            for thread, filed in self._candidates(config)
            if before_id is None or filed.place.checkpoint_id < before_id
        ]
        wanted = filter or {}
        matching = (
            found
            for found in self._read(candidates)
            if all(found.metadata.get(name) == value for name, value in wanted.items())
        )
        return islice(matching, limit)

    def _candidates(self, config: RunnableConfig | None) -> "builtins.list[tuple[Thread, Filed]]":
        if config is None:
            every = [
                (each, filed) for each in self._store.look_at_all() for filed in each.index.newest_first()
            ]
            return sorted(every, key=lambda pair: pair[1].place.checkpoint_id, reverse=True)
        target = read_target(config)
        thread = self._store.look(target.thread_id)
        if thread is None:
            return []
        namespace = config["configurable"].get("checkpoint_ns")
        found = thread.index.newest_first(None if namespace is None else spell_namespace(namespace))
        return [
            (thread, filed) for filed in found if target.checkpoint_id in (None, filed.place.checkpoint_id)
        ]

    def _read(self, candidates: "builtins.list[tuple[Thread, Filed]]") -> Iterator[CheckpointTuple]:
        for start in range(0, len(candidates), _READ_AT_ONCE):
            chunk = candidates[start : start + _READ_AT_ONCE]
            for thread, pairs in groupby(chunk, key=lambda pair: pair[0]):
                for state, writes in thread.read_all([filed for _, filed in pairs]):
                    yield read_tuple(state, writes, self.serde)

    def delete_thread(self, thread_id: str) -> None:
        """Delete a thread, stored and spooled. Raises like `Holdfast.delete`."""
        self._store.delete(thread_id)

    def copy_thread(self, source_thread_id: str, target_thread_id: str) -> None:
        """Save everything of a thread as another thread's as well."""
        self._store.copy(source_thread_id, target_thread_id)

    def prune(self, thread_ids: Sequence[str], *, strategy: str = "keep_latest") -> None:
        """Take out all but the newest checkpoint of each namespace (`keep_latest`), or everything (`delete`).

        What the newest one needs of its ancestors, because the graph has delta channels, is kept.
        """
        if strategy not in ("keep_latest", "delete"):
            raise ValueError(f"{strategy!r} is no strategy; use keep_latest or delete")
        for thread_id in thread_ids:
            if strategy == "delete":
                self.delete_thread(thread_id)
                continue
            thread = self._store.look(thread_id)
            if thread is not None:
                self._keep_latest(thread)

    def _keep_latest(self, thread: Thread) -> None:
        places = set(thread.index.checkpoints)
        kept: set[Place] = set()
        for namespace in {place.namespace for place in places}:
            newest = thread.index.newest_first(namespace)[0]
            kept |= {newest.place, *self._needed(thread, newest)}
        self._store.forget(thread, places - kept)

    def _needed(self, thread: Thread, newest: Filed) -> Iterator[Place]:
        """Yield the ancestors of a checkpoint, if the values of its channels are spread over them."""
        filed: Filed | None = newest
        is_spread: bool | None = None
        while filed is not None:
            yield filed.place
            ((state, _),) = thread.read_all([filed], with_writes=False)
            if is_spread is None:
                is_spread = bool(read_metadata(state, self.serde).get(_DELTA_COUNTERS))
            parent = read_parent(state)
            filed = thread.index.find(filed.place.namespace, parent) if parent and is_spread else None

    def delete_for_runs(self, run_ids: Sequence[str]) -> None:
        """Take the checkpoints out that these runs of LangGraph have made, in whichever thread."""
        wanted = set(run_ids)
        for thread in self._store.look_at_all() if wanted else ():
            every = thread.index.newest_first()
            records = thread.read_all(every, with_writes=False)
            gone = {
                filed.place
                for filed, (state, _) in zip(every, records, strict=True)
                if read_metadata(state, self.serde).get("run_id") in wanted
            }
            self._store.forget(thread, gone)

    def get_next_version(self, current: Any, channel: None) -> Any:
        """Return the version after `current`: the next number. Texts, of other savers, go on as numbers."""
        del channel
        return int(str(current or 0).partition(".")[0]) + 1


def read_id(config: RunnableConfig | None) -> str | None:
    """Return the id of the checkpoint that a config points at, if it names one."""
    return config["configurable"].get("checkpoint_id") if config else None
