"""The threads of LangGraph as runs of Holdfast: records in, records out."""

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass
from typing import Any

import orjson

from holdfast.errors import UnknownRun
from holdfast.langgraph.names import Place, run_of_thread
from holdfast.langgraph.states import (
    Record,
    State,
    move_record,
    read_deletion,
    read_thread_id,
    write_deletion,
)
from holdfast.langgraph.thread_index import Filed, ThreadIndex, index_thread
from holdfast.library import Holdfast

WORKFLOW = "langgraph"
"""The workflow of every run that is a thread: by it they are found."""

_CHECKPOINT_TRIGGER = "iteration"
_OTHER_TRIGGER = "task_change"


@dataclass(frozen=True)
class Thread:
    """One thread, as its run's index tells it at one moment."""

    run_id: str
    index: ThreadIndex
    read: Callable[[str, Collection[str]], dict[str, State]]

    def read_all(
        self, filed: Iterable[Filed], *, with_writes: bool = True
    ) -> list[tuple[State, list[State]]]:
        """Return the records of these checkpoints, each with those of the writes for it."""
        wanted = list(filed)
        ids = [each.record_id for each in wanted]
        if with_writes:
            ids += [write_id for each in wanted for write_id in each.write_ids]
        states = self.read(self.run_id, ids)
        return [
            (states[each.record_id], [states[write] for write in each.write_ids] if with_writes else [])
            for each in wanted
        ]


@dataclass(frozen=True)
class ThreadStore:
    """Saves and reads what threads consist of."""

    holdfast: Holdfast

    def save(self, thread_id: str, record: Record, *, is_checkpoint: bool) -> None:
        """Save a record; return once it is on disk."""
        self.holdfast.save(
            run_of_thread(thread_id),
            record.state,
            trigger=_CHECKPOINT_TRIGGER if is_checkpoint else _OTHER_TRIGGER,
            phase=record.phase,
            workflow=WORKFLOW,
        )

    def look(self, thread_id: str) -> Thread | None:
        """Return a thread; None if there is none. Raises GatewayError if that cannot be told."""
        return self._look_at_run(run_of_thread(thread_id))

    def _look_at_run(self, run_id: str) -> Thread | None:
        try:
            entries = self.holdfast.checkpoints(run_id).entries
        except UnknownRun:
            return None

        def read_deleted(record_id: str) -> list[Place]:
            return read_deletion(self._read(run_id, [record_id])[record_id])

        return Thread(run_id, index_thread(entries, read_deleted), self._read)

    def look_at_all(self) -> list[Thread]:
        """Return every thread."""
        runs = self.holdfast.runs(workflow=WORKFLOW)
        return [thread for run in runs if (thread := self._look_at_run(run.run_id))]

    def forget(self, thread: Thread, places: Collection[Place]) -> None:
        """Take checkpoints, and the writes for them, out of a thread."""
        filed = [each for each in thread.index.newest_first() if each.place in places]
        if not filed:
            return
        ((state, _),) = thread.read_all(filed[:1], with_writes=False)
        thread_id = read_thread_id(state) or thread.run_id
        self.save(thread_id, write_deletion(thread_id, places), is_checkpoint=False)

    def copy(self, source_id: str, target_id: str) -> None:
        """Save every record of a thread that is in force as one of another, in the same order."""
        run_id = run_of_thread(source_id)
        thread = self.look(source_id)
        if thread is None:
            return
        kept = {each.record_id for each in thread.index.newest_first()}
        kept |= {write_id for ids in thread.index.writes.values() for write_id in ids}
        entries = [e for e in self.holdfast.checkpoints(run_id).entries if e.checkpoint_id in kept]
        checkpoints = set(thread.index.checkpoints.values())
        for entry in sorted(entries, key=lambda entry: entry.sequence):
            state = self._read(run_id, [entry.checkpoint_id])[entry.checkpoint_id]
            record = Record(entry.phase, move_record(state, target_id))
            self.save(target_id, record, is_checkpoint=entry.checkpoint_id in checkpoints)

    def delete(self, thread_id: str) -> None:
        """Delete a thread: its run's folder as one commit, and what waits for it in the spool."""
        try:
            self.holdfast.delete(run_of_thread(thread_id))
        except UnknownRun:
            return

    def _read(self, run_id: str, record_ids: Collection[str]) -> dict[str, State]:
        found = self.holdfast.checkpoints_by_id(run_id, record_ids) if record_ids else {}
        return {record_id: _state_of(envelope.content) for record_id, envelope in found.items()}


def _state_of(content: bytes) -> State:
    state: dict[str, Any] = orjson.loads(content)["state_snapshot"]
    return state
