"""Saving on the local disk: LangGraph's saver, a persistent queue, and the two physical limits."""

import os
import sqlite3
from collections.abc import Callable
from itertools import count
from pathlib import Path
from typing import Any, Protocol

from langgraph.checkpoint.base import empty_checkpoint
from langgraph.checkpoint.sqlite import SqliteSaver
from persistqueue import SQLiteAckQueue

from benchmarks.states import State


class LocalSaver(Protocol):
    """Saves a state; when it returns, the disk has it."""

    def save(self, state: State, encoded: bytes) -> None:
        """Save the state, or what it is as JSON."""
        ...

    def close(self) -> None:
        """Close the files."""
        ...


class BareFile:
    """One new file with one fsync: the least that a disk can be asked for."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._numbers = count()

    def save(self, state: State, encoded: bytes) -> None:
        del state
        with (self._folder / f"{next(self._numbers)}.json").open("wb") as file:
            file.write(encoded)
            file.flush()
            os.fsync(file.fileno())

    def close(self) -> None:
        pass


class BareInsert:
    """One row with write-ahead log and full synchronisation: the least that SQLite can be asked for."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "bare.db", isolation_level=None)
        self._connection.execute("PRAGMA journal_mode=WAL")
        self._connection.execute("PRAGMA synchronous=FULL")
        self._connection.execute("CREATE TABLE saved (id INTEGER PRIMARY KEY, body BLOB)")

    def save(self, state: State, encoded: bytes) -> None:
        del state
        self._connection.execute("INSERT INTO saved (body) VALUES (?)", (encoded,))

    def close(self) -> None:
        self._connection.close()


class LangGraphSaver:
    """LangGraph's SqliteSaver, a state as one channel; its SQLite synchronises fully, too."""

    def __init__(self, folder: Path) -> None:
        self._connection = sqlite3.connect(folder / "langgraph.db", check_same_thread=False)
        self._connection.execute("PRAGMA synchronous=FULL")
        self._saver = SqliteSaver(self._connection)
        self._config: Any = {"configurable": {"thread_id": "run-1", "checkpoint_ns": ""}}

    def save(self, state: State, encoded: bytes) -> None:
        del encoded
        checkpoint: Any = {**empty_checkpoint(), "channel_values": {"state": state}}
        checkpoint["channel_versions"] = {"state": 1}
        self._config = self._saver.put(self._config, checkpoint, {"source": "loop", "step": 1}, {"state": 1})

    def close(self) -> None:
        self._connection.close()


class AckQueue:
    """persist-queue's SQLiteAckQueue, which pickles what it is given."""

    def __init__(self, folder: Path) -> None:
        self._queue = SQLiteAckQueue(str(folder), auto_commit=True)

    def save(self, state: State, encoded: bytes) -> None:
        del encoded
        self._queue.put(state)

    def close(self) -> None:
        self._queue.close()


LOCAL_SAVERS: dict[str, Callable[[Path], LocalSaver]] = {
    "bare file, fsync": BareFile,
    "bare SQLite insert": BareInsert,
    "LangGraph SqliteSaver": LangGraphSaver,
    "persist-queue": AckQueue,
}
