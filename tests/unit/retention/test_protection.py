"""What a sweep never touches."""

import json
from pathlib import Path
from typing import Any

import pytest

from holdfast.errors import IntegrityFailure, Refused, Unavailable
from holdfast.format.checkpoint import draft_from_mapping
from holdfast.format.part_files import PartStyle
from holdfast.format.splitting import stamp_in_parts
from holdfast.github.calls import ReadBlobs, ReadTree
from holdfast.retention.rules import RetentionRules
from tests.fakes.assembly import BRANCH
from tests.fakes.clock import VirtualClock
from tests.fakes.desk import Desk, open_desk
from tests.fakes.memory_gateway import MemoryGateway
from tests.fakes.stored_runs import NOON, make_envelope, make_run, run_files, with_paths


def test_run_with_checkpoints_in_the_spool_is_not_touched(desk: Desk) -> None:
    desk.spool.put(draft("older"))

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    assert desk.names("old") == {"latest.json"}


def test_run_whose_checkpoint_was_set_aside_is_not_touched(desk: Desk) -> None:
    desk.spool.put(draft("older"))
    desk.spool.set_aside(desk.spool.pending()[0], "a secret in it")

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_checkpoint_that_comes_in_during_the_sweep_is_noticed(desk: Desk) -> None:
    def arrive(_: Any) -> bool:
        desk.spool.put(draft("older"))
        return False

    desk.repository.fail_next(ReadBlobs, Unavailable("", ""), when=arrive)

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    assert desk.names("old") == {"latest.json"}


def draft(run_id: str) -> Any:
    checkpoint = {"run_id": run_id, "trigger": "manual", "state": {}}
    return draft_from_mapping(
        checkpoint, now="2027-01-15T08:00:00Z", new_id=lambda: "550e8400-e29b-41d4-a716-446655440000"
    )


@pytest.mark.parametrize("status", ["in_progress", "failed", "interrupted"])
def test_run_that_can_be_resumed_keeps_what_it_would_be_resumed_from(desk: Desk, status: str) -> None:
    files = make_run("older", at=NOON - 30, status=status)
    desk.repository.write_as_someone_else(BRANCH, with_paths({"older": files}))

    desk.sweeper.sweep()

    assert desk.names("older") == {"latest.json"}
    assert desk.repository.files(BRANCH)["checkpoints/older/latest.json"] == files["latest.json"]


def test_preserved_run_is_not_touched(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/preserved_runs.json": b'["older"]'})

    desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_list_of_preserved_runs_that_cannot_be_read_ends_the_sweep(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/preserved_runs.json": b'["older"'})

    with pytest.raises(IntegrityFailure):
        desk.sweeper.sweep()

    assert len(desk.names("older")) == 5


def test_damaged_run_is_left_and_told_of(desk: Desk) -> None:
    desk.repository.write_as_someone_else(BRANCH, {"checkpoints/older/index.json": b'{"che'})

    report = desk.sweeper.sweep()

    assert len(desk.names("older")) == 5
    left = {run.run_id: run.reason for run in report.plan.runs if run.action == "leave"}
    assert "index.json is damaged" in left["older"]


def test_latest_that_is_damaged_is_found_before_it_is_all_that_is_left(desk: Desk) -> None:
    files = make_run("older")
    broken = {
        "checkpoints/older/latest.json": files["latest.json"][:-9],
        "checkpoints/older/index.json": None,
    }
    cps = {f"checkpoints/older/cp_00{n}_manual.json": None for n in (1, 2, 3)}
    desk.repository.write_as_someone_else(BRANCH, {**broken, **cps})

    desk.sweeper.sweep()

    assert desk.names("older") == {"latest.json"}


def test_files_of_others_stay_and_are_told_of(desk: Desk) -> None:
    strange = {
        "checkpoints/notes.txt": b"hello",
        "checkpoints/.hidden/x.json": b"{}",
        "checkpoints/older/report.pdf": b"%PDF",
    }
    desk.repository.write_as_someone_else(BRANCH, strange)

    report = desk.sweeper.sweep()

    assert set(report.strangers) == {
        "checkpoints/notes.txt",
        "checkpoints/.hidden",
        "checkpoints/older/report.pdf",
    }
    assert strange.items() <= desk.repository.files(BRANCH).items()
    assert desk.names("older") == {"summary.json", "report.pdf"}


def test_large_checkpoint_keeps_its_parts_and_its_summary_is_made_of_them(tmp_path: Path) -> None:
    state = {"phase_outputs": {"phase_1": "x" * 9000, "phase_2": "y"}, "cost_accumulated": 2}
    envelopes = [
        stamp_in_parts(
            make_envelope("r", n, state=state, status="completed").content.rsplit(b',"integrity"', 1)[0]
            + b"}",
            limit_bytes=4000,
            style=PartStyle("checkpoints/r"),
        )
        for n in (1, 2)
    ]
    parts = {name: content for envelope in envelopes for name, content in envelope.parts.items()}
    assert parts
    files = {**run_files("r", envelopes, last_updated="2027-01-15T08:00:00Z"), **parts}
    repository = MemoryGateway()
    repository.write_as_someone_else(BRANCH, with_paths({"r": files}))

    with open_desk(tmp_path, repository, VirtualClock(NOON), RetentionRules(0, 1)) as desk:
        desk.sweeper.sweep()
        assert desk.names("r") == {"latest.json", *parts}
        desk.sweeper.rules = RetentionRules(0, 0)
        desk.sweeper.sweep()
        assert desk.names("r") == {"summary.json"}

    summary = json.loads(repository.files(BRANCH)["checkpoints/r/summary.json"])
    assert (summary["phases_completed"], summary["total_cost_usd"]) == (2, 2)


def test_folder_with_more_runs_than_github_lists_is_refused_as_nobody_knows_what_is_preserved(
    desk: Desk, monkeypatch: pytest.MonkeyPatch
) -> None:
    whole = desk.repository._answer

    def cut(call: Any) -> Any:
        answer = whole(call)
        is_base = isinstance(call, ReadTree) and any(entry.path == "older" for entry in answer.entries)
        return type(answer)(answer.entries[:2], is_complete=False) if is_base else answer

    monkeypatch.setattr(desk.repository, "_answer", cut)

    with pytest.raises(Refused, match="more than GitHub lists"):
        desk.sweeper.sweep()

    assert desk.writes() == 0


def test_run_whose_latest_is_another_runs_is_left_alone(desk: Desk) -> None:
    foreign = desk.repository.files(BRANCH)["checkpoints/new/latest.json"]
    changes = {"checkpoints/older/index.json": None, "checkpoints/older/latest.json": foreign}
    desk.repository.write_as_someone_else(BRANCH, changes)

    report = desk.sweeper.sweep()

    left = {run.run_id: run.reason for run in report.plan.runs if run.action == "leave"}
    assert "latest.json is damaged: it belongs to run 'new'" in left["older"]
