"""A clean-up is told as it was: each run once, with what was done to it rather than what was planned."""

import orjson

from holdfast.format.paths import Layout
from holdfast.presentation.sweeps import changes_of, size_of, sweep_document, sweep_rows
from holdfast.retention import SweepReport
from holdfast.retention.disposal import Action, RunPlan
from holdfast.retention.plan import RetentionPlan

ARCHIVED = RunPlan("old", Action.ARCHIVE, "a summary stays", write={"summary.json": b"{}"})
PLANNED_LATER = RunPlan("old", Action.KEEP, "nothing is left to do", last_written="2026-11-16T10:00:00Z")
DAMAGED = RunPlan("bad", Action.LEAVE, "its index cannot be read")


def test_a_run_is_told_with_what_was_done_to_it() -> None:
    report = SweepReport(RetentionPlan((PLANNED_LATER, DAMAGED)), done=[ARCHIVED])

    document = orjson.loads(orjson.dumps(sweep_document(report, Layout(), is_dry_run=False)))

    assert [(run["run_id"], run["action"]) for run in document["runs"]] == [
        ("old", "archive"),
        ("bad", "leave"),
    ]
    assert document["write"] == ["checkpoints/old/summary.json"]
    assert document["left"] == [{"run_id": "bad", "reason": "its index cannot be read"}]
    assert (document["dry_run"], document["reason"]) == (False, None)


def test_a_dry_run_tells_of_the_plan() -> None:
    report = SweepReport(RetentionPlan((ARCHIVED, DAMAGED)))

    assert changes_of(report, is_dry_run=True) == (ARCHIVED,)
    assert list(changes_of(report, is_dry_run=False)) == []
    assert sweep_rows(report, is_dry_run=True) == [
        ("old", "archive", "0", "0 B", "a summary stays"),
        ("bad", "leave", "0", "0 B", "its index cannot be read"),
    ]


def test_what_is_deleted_is_summed_up_in_words() -> None:
    assert size_of([ARCHIVED]) == "0 files (0 B)"
