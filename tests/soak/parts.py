"""Random schedules with members that are stored once: two machines, clean-ups, rollbacks, deletions, crashes.

Whatever happens, every checkpoint that is kept gives back the state that was saved, and after the last
clean-up no part is left that nothing refers to.
"""

import json
import random
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

from holdfast.drain import stamper
from holdfast.errors import HoldfastError, Unavailable
from holdfast.format import index
from holdfast.github.write_calls import CommitFiles, WriteFile
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, open_workshop

RUN = "checkpoints/r/"
MACHINES = ("ours", "theirs")
_ACTS = ("save",) * 8 + ("store",) * 6 + ("crash",) * 3 + ("prune", "trim", "rollback", "delete", "lose")


@dataclass
class PartsPlay:
    """One schedule, from a seed."""

    seed: int
    folder: Path
    repository: MemoryGateway = field(default_factory=MemoryGateway)
    states: dict[str, Any] = field(default_factory=dict)
    crashes: int = 0

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)
        self.clock = VirtualClock()
        self.state: dict[str, Any] = {f"m{number}": self._text() for number in range(6)}
        self.modes = {machine: self.random.choice(("contents", "commit")) for machine in MACHINES}
        self.repository.write_as_someone_else(BRANCH, {"README.md": b""})

    def play(self, acts: int = 40) -> int:
        """Play the schedule and return how many checkpoints are left. Raises AssertionError."""
        for _ in range(acts):
            machine = self.random.choice(MACHINES)
            getattr(self, f"_{self.random.choice(_ACTS)}")(machine)
            self.clock.sleep(self.random.choice((0, 1, 400)))
        self._end()
        return self._check()

    def _text(self) -> str:
        return "".join(self.random.choices("abcdef", k=self.random.randrange(100, 900)))

    @contextmanager
    def _open(self, machine: str) -> Iterator[Workshop]:
        settings: dict[str, Any] = {"incremental": "on", "compress": self.random.choice((None, 300))}
        with open_workshop(
            self.folder / machine,
            self.repository,
            clock=self.clock,
            mode=self.modes.get(machine, "contents"),
            **settings,
        ) as workshop:
            yield workshop

    def _put(self, workshop: Workshop, state: Any) -> None:
        receipt = workshop.save(state=state)
        self.states[receipt.checkpoint_id] = state

    def _changed(self) -> Any:
        name = f"m{self.random.randrange(6)}"
        nested = {"inner": self._text(), "list": [self.state.get("m0"), self._text()]}
        self.state = {**self.state, name: self.random.choice((self._text(), nested))}
        return self.state

    def _save(self, machine: str) -> None:
        with self._open(machine) as workshop:
            self._put(workshop, self._changed())

    def _store(self, machine: str) -> None:
        with self._open(machine) as workshop:
            for _ in range(self.random.randrange(3)):
                self._put(workshop, self._changed())
            workshop.worker.drain()

    def _crash(self, machine: str) -> None:
        """Cut the line at one of the next writes, carried out or not, and go on with a new process."""
        self.crashes += 1
        gone = Unavailable(BRANCH, "no answer")
        at = self.random.randrange(6)
        seen = 0

        def is_due(_: Any) -> bool:
            nonlocal seen
            seen += 1
            return seen > at

        for kind in (WriteFile, CommitFiles):
            is_applied = self.random.random() < 0.5
            self.repository.fail_next(kind, gone, is_applied=is_applied, times=4, when=is_due)
        with self._open(machine) as workshop:
            self._put(workshop, self._changed())
            workshop.worker.drain()
        self.repository.forget_failures()

    def _rollback(self, machine: str) -> None:
        if self.states:
            self.state = self.random.choice(list(self.states.values()))
        self._save(machine)

    def _prune(self, _: str) -> None:
        self._sweep(RetentionRules(checkpoints=self.random.randrange(1, 12)))

    def _trim(self, _: str) -> None:
        self._sweep(RetentionRules(full_runs=0))

    def _sweep(self, rules: RetentionRules) -> None:
        with open_desk(self.folder / "desk", self.repository, self.clock, rules) as desk:
            desk.sweeper.sweep()

    def _delete(self, _: str) -> None:
        """Delete the whole run, as one commit, now and then."""
        if self.random.random() < 0.3:
            gone = [path for path in self.repository.files(BRANCH) if path.startswith(RUN)]
            self.repository.write_as_someone_else(BRANCH, dict.fromkeys(gone))

    def _lose(self, _: str) -> None:
        """Lose a part that something refers to no more, or a segment: a clean-up by hand."""
        names = [path for path in self.repository.files(BRANCH) if path.startswith(f"{RUN}index_")]
        if names:
            self.repository.write_as_someone_else(BRANCH, {self.random.choice(names): None})

    def _end(self) -> None:
        self.clock.sleep(10_000)
        for _ in range(3):
            for machine in MACHINES:
                with self._open(machine) as workshop:
                    workshop.worker.drain()
                self.clock.sleep(10_000)
        with self._open("ours") as workshop:
            self._put(workshop, self._changed())
            assert workshop.worker.drain().left == 0
        if self.random.random() < 0.5:  # nobody writes after it: the clean-up has to see it
            self._lose("")
        self._sweep(RetentionRules())

    def _check(self) -> int:
        files = {
            path: content for path, content in self.repository.files(BRANCH).items() if path.startswith(RUN)
        }
        used: set[str] = set()
        with self._open("reader") as reader:
            history = reader.reader.history("r")
            found = history.envelopes
            assert found, "nothing is left"
            for envelope in found:
                state = json.loads(envelope.content)["state_snapshot"]
                assert state == self.states[envelope.checkpoint_id], f"{envelope.sequence} is another"
            index_ids = {entry.checkpoint_id for entry in reader.reader.list_checkpoints("r").entries}
            assert index_ids <= {envelope.checkpoint_id for envelope in found}, history.warnings
        for path, content in files.items():
            if "/parts/" not in path and "/index" not in path:
                used |= set(_references(json.loads(content)))
        parts = {path for path in files if "/parts/" in path}
        assert used <= parts, "a part is missing"
        assert parts <= used, f"{len(parts - used)} parts are left that nothing refers to"
        return len(found)


def _references(value: Any) -> Iterator[str]:
    if isinstance(value, dict):
        if isinstance(value.get("$part"), str):
            yield value["$part"]
        for each in value.values():
            yield from _references(each)
    elif isinstance(value, list):
        for each in value:
            yield from _references(each)


def play_parts(seed: int, acts: int = 40) -> int:
    """Play the schedule of a seed with a short index and small parts. Raises AssertionError with the seed."""
    with (
        TemporaryDirectory() as folder,
        patch.dict(stamper.LEAST_BYTES, {"commit": 200, "contents": 200}),
        patch.multiple(index, MOST_LISTED=6, _LEAST_LISTED=2, _MOST_LISTED_BESIDE_SEGMENTS=4),
    ):
        try:
            return PartsPlay(seed, Path(folder)).play(acts)
        except (AssertionError, HoldfastError) as error:
            raise AssertionError(f"seed {seed}: {error}") from error
