"""Three processes at one small journal, killed while they write, in every order that the dice give."""

import os
import random
from collections.abc import Callable
from pathlib import Path

import pytest

from holdfast.format.receipt import Delivery, Receipt
from holdfast.queue import Spool, journal
from holdfast.queue.journal import BLOCK_BYTES
from tests.fakes.spooling import FakeEntry, open_spool

SCHEDULES = 30
STEPS = 50
SECTOR = 512


class Killed(BaseException):
    """The process is dead."""


class Play:
    """Spools of one folder, each as if in a process of its own, and what they have acknowledged."""

    def __init__(self, folder: Path, seed: int, monkeypatch: pytest.MonkeyPatch) -> None:
        self._folder = folder
        self._dice = random.Random(seed)
        self._patch = monkeypatch
        self._spools = [open_spool(folder) for _ in range(3)]
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
            self._cut_the_power,
        )
        (act,) = self._dice.choices(acts, weights=(12, 2, 4, 3, 3, 1))
        act(self._dice.randrange(len(self._spools)))

    def judge(self) -> None:
        """Assert that all that was acknowledged is here once, as it was acknowledged."""
        spool = self._spools[0]
        items = {item.checkpoint_id: item for item in spool.pending()}
        waiting = self._receipts.keys() - self._delivered
        assert waiting <= items.keys() <= waiting | self._unanswered
        for checkpoint_id in waiting:
            assert items[checkpoint_id].sequence == self._receipts[checkpoint_id].sequence_number
        for item in items.values():
            assert spool.read(item)
        assert len({(each.run_id, each.sequence) for each in items.values()}) == len(items)
        receipts = self._receipts.values()
        assert len({(each.run_id, each.sequence_number) for each in receipts}) == len(receipts)
        status = spool.status(0.0)
        assert (status.depth, status.set_aside, status.lost) == (len(items), 0, 0)
        for each in self._spools:
            each.close()

    def _put(self, index: int) -> None:
        self._submit(self._spools[index], [self._entry() for _ in range(self._dice.choice((1, 1, 3)))])

    def _repeat(self, index: int) -> None:
        if self._entries:
            self._submit(self._spools[index], [self._entries[self._dice.choice(sorted(self._entries))]])

    def _drain(self, index: int) -> None:
        for item in self._spools[index].pending()[: self._dice.randrange(3)]:
            self._spools[index].acknowledge({item.checkpoint_id: Delivery(item.sequence, "p", "c", "b")})
            self._delivered.add(item.checkpoint_id)

    def _kill(self, index: int) -> None:
        _abandon(self._spools[index])
        self._spools[index] = open_spool(self._folder)

    def _kill_while_writing(self, index: int) -> None:
        sectors = self._dice.randrange(3 * BLOCK_BYTES // SECTOR)
        self._submit_torn(index, lambda sector: sector < sectors)
        self._kill(index)

    def _cut_the_power(self, index: int) -> None:
        self._submit_torn(index, lambda _: self._dice.random() < 0.6)
        for each in range(len(self._spools)):
            _abandon(self._spools[each])
        self._spools = [open_spool(self._folder) for _ in self._spools]

    def _submit_torn(self, index: int, is_written: Callable[[int], bool]) -> None:
        entries = [self._entry() for _ in range(self._dice.randrange(1, 4))]
        write = os.pwrite

        def tear(file: int, block: bytes, start: int) -> int:
            if not block.startswith(b"holdfast"):
                return write(file, block, start)
            for at in range(0, len(block), SECTOR):
                if is_written(at // SECTOR):
                    write(file, block[at : at + SECTOR], start + at)
            raise Killed

        with self._patch.context() as patch:
            patch.setattr(os, "pwrite", tear)
            try:
                self._submit(self._spools[index], entries)
            except Killed:
                self._unanswered |= {entry.checkpoint_id for entry in entries}

    def _submit(self, spool: Spool, entries: list[FakeEntry]) -> None:
        for entry, outcome in zip(entries, spool.put_all(entries), strict=True):
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


def _abandon(spool: Spool) -> None:
    """Leave a spool as the death of its process does: nothing more is absorbed."""
    spool._journal.close()
    spool._home.close()


@pytest.mark.parametrize("seed", range(SCHEDULES))
def test_nothing_acknowledged_is_lost_doubled_or_renumbered(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(journal, "CAPACITY_BYTES", 12 * BLOCK_BYTES)
    play = Play(tmp_path, seed, monkeypatch)

    for _ in range(STEPS):
        play.step()

    play.judge()
