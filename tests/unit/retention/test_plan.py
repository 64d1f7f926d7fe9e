"""What becomes of runs: tiers, limits within a run, and what is never touched."""

import json
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import pytest

from holdfast.format.checkpoint import open_stored
from holdfast.format.git_ids import blob_sha
from holdfast.format.index import parse_index
from holdfast.format.moments import format_moment
from holdfast.format.run_snapshot import RemoteFile
from holdfast.repository.understanding import RunFiles, take_snapshot
from holdfast.retention.disposal import Action, RunPlan
from holdfast.retention.plan import RetentionPlan, plan_pruning, plan_retention
from holdfast.retention.records import (
    RetentionLog,
    RunRecord,
    Summary,
    describe_last,
    parse_summary,
)
from holdfast.retention.rules import RetentionRules
from holdfast.retention.scanned_run import ScannedRun
from tests.fakes.stored_runs import DAY_S, LAYOUT, NOON, make_envelope, make_run, run_files

SMALL = RetentionRules(full_runs=1, latest_runs=2)
PART = "parts/" + "a" * 64 + ".json"


def folder(run_id: str, files: Mapping[str, bytes], *, is_opened: bool = True) -> ScannedRun:
    """Return a run as a scan finds it, with its latest opened or not."""
    listed = {name: RemoteFile(blob_sha(content), len(content)) for name, content in files.items()}
    blobs = {name: file.sha for name, file in listed.items()}
    snapshot = take_snapshot(RunFiles(run_id, blobs, files.__getitem__, lambda: files), LAYOUT)
    found = ScannedRun(listed, snapshot)
    if "summary.json" in files:
        found = replace(found, summary=parse_summary(files["summary.json"], "summary.json"))
    if "latest.json" in files and (is_opened or "index.json" not in files):
        envelope, document = open_stored(files["latest.json"], "latest.json")
        found = replace(
            found, latest=describe_last(envelope, document.value), parts_of={"latest.json": frozenset()}
        )
    return found


def summary_file(run_id: str, at: float) -> bytes:
    moment = format_moment(at)
    return Summary(run_id, moment, moment, 0, "completed", 0, 0).to_bytes()


def plan(*folders: ScannedRun, rules: RetentionRules = SMALL, **options: Any) -> RetentionPlan:
    known: dict[str, Any] = {"protected": {}, "log": RetentionLog(), "layout": LAYOUT, **options}
    return plan_retention(folders, rules, **known)


def by_run(found: RetentionPlan) -> dict[str, RunPlan]:
    return {run.run_id: run for run in found.runs}


def actions(found: RetentionPlan) -> dict[str, str]:
    return {run.run_id: run.action.value for run in found.runs}


def three_runs(status: str = "completed") -> list[ScannedRun]:
    """Return runs whose names say nothing of when they were written to."""
    return [
        folder("b", make_run("b", at=NOON - 10, status=status)),
        folder("z", make_run("z", at=NOON - 30, status=status)),
        folder("a", make_run("a", at=NOON - 20, status=status)),
    ]


def test_runs_fall_into_tiers_by_when_they_were_last_written_to() -> None:
    found = plan(*three_runs())

    assert [run.run_id for run in found.runs] == ["b", "a", "z"]
    assert actions(found) == {"b": "keep", "a": "trim", "z": "archive"}


def test_trimmed_run_keeps_only_its_latest() -> None:
    run = by_run(plan(*three_runs()))["a"]

    assert run.delete.keys() == {"index.json", *(f"cp_00{n}_manual.json" for n in (1, 2, 3))}
    assert not run.write
    assert run.record == RunRecord(format_moment(NOON - 22), format_moment(NOON - 20))


def test_archived_run_keeps_only_a_summary_with_the_fields_of_the_specification() -> None:
    state = {
        "phase_outputs": {"phase_1": {}, "phase_2": None},
        "cost_accumulated": 1.25,
        "errors_encountered": [1, 2],
    }
    runs = [
        *three_runs()[:1],
        folder("o", make_run("o", at=NOON - 15)),
        folder("z", make_run("z", at=NOON - 30, state=state)),
    ]

    run = by_run(plan(*runs))["z"]

    assert run.delete.keys() == {"index.json", "latest.json", *(f"cp_00{n}_manual.json" for n in (1, 2, 3))}
    assert json.loads(run.write["summary.json"]) == {
        "run_id": "z",
        "started_at": format_moment(NOON - 32),
        "completed_at": format_moment(NOON - 30),
        "phases_completed": 1,
        "final_status": "completed",
        "total_cost_usd": 1.25,
        "errors_count": 2,
    }


