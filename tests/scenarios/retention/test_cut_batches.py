"""A batch of which some checkpoints stay loses the others: a limit holds however they were written."""

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import pytest

from holdfast.drain.chunks import BatchStep
from holdfast.drain.settling import StepWriter
from holdfast.github.write_calls import CommitFiles
from holdfast.retention.rules import DAY_S, RetentionRules
from tests.fakes.assembly import BRANCH, make_assembly
from tests.fakes.clock import VirtualClock
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON
from tests.fakes.workshop import Workshop, check_run, open_workshop

LIMIT = 12
CLOCKS = (NOON - 30 * DAY_S, NOON, NOON + 30 * DAY_S)


@contextmanager
def machines(folder: Path, repository: MemoryGateway) -> Iterator[list[Workshop]]:
    """Open three machines whose clocks are apart."""
    with ExitStack() as stack:
        yield [
            stack.enter_context(open_workshop(folder / str(at), repository, clock=VirtualClock(at)))
            for at in CLOCKS
        ]


def write_batch(workshop: Workshop, count: int) -> None:
    """Save so many checkpoints, and write them as one batch, as with a low budget."""
    for _ in range(count):
        workshop.save("r")
    worker = workshop.worker
    steps = StepWriter(
        workshop.spool, worker.contents, worker.commits, worker.layout, workshop.clock, lambda _: None
    )
    assert steps.carry_out_all([BatchStep("r", tuple(workshop.spool.pending()))], lambda: False) is None
    assert steps.verified == count


def sweep(folder: Path, repository: MemoryGateway) -> None:
    assembly = make_assembly(folder, repository, VirtualClock(NOON), rules=RetentionRules(checkpoints=LIMIT))
    try:
        assembly.sweeper.sweep()
    finally:
        assembly.close()


@pytest.mark.parametrize("has_graphql", [True, False])
def test_limit_holds_after_three_machines_have_written_batches(tmp_path: Path, has_graphql: bool) -> None:
    repository = MemoryGateway(has_graphql=has_graphql)
    with machines(tmp_path, repository) as (first, second, third):
        for workshop, count in ((first, 36), (second, 6), (third, 5)):
            write_batch(workshop, count)
        before = check_run(repository)
        assert len(before) == 47

        sweep(tmp_path / "sweeping", repository)

        after = check_run(repository)
        assert after == {number: before[number] for number in range(36, 48)}
        # A writer that knew the batch goes on without it.
        first.save("r")
        assert first.worker.drain().left == 0
        assert sorted(check_run(repository)) == [*range(36, 48), 48]
        assert first.reader.read_checkpoint("r", 36).checkpoint_id == before[36]


def test_batch_that_is_cut_to_several_stays_a_batch(tmp_path: Path) -> None:
    repository = MemoryGateway()
    with machines(tmp_path, repository) as (first, second, _):
        for workshop, count in ((first, 30), (second, 5)):
            write_batch(workshop, count)

        sweep(tmp_path / "sweeping", repository)

    assert sorted(check_run(repository)) == list(range(24, 36))
    assert "checkpoints/r/batch_24_30.json" in repository.files(BRANCH)
    assert repository.count(CommitFiles) == 1
