from holdfast.drain.chunks import BatchStep, CommitStep, SinglesStep, critical_ids, due_items
from holdfast.format.triggers import Priority
from tests.fakes.drain_simulation import make_item

FIRST, SECOND, OTHER = make_item(1, run_id="r"), make_item(2, run_id="r"), make_item(1, run_id="other")


def test_run_of_which_one_checkpoint_waits_waits_as_a_whole() -> None:
    assert due_items([FIRST, OTHER, SECOND], [SECOND, OTHER]) == [OTHER]


def test_without_a_backoff_everything_is_due() -> None:
    assert due_items([FIRST, OTHER, SECOND], [FIRST, OTHER, SECOND]) == [FIRST, OTHER, SECOND]


def test_critical_ones_are_told_by_their_priority() -> None:
    urgent = make_item(7, priority=Priority.CRITICAL)

    assert critical_ids([FIRST, urgent]) == {urgent.checkpoint_id}


def test_steps_know_their_runs() -> None:
    assert SinglesStep("r", (FIRST, SECOND)).run_ids == BatchStep("r", (FIRST, SECOND)).run_ids == {"r"}
    assert CommitStep((FIRST, OTHER)).run_ids == {"r", "other"}