@pytest.mark.parametrize("status", ["in_progress", "failed", "interrupted"])
def test_run_that_can_be_resumed_keeps_its_latest_however_old_it_is(status: str) -> None:
    found = by_run(plan(*three_runs(status)))

    assert found["z"].action is Action.TRIM
    assert "latest.json" not in found["z"].delete


def test_what_was_done_before_is_not_done_again() -> None:
    files = make_run("a", at=NOON - 20)
    latest_only = folder("a", {"latest.json": files["latest.json"]})
    archived = folder("z", {"summary.json": summary_file("z", NOON - 30)})

    found = plan(folder("b", make_run("b")), latest_only, archived)

    assert not found.changes
    assert set(actions(found).values()) == {"keep"}


def test_archived_runs_take_no_place_among_the_recent_ones() -> None:
    archived = folder("s", {"summary.json": summary_file("s", NOON + 30)})

    found = plan(archived, folder("b", make_run("b")))

    assert actions(found) == {"s": "keep", "b": "keep"}


def test_caller_whose_clock_is_ahead_does_not_move_a_trimmed_run_before_others() -> None:
    ahead = [make_envelope("a", 1, at=NOON + DAY_S, status="completed")]
    files = run_files("a", ahead, last_updated=format_moment(NOON - 20))
    first = plan(folder("b", make_run("b", at=NOON - 10)), folder("a", files))
    log = RetentionLog(records=first.records_after(done={"a"}))
    trimmed = folder("a", {"latest.json": files["latest.json"]})

    second = plan(folder("b", make_run("b", at=NOON - 10)), trimmed, log=log)

    assert actions(first) == {"b": "keep", "a": "trim"}
    assert not second.changes


def test_log_tells_when_a_run_began_whose_index_is_gone() -> None:
    latest_only = folder("a", {"latest.json": make_run("a", at=NOON - 20)["latest.json"]})
    log = RetentionLog(records={"a": RunRecord("2026-01-01T00:00:00Z", format_moment(NOON - 20))})
    rules = RetentionRules(full_runs=0, latest_runs=0)

    found = plan(latest_only, rules=rules, log=log)

    assert json.loads(by_run(found)["a"].write["summary.json"])["started_at"] == "2026-01-01T00:00:00Z"
    assert found.records_after(done=set()) == log.records
    assert found.records_after(done={"a"}) == {}


@pytest.mark.parametrize("reason", ["preserved", "it has checkpoints in the spool"])
def test_protected_run_is_not_touched(reason: str) -> None:
    found = plan(*three_runs(), protected={"z": reason})

    assert not by_run(found)["z"].is_change
    assert by_run(found)["z"].reason == reason


def without(files: dict[str, bytes], *names: str) -> dict[str, bytes]:
    return {name: content for name, content in files.items() if name not in names}


def at_work() -> dict[str, dict[str, bytes]]:
    files = make_run("z", at=NOON - 30)
    next_one = make_envelope("z", 4).content
    newer = run_files(
        "z", [make_envelope("z", n) for n in (1, 2, 3, 4)], last_updated=format_moment(NOON - 30)
    )
    other = make_run("other")["index.json"]
    return {
        "a file that is not in the index": {**files, "cp_004_manual.json": next_one},
        "an index that is ahead of the latest": {**newer, "latest.json": files["latest.json"]},
        "no latest": without(files, "latest.json"),
        "only a part": {PART: b"{}"},
        "a file that is newer than the latest, and no index": {
            "latest.json": files["latest.json"],
            "cp_004_manual.json": next_one,
        },
        "an index that names what is not there": without(files, "cp_002_manual.json"),
        "a file that someone has changed": {**files, "cp_002_manual.json": b"{}"},
        "another run's index": {**files, "index.json": other},
        "nothing of ours": {"notes.txt": b"hello"},
    }


@pytest.mark.parametrize("case", at_work())
def test_run_that_is_not_at_rest_is_left_alone_and_told_of(case: str) -> None:
    files = at_work()[case]
    found = plan(*three_runs()[:1], folder("z", files, is_opened=False), rules=RetentionRules(0, 0))

    assert by_run(found)["z"].action is Action.LEAVE
    assert by_run(found)["z"].reason
    assert not by_run(found)["z"].is_change


def test_damaged_run_is_left_alone() -> None:
    damaged = replace(folder("z", make_run("z")), damage="index.json is damaged")

    run = by_run(plan(damaged, rules=RetentionRules(0, 0)))["z"]

    assert (run.action, run.reason, run.is_change) == (Action.LEAVE, "index.json is damaged", False)


def test_what_an_interrupted_sweep_has_left_is_taken_by_the_next() -> None:
    files = without(make_run("z", at=NOON - 30), "index.json", "cp_001_manual.json")

    run = by_run(plan(folder("z", files), rules=RetentionRules(0, 1)))["z"]

    assert run.delete.keys() == {"cp_002_manual.json", "cp_003_manual.json"}


