"""A sweeper over a repository in memory, with all that it works with."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from holdfast.queue import Queue
from holdfast.retention import Sweeper
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway

SMALL = RetentionRules(full_runs=1, latest_runs=2)


@dataclass
class Desk:
    """A sweeper with all that it works with."""

    repository: MemoryGateway
    sweeper: Sweeper
    spool: Queue
    clock: VirtualClock

    def names(self, run_id: str) -> set[str]:
        prefix = f"checkpoints/{run_id}/"
        files = self.repository.files(BRANCH)
        return {path.removeprefix(prefix) for path in files if path.startswith(prefix)}

    def writes(self) -> int:
        return sum(call.is_mutation for call in self.repository.calls)


@contextmanager
def open_desk(
    folder: Path, repository: Any, clock: VirtualClock, rules: RetentionRules = SMALL
) -> Iterator[Desk]:
    """Open a desk over a repository; opening it again is a restart."""
    assembly = make_assembly(folder, repository, clock, rules=rules)
    try:
        yield Desk(repository, assembly.sweeper, assembly.spool, clock)
    finally:
        assembly.close()
