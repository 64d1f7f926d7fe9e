"""A sweep beside a drain that never rests: in the end it gets through, and the drain goes on."""

import threading
from pathlib import Path
from typing import Any

from holdfast.errors import Unavailable
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.github.write_calls import CommitFiles
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import SMALL
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_run, with_paths

LONGEST_S = 30.0


def draft(number: int) -> Any:
    checkpoint = {"run_id": "busy", "trigger": "manual", "state": {"number": number}}
    return draft_from_mapping(
        checkpoint, now="2027-01-15T08:00:00Z", new_id=lambda: f"550e8400-e29b-41d4-a716-{number:012d}"
    )


def test_sweep_gets_through_beside_a_drain_that_writes_before_each_of_its_commits(tmp_path: Path) -> None:
    repository = MemoryGateway()
    runs = {name: make_run(name, at=NOON - age) for name, age in (("new", 10), ("old", 20), ("older", 30))}
    repository.write_as_someone_else(BRANCH, with_paths(runs))
    assembly = make_assembly(tmp_path, repository, VirtualClock(NOON), rules=SMALL)
    drains: list[threading.Thread] = []

    def drain_meanwhile(call: Any) -> bool:
        if call.headline.startswith("Retention"):
            assembly.spool.put(draft(len(drains)))
            drain = threading.Thread(target=lambda: assembly.worker.drain(tidies=False))
            drains.append(drain)
            drain.start()
            if not assembly.right_of_way.is_taken:
                drain.join(LONGEST_S)
        return False

    repository.fail_next(CommitFiles, Unavailable("", ""), when=drain_meanwhile)

    report = assembly.sweeper.sweep()
    for drain in drains:
        drain.join(LONGEST_S)

    assert len(drains) == 2
    assert {run.run_id for run in report.done} >= {"older"}
    assert assembly.spool.status(0.0).depth == 0
    assert sum(path.startswith("checkpoints/busy/cp_") for path in repository.files(BRANCH)) == 2
    assembly.close()