def test_file_that_we_did_not_write_stays() -> None:
    files = {**make_run("z"), "notes.txt": b"hello", "parts/notes.txt": b"hello"}

    run = by_run(plan(folder("z", files), rules=RetentionRules(0, 0)))["z"]

    assert run.action is Action.ARCHIVE
    assert not {"notes.txt", "parts/notes.txt"} & run.delete.keys()


def pruned(
    files: dict[str, bytes], rules: RetentionRules, before: Mapping[float, Sequence[str]] | None = None
) -> RunPlan:
    """Return what becomes of a run; `before` has the files that were there so many days ago."""
    run = folder("r", files)
    known = {days: {name: run.files[name] for name in names} for days, names in (before or {}).items()}
    found = plan(replace(run, files_before=known), rules=rules)
    return by_run(found)["r"]


def kept_numbers(run: RunPlan) -> list[int]:
    return [entry.sequence for entry in parse_index(run.write["index.json"], "index.json").entries]


def test_run_keeps_only_so_many_checkpoints_and_its_index_says_so() -> None:
    run = pruned(make_run("r", 8), RetentionRules(checkpoints=3))

    assert run.action is Action.PRUNE
    assert run.delete.keys() == {f"cp_00{n}_manual.json" for n in range(1, 6)}
    assert kept_numbers(run) == [6, 7, 8]
    index = parse_index(run.write["index.json"], "index.json")
    assert (index.pruned_through, index.last_updated) == (5, format_moment(NOON))


def test_layers_keep_five_unless_told_otherwise() -> None:
    layers = make_run("r", 8, state={"progress": {"style": "layers"}})

    assert kept_numbers(pruned(layers, RetentionRules())) == [4, 5, 6, 7, 8]
    assert kept_numbers(pruned(layers, RetentionRules(checkpoints=7))) == [2, 3, 4, 5, 6, 7, 8]
    assert not pruned(layers, RetentionRules(checkpoints=0)).is_change
    assert not pruned(make_run("r", 8), RetentionRules()).is_change


def test_style_is_asked_for_only_where_it_matters() -> None:
    few, many = (folder("r", make_run("r", count), is_opened=False) for count in (5, 6))

    assert not plan(few, rules=RetentionRules()).unread
    assert plan(many, rules=RetentionRules()).unread == {"r": ("latest.json",)}
    assert not plan(many, rules=RetentionRules(checkpoints=9)).unread


def test_each_phase_keeps_only_so_many() -> None:
    envelopes = [make_envelope("r", n, phase=f"phase_{n % 2}") for n in range(1, 7)]
    files = run_files("r", envelopes, last_updated=format_moment(NOON))

    assert kept_numbers(pruned(files, RetentionRules(per_phase=1))) == [5, 6]
    assert kept_numbers(pruned(files, RetentionRules(per_phase=2))) == [3, 4, 5, 6]


def test_checkpoints_beyond_an_age_go_but_never_the_newest() -> None:
    files = make_run("r", 4, at=NOON - 40 * DAY_S, status="failed")
    two, all_of_them = sorted(files)[:2], list(files)

    assert kept_numbers(pruned(files, RetentionRules(days=25), {25: two})) == [3, 4]
    assert kept_numbers(pruned(files, RetentionRules(days=5), {5: all_of_them})) == [4]


def test_checkpoint_is_as_old_as_github_says_whatever_its_own_time_is() -> None:
    files = make_run("r", 4, at=NOON - 40 * DAY_S, status="failed")

    assert not pruned(files, RetentionRules(days=25), {25: []}).is_change


def test_file_that_was_another_one_before_is_not_old() -> None:
    run = folder("r", make_run("r"))
    before = {name: file._replace(sha="another") for name, file in run.files.items()}
    aged = replace(run, files_before={30.0: before})

    assert not plan(aged, rules=RetentionRules(days=30)).changes


def test_completed_run_beyond_the_age_is_archived_and_one_that_can_be_resumed_is_not() -> None:
    files, rules = make_run("r"), RetentionRules(days=30)

    assert pruned(files, rules, {30: list(files)}).action is Action.ARCHIVE
    assert not pruned(files, rules, {30: []}).is_change
    failed = make_run("r", status="failed")
    assert kept_numbers(pruned(failed, rules, {30: list(failed)})) == [3]


def test_abandoned_run_is_archived_only_beyond_its_own_limit() -> None:
    files = make_run("r", at=NOON - 40 * DAY_S, status="in_progress")
    before: dict[float, list[str]] = {30: list(files), 50: []}

    assert not pruned(files, RetentionRules(), before).is_change
    assert not pruned(files, RetentionRules(abandoned_days=50), before).is_change
    assert pruned(files, RetentionRules(abandoned_days=30), before).action is Action.ARCHIVE


