"""Three processes at one queue, killed before or after they commit, in every order that the dice give."""

import random
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.format.receipt import Delivery, Receipt
from holdfast.queue import SqliteQueue
from holdfast.queue.sqlite_file import SqliteFile, Work
from tests.fakes.spooling import FakeEntry, open_spool

SCHEDULES = 30
STEPS = 50


class Killed(BaseException):
    """The process is dead."""


class Play:
    """Queues of one folder, each as if in a process of its own, and what they have acknowledged."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self._patch = monkeypatch
        self._queues = [open_spool(folder) for _ in range(3)]
        self._entries: dict[str, FakeEntry] = {}
        self._receipts: dict[str, Receipt] = {}
        self._unanswered: set[str] = set()
        self._delivered: set[str] = set()

    def step(self) -> None:
        """Let one of them do something."""
        acts: tuple[Callable[[int], None], ...] = (
            self._put,
            self._repeat,
            self._drain,
            self._kill,
            self._kill_while_writing,
            self._damage,
        )
        (act,) = self._dice.choices(acts, weights=(12, 3, 4, 3, 4, 1))
        act(self._dice.randrange(len(self._queues)))

    def judge(self) -> None:
        """Assert that all that was acknowledged is here once, as it was acknowledged."""
        queue = self._queues[0]
        items = {item.checkpoint_id: item for item in queue.pending()}
        waiting = self._receipts.keys() - self._delivered
        assert waiting <= items.keys() <= waiting | self._unanswered
        for checkpoint_id in waiting:
            assert items[checkpoint_id].sequence == self._receipts[checkpoint_id].sequence_number
        for item in items.values():
            assert queue.read(item)
        assert len({(each.run_id, each.sequence) for each in items.values()}) == len(items)
        receipts = self._receipts.values()
        assert len({(each.run_id, each.sequence_number) for each in receipts}) == len(receipts)
        status = queue.status(0.0)
        assert (status.depth, status.set_aside, status.lost) == (len(items), 0, 0)
        for each in self._queues:
            each.close()

    def _put(self, index: int) -> None:
        self._submit(self._queues[index], [self._entry() for _ in range(self._dice.choice((1, 1, 3)))])

    def _repeat(self, index: int) -> None:
        if self._entries:
            self._submit(self._queues[index], [self._entries[self._dice.choice(sorted(self._entries))]])

    def _drain(self, index: int) -> None:
        for item in self._queues[index].pending()[: self._dice.randrange(3)]:
            self._queues[index].acknowledge({item.checkpoint_id: Delivery(item.sequence, "p", "c", "b")})
            self._delivered.add(item.checkpoint_id)

    def _kill(self, index: int) -> None:
        self._queues[index].close()
        self._queues[index] = open_spool(self._folder)

    def _kill_while_writing(self, index: int) -> None:
        is_committed = self._dice.random() < 0.5
        entries = [self._entry() for _ in range(self._dice.randrange(1, 4))]
        commit = SqliteFile._commit

        def commit_or_die(file: SqliteFile, work: Work[object]) -> object:
            def work_and_die(database: sqlite3.Connection) -> object:
                work(database)
                raise Killed

            commit(file, work if is_committed else work_and_die)
            raise Killed

        with self._patch.context() as patch:
            patch.setattr(SqliteFile, "_commit", commit_or_die)
            with pytest.raises(Killed):
                self._queues[index].put_all(entries)
        self._unanswered |= {entry.checkpoint_id for entry in entries}
        self._entries |= {entry.checkpoint_id: entry for entry in entries}
        self._kill(index)

    def _damage(self, index: int) -> None:
        """Let one find the file damaged; the others find it replaced."""
        folder = self._queues[index]._folder
        folder._replace(folder._file, is_damaged=True)

    def _submit(self, queue: SqliteQueue, entries: list[FakeEntry]) -> None:
        for entry, outcome in zip(entries, queue.put_all(entries), strict=True):
            assert isinstance(outcome, Receipt)
            first = self._receipts.setdefault(entry.checkpoint_id, outcome)
            assert outcome.sequence_number == first.sequence_number
            self._entries[entry.checkpoint_id] = entry

    def _entry(self) -> FakeEntry:
        return FakeEntry(
            run_id=self._dice.choice("ab"),
            content=self._dice.randbytes(self._dice.choice((10, 5000, 9000, 20000))),
            fingerprint="same",
            sequence=self._dice.choice((None, None, None, self._dice.randrange(1, 40))),
        )


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_nothing_acknowledged_is_lost_doubled_or_renumbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    play = Play(tmp_path, seed, monkeypatch)

    for _ in range(STEPS):
        play.step()

    play.judge()
