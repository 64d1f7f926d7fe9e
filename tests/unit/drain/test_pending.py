"""The notes about writes, and what follows from those that a process has left behind."""

from holdfast.drain.chunks import BatchStep, SinglesStep
from holdfast.drain.pending import (
    LONGEST_REQUEST_S,
    MOST_TRIES,
    OrphanFile,
    PendingWrite,
    orphan_files,
    orphan_name,
    pending_write_name,
    pending_writes,
    plan_unfinished,
)
from tests.fakes.drain_simulation import make_item

FIRST, SECOND, OTHER = make_item(1, run_id="r"), make_item(2, run_id="r"), make_item(1, run_id="other")
IDS = (FIRST.checkpoint_id, SECOND.checkpoint_id)
WRITE = PendingWrite("r", IDS, is_batch=True, files={"checkpoints/r/batch_1_2.json": "a" * 40})
ORPHAN = OrphanFile("checkpoints/r/cp_001_manual.json", "b" * 40, due_at=100.0)


def test_notes_of_each_kind_are_read_back_and_others_left_alone() -> None:
    notes = {WRITE.name: WRITE.to_bytes(), ORPHAN.name: ORPHAN.to_bytes(), "trouble": b"{}"}

    assert pending_writes(notes) == [WRITE]
    assert orphan_files(notes) == [ORPHAN]


def test_notes_of_earlier_versions_have_the_same_names() -> None:
    assert pending_write_name("r") == "write/r"
    assert orphan_name("checkpoints/r/a.json") == "litter/checkpoints/r/a.json"


def test_every_file_ever_tried_stays_known() -> None:
    more = WRITE.adding([("checkpoints/r/batch_3_4.json", "c" * 40)])

    assert more.files == {**WRITE.files, "checkpoints/r/batch_3_4.json": "c" * 40}


def test_unfinished_write_is_taken_up_as_it_was_planned() -> None:
    single = PendingWrite("other", (OTHER.checkpoint_id,), is_batch=False)

    unfinished = plan_unfinished([WRITE, single], [SECOND, OTHER, FIRST], {*IDS, OTHER.checkpoint_id})

    assert unfinished.steps == (BatchStep("r", (FIRST, SECOND)), SinglesStep("other", (OTHER,)))
    assert unfinished.obsolete == ()


def test_write_whose_checkpoints_wait_for_later_is_kept() -> None:
    unfinished = plan_unfinished([WRITE], [OTHER], {SECOND.checkpoint_id})

    assert (unfinished.steps, unfinished.obsolete) == ((), ())


def test_write_of_checkpoints_that_are_all_gone_is_obsolete() -> None:
    unfinished = plan_unfinished([WRITE], [OTHER], {OTHER.checkpoint_id})

    assert (unfinished.steps, unfinished.obsolete) == ((), (WRITE,))


def test_orphan_file_is_looked_for_so_often_and_no_more() -> None:
    orphan, tries = ORPHAN, 0
    while later := orphan.later(now=200.0):
        orphan, tries = later, tries + 1

    assert tries == MOST_TRIES - 1
    assert orphan.due_at == 200.0 + LONGEST_REQUEST_S


def test_look_that_github_did_not_answer_does_not_count() -> None:
    later = ORPHAN.later(now=200.0, is_tried=False)

    assert later is not None
    assert later.tries == 0
