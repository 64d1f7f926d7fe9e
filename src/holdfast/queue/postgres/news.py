"""News between replicas: whoever puts a checkpoint tells, and whoever drains tells what it has settled.

It is a hint and no more: where a pooler in between loses it, the drainer finds the checkpoint when it looks
by itself, some seconds later, and who follows a run sees it when asking.
"""

import threading
import time
from collections.abc import Sequence
from secrets import token_hex

import orjson
import psycopg

from holdfast.errors import SpoolError
from holdfast.format.receipt import Progress
from holdfast.queue.contract import Hear, Settled, Wake
from holdfast.queue.postgres.database import Database

# PostgreSQL lets only one transaction at a time commit that tells something, so it is told apart and rarely.
TELL_EVERY_S = 0.1
_PAUSE_S = 2.0
_LOOK_EVERY_S = 1.0
_CHANNEL = "holdfast"
# Who puts waits for it, and need not wait for the disk: what it tells of is safe already.
_QUICKLY = "select set_config('synchronous_commit', 'off', true)"
_TELL = f"{_QUICKLY}, pg_notify(%s, %s)"
# A channel is the whole database's, which may have our tables in several schemas.
_TABLES = "'holdfast_item'::regclass::oid::text"
_SELECT_TABLES = f"select {_TABLES}"
_TELL_SETTLED = f"{_QUICKLY}, pg_notify(%s, {_TABLES} || said) from unnest(%s::text[]) as said"
# PostgreSQL takes less than 8,000 bytes at once, and a run's name has 128 at most.
_RUNS_AT_ONCE = 30


class News:
    """The news of one target."""

    def __init__(self, database: Database, target: int) -> None:
        self._database = database
        self._urgent, self._usual = f"{target} critical", str(target)
        self._target, self._own = target, token_hex(8)
        self._told_at = float("-inf")
        self._ended = threading.Event()
        self._listener: threading.Thread | None = None

    def tell(self, *, is_urgent: bool) -> None:
        """Tell all replicas that there is something new; nothing is lost if that fails.

        What is urgent is always told: who drains may be amid a long pause.
        """
        now = time.monotonic()
        if now - self._told_at < TELL_EVERY_S and not is_urgent:
            return
        self._told_at = now
        self._say(_TELL, self._urgent if is_urgent else self._usual)

    def tell_settled(self, settled: Sequence[Settled]) -> None:
        """Tell all other replicas the newest checkpoint of each of these runs; harmless if that fails."""
        newest = [tuple(each) for each in {(each.progress, each.run_id): each for each in settled}.values()]
        chunks = [newest[at : at + _RUNS_AT_ONCE] for at in range(0, len(newest), _RUNS_AT_ONCE)]
        if chunks:
            told = [f" {self._target} {self._own} {orjson.dumps(chunk).decode()}" for chunk in chunks]
            self._say(_TELL_SETTLED, told)

    def listen(self, wake: Wake, hear: Hear) -> None:
        """Have these called, in a thread of its own, whenever a replica tells something."""
        self._listener = threading.Thread(
            target=self._listen, args=(wake, hear), name="holdfast-listener", daemon=True
        )
        self._listener.start()

    def close(self) -> None:
        """Listen no more."""
        self._ended.set()
        if self._listener:
            self._listener.join()

    def _say(self, statement: str, words: str | list[str]) -> None:
        try:
            self._database.look(lambda connection: connection.execute(statement.encode(), (_CHANNEL, words)))
        except SpoolError:
            return

    def _listen(self, wake: Wake, hear: Hear) -> None:
        while not self._ended.is_set():
            try:
                with self._database.connect() as connection:
                    (tables,) = connection.execute(_SELECT_TABLES.encode()).fetchone() or ("",)
                    connection.execute(f"listen {_CHANNEL}".encode())
                    wake(True)  # for what was told while nobody listened
                    while not self._ended.is_set():
                        for each in connection.notifies(timeout=_LOOK_EVERY_S):
                            if each.payload in (self._urgent, self._usual):
                                wake(each.payload == self._urgent)
                            elif settled := self._understand(each.payload, tables):
                                hear(settled)
            except psycopg.Error:
                self._ended.wait(_PAUSE_S)

    def _understand(self, said: str, tables: str) -> list[Settled]:
        """Return what another replica has settled; nothing if it is not of our tables, or makes no sense."""
        ours = f"{tables} {self._target} "
        teller, _, told = said.removeprefix(ours).partition(" ")
        if not said.startswith(ours) or teller == self._own:
            return []
        try:
            return [Settled(Progress(progress), *rest) for progress, *rest in orjson.loads(told)]
        except (ValueError, TypeError):
            return []