def test_run_that_has_got_one_more_checkpoint_since_is_not_abandoned() -> None:
    files = make_run("r", status="in_progress")
    before = [name for name in files if name != "cp_002_manual.json"]

    assert not pruned(files, RetentionRules(abandoned_days=30), {30: before}).is_change


def test_completed_run_is_deleted_on_success_unless_it_is_marked() -> None:
    rules = RetentionRules(deletes_completed=True)
    kept = make_run("r", context_fields={"retention": "keep"})

    assert pruned(make_run("r"), rules).action is Action.ARCHIVE
    assert not pruned(kept, rules).is_change
    assert not pruned(make_run("r", status="failed"), rules).is_change
    unopened = folder("r", make_run("r"), is_opened=False)
    assert plan(unopened, rules=rules).unread == {"r": ("latest.json",)}


def test_batch_is_cut_by_a_clean_up_and_left_whole_by_the_pruning_after_a_drain() -> None:
    singles = make_run("r", 6)
    index = parse_index(singles["index.json"], "index.json")
    batch = b'{"checkpoints":[%s]}' % b",".join(singles[f"cp_00{n}_manual.json"] for n in (2, 3, 4))
    entries = [
        replace(entry, file_path=LAYOUT.path("r", "batch_2_4.json")) if entry.sequence in (2, 3, 4) else entry
        for entry in index.entries
    ]
    files = without(singles, *(f"cp_00{n}_manual.json" for n in (2, 3, 4))) | {
        "batch_2_4.json": batch,
        "index.json": replace(index, entries=tuple(entries)).to_bytes(),
    }

    rules = RetentionRules(checkpoints=3)
    known: dict[str, Any] = {"protected": {}, "log": RetentionLog(), "layout": LAYOUT}
    after_drain = by_run(plan_pruning([folder("r", files)], rules, **known))["r"]

    assert pruned(files, rules).unread == ("batch_2_4.json",), "to be cut, it must be read"
    assert kept_numbers(after_drain) == [2, 3, 4, 5, 6]
    assert kept_numbers(pruned(files, RetentionRules(checkpoints=2))) == [5, 6]


def test_parts_that_a_kept_checkpoint_refers_to_stay() -> None:
    other = "parts/" + "b" * 64 + ".json"
    run = replace(
        folder("r", {**make_run("r", 3), PART: b"1", other: b"2"}),
        parts_of={"cp_003_manual.json": frozenset({PART}), "latest.json": frozenset({PART})},
    )

    pruning = by_run(plan(run, rules=RetentionRules(checkpoints=1)))["r"]
    trimming = by_run(plan(run, rules=RetentionRules(0, 1)))["r"]

    assert other in pruning.delete
    assert PART not in pruning.delete
    assert other in trimming.delete
    assert PART not in trimming.delete


def test_kept_files_are_opened_before_parts_are_judged() -> None:
    run = folder("r", {**make_run("r", 3), PART: b"1"}, is_opened=False)

    assert plan(run, rules=RetentionRules(checkpoints=2)).unread == {
        "r": ("cp_002_manual.json", "cp_003_manual.json")
    }
    assert plan(run, rules=RetentionRules(0, 1)).unread == {"r": ("latest.json",)}


def test_index_of_others_without_blobs_is_trusted_only_once_the_latest_was_read() -> None:
    files = make_run("z")
    document = json.loads(files["index.json"])
    for entry in document["checkpoints"]:
        del entry["blob_sha"]
    files["index.json"] = json.dumps(document).encode()

    unread = plan(folder("z", files, is_opened=False), rules=RetentionRules(0, 1))
    read = plan(folder("z", files), rules=RetentionRules(0, 1))

    assert unread.unread == {"z": ("latest.json",)}
    assert actions(read) == {"z": "trim"}


def test_pruning_alone_never_trims_or_archives() -> None:
    known: dict[str, Any] = {"protected": {}, "log": RetentionLog(), "layout": LAYOUT}
    runs = [folder("r", make_run("r", 3))]

    found = plan_pruning(runs, RetentionRules(0, 0, checkpoints=2, deletes_completed=True), **known)

    assert actions(found) == {"r": "prune"}


def test_changes_are_grouped_without_tearing_a_run_apart() -> None:
    runs = [folder(f"r{n}", make_run(f"r{n}", 4)) for n in range(4)]
    found = plan(*runs, rules=RetentionRules(0, 0))

    assert [len(group) for group in found.groups(100)] == [4]
    assert [len(group) for group in found.groups(14)] == [2, 2]
    assert [len(group) for group in found.groups(1)] == [1, 1, 1, 1]
