"""What becomes of a step in the queue: acknowledged, released, quarantined, or left as it is."""

import pytest

from holdfast.drain.chunks import CommitStep, SinglesStep
from holdfast.drain.pending import PendingWrite, pending_writes
from holdfast.drain.settling import RELEASE_PAUSE_S, StepWriter
from holdfast.errors import Conflict, Refused, Throttled, Unavailable
from holdfast.format.receipt import QueueItem
from holdfast.github.calls import Call
from holdfast.github.write_calls import WriteFile
from holdfast.queue.contract import LONGEST_BACKOFF_S
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.workshop import Workshop, check_run

STALE = Conflict("x", "does not match", kind="stale_file")


def step_writer(workshop: Workshop, told: list[int] | None = None) -> StepWriter:
    worker = workshop.worker
    on_verified = (told if told is not None else []).append
    return StepWriter(
        worker.spool, worker.contents, worker.commits, worker.layout, workshop.clock, on_verified
    )


def step_of(workshop: Workshop, run_id: str = "r") -> SinglesStep:
    return SinglesStep(run_id, tuple(item for item in workshop.spool.pending() if item.run_id == run_id))


def never() -> bool:
    return False


def test_written_step_leaves_the_queue_and_is_told(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save("a")
    workshop.save("b")
    told: list[int] = []
    steps = step_writer(workshop, told)

    assert steps.carry_out_all([step_of(workshop, "a"), step_of(workshop, "b")], never) is None

    assert (workshop.spool.pending(), pending_writes(workshop.spool.notes())) == ([], [])
    assert (steps.verified, steps.written_runs, steps.unsettled, told) == (2, {"a", "b"}, set(), [1, 2])
    check_run(repository, "a")


def test_no_further_step_is_begun_once_it_is_over(workshop: Workshop) -> None:
    workshop.save("a")
    workshop.save("b")
    steps = step_writer(workshop)

    steps.carry_out_all([step_of(workshop, "a"), step_of(workshop, "b")], lambda: steps.verified > 0)

    assert steps.written_runs == {"a"}


@pytest.mark.parametrize(
    "error",
    [
        Throttled("x", "limit", kind="primary", retry_after_s=60),
        Refused("x", "Bad credentials", "auth", "Give a token."),
        Unavailable("x", "502"),
    ],
)
def test_what_stands_in_the_way_of_everything_is_handed_back(
    workshop: Workshop, repository: MemoryGateway, error: Throttled | Refused | Unavailable
) -> None:
    workshop.save("a")
    workshop.save("b")
    repository.fail_next(Call, error, times=99)
    steps = step_writer(workshop)

    assert steps.carry_out_all([step_of(workshop, "a"), step_of(workshop, "b")], never) is error

    assert len(workshop.spool.pending(workshop.clock.now())) == 2
    assert steps.unsettled == {"a"}


def test_run_whose_step_is_not_settled_gets_no_other(workshop: Workshop, repository: MemoryGateway) -> None:
    workshop.save("a")
    repository.fail_next(WriteFile, STALE, times=99)
    steps = step_writer(workshop)
    step = step_of(workshop, "a")

    assert steps.carry_out_all([step, step, CommitStep(step.items)], never) is None

    assert repository.count(WriteFile) == 3
    assert steps.unsettled == {"a"}


@pytest.mark.slow
def test_backoff_of_what_fails_for_its_run_alone_doubles_up_to_a_quarter_of_an_hour(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    workshop.save("a")
    repository.fail_next(WriteFile, STALE, times=999)
    pauses = []
    for _ in range(8):
        step_writer(workshop).carry_out_all([step_of(workshop, "a")], never)
        pauses.append(next_try_s(workshop))
        workshop.clock.sleep(pauses[-1])

    assert pauses[:3] == [RELEASE_PAUSE_S, 2 * RELEASE_PAUSE_S, 4 * RELEASE_PAUSE_S]
    assert max(pauses) == pauses[-1] == LONGEST_BACKOFF_S


def next_try_s(workshop: Workshop) -> float:
    """Return after how many whole seconds something is due again."""
    now = workshop.clock.now()
    return float(next(s for s in range(10_000) if workshop.spool.pending(now + s)))


def test_only_the_checkpoint_that_is_refused_is_quarantined(
    workshop: Workshop, repository: MemoryGateway
) -> None:
    refused, taken = workshop.save(), workshop.save()
    refusal = Refused("checkpoints/r/cp_001_manual.json", "a secret", "secret_detected", "Remove it.")
    repository.fail_next(WriteFile, refusal, when=lambda call: "cp_001" in call.path)
    steps = step_writer(workshop)

    assert steps.carry_out_all([step_of(workshop)], never) is None

    (aside,) = workshop.spool.set_aside_entries()
    assert (aside.item.checkpoint_id, aside.reason) == (refused.checkpoint_id, "a secret. Remove it.")
    assert ids(workshop.spool.pending()) == [taken.checkpoint_id]


def test_pending_write_of_others_is_given_up(workshop: Workshop, repository: MemoryGateway) -> None:
    first, second = workshop.save(), workshop.save()
    files = {"checkpoints/r/x.json": "a" * 40}
    begun = PendingWrite("r", (first.checkpoint_id,), is_batch=False, files=files)
    workshop.spool.note(begun.name, begun.to_bytes())

    step_writer(workshop).carry_out_all([step_of(workshop)], never)

    assert set(check_run(repository).values()) == {first.checkpoint_id, second.checkpoint_id}
    assert pending_writes(workshop.spool.notes()) == []
    assert any("checkpoints/r/x.json" in name for name in workshop.spool.notes())


def ids(items: list[QueueItem]) -> list[str]:
    return [item.checkpoint_id for item in items]
