"""The action on a real runner, against the emulator. `scripts/action-e2e` runs these; act is needed."""

import json
import os
from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer, parse_fault
from tests.e2e.runner import REPOSITORY, TOKEN, Act
from tests.fakes.repository import check_files, files_of_run, read_branch

ACT = os.environ.get("ACT_PROGRAM", "")

pytestmark = [
    pytest.mark.skipif(not ACT, reason="ACT_PROGRAM names no act; scripts/action-e2e sets it"),
    pytest.mark.timeout(500),
]


@pytest.fixture(scope="module")
def emulator(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Emulator]:
    root = tmp_path_factory.mktemp("github")
    emulator = Emulator(EmulatorOptions(root=root, repo=REPOSITORY, token=TOKEN))
    yield emulator
    emulator.close()


@pytest.fixture(scope="module")
def act(tmp_path_factory: pytest.TempPathFactory, emulator: Emulator) -> Iterator[Act]:
    home = tmp_path_factory.mktemp("runner")
    with EmulatorServer(emulator) as server:
        yield Act(Path(ACT), home / "home", server.url)


def stored(emulator: Emulator) -> dict[str, bytes]:
    return read_branch(emulator.options.root / f"{REPOSITORY}.git")


def test_a_saved_checkpoint_is_verified_and_its_outputs_can_be_used(act: Act, emulator: Emulator) -> None:
    ended = act.run("save")

    assert ended.code == 0, ended.log
    assert act.report("save") == ["1", "verified", "checkpoints/Save-1-build/cp_001_phase_complete.json", ""]
    assert TOKEN not in ended.log
    text = stored(emulator)["checkpoints/Save-1-build/cp_001_phase_complete.json"]
    assert b'"price": 1.10' in text
    assert b"123456789012345678901234567890" in text
    assert json.loads(text)["context_fields"]["github_actions"]["job"] == "build"


def test_a_job_that_failed_goes_on_where_it_stopped_when_it_is_run_again(
    act: Act, emulator: Emulator
) -> None:
    first = act.run("timed-out")
    second = act.run("timed-out")

    assert (first.code, second.code) == (1, 0), first.log + second.log
    assert act.report("build") == ["false  ", "true test app.bin"]
    checkpoints = files_of_run(stored(emulator), "Timed-out-build-1-build")
    assert checkpoints["cp_001_task_change.json"]["status"] == "failed"
    assert checkpoints["latest.json"]["status"] == "completed"


def test_four_jobs_with_ten_saves_each_lose_nothing_and_double_nothing(act: Act, emulator: Emulator) -> None:
    ended = act.run("matrix")

    assert ended.code == 0, ended.log
    assert ended.annotations("warning") == []
    files = stored(emulator)
    runs = {path.split("/")[1] for path in files if path.startswith("checkpoints/Matrix-1-build-")}
    assert len(runs) == 4
    saved = set()
    for run_id in runs:
        assert check_files(files, run_id).keys() == set(range(1, 11))
        states = [
            json.loads(text)["state_snapshot"] for path, text in files.items() if f"/{run_id}/cp_" in path
        ]
        saved |= {(state["shard"], state["round"]) for state in states}
    assert saved == {(shard, turn) for shard in range(1, 5) for turn in range(1, 11)}


def test_what_a_limit_kept_from_github_is_handed_over_to_another_job(act: Act, emulator: Emulator) -> None:
    emulator.faults.add(parse_fault("any:secondary=3600"))

    limited = act.run("limited")
    emulator.faults.clear()
    asked = len(emulator.journal)
    drained, again = act.run("drain"), act.run("drain")

    assert limited.code == 0, limited.log
    folder = act.reports / "artifacts" / "build"
    assert act.report("limited") == ["spooled spooled", f"2 {folder}"]
    assert [text for text in limited.annotations("warning") if "not in the repository yet" in text]
    assert (drained.code, again.code) == (0, 0), drained.log + again.log
    assert act.report("drain") == ["verified 0", "verified 0"]
    assert len(emulator.journal) > asked
    files = stored(emulator)
    assert len(check_files(files, "limited")) == 2
    assert not folder.exists()


def test_hostile_inputs_are_stored_or_refused_but_never_obeyed(act: Act, emulator: Emulator) -> None:
    ended = act.run("hostile")

    assert ended.code == 0, ended.log
    assert act.report("hostile") == ["verified", "error", "error", "error", "error"]
    assert len(ended.annotations("warning")) == 4
    assert not (act.reports / "pwned").exists()
    assert not list(act.checkout.parent.rglob("pwned"))
    run_id = "touch-pwned-set-output-name-status-pwned-1-build"
    (checkpoint,) = check_files(stored(emulator), run_id)
    latest = files_of_run(stored(emulator), run_id)["latest.json"]
    assert latest["phase"].startswith("'\"`$(touch")
    assert latest["state_snapshot"].strip() == latest["phase"].strip()
    assert checkpoint == 1


def test_a_cleanup_removes_what_its_dry_run_has_named(act: Act, emulator: Emulator) -> None:
    before = stored(emulator).keys()

    ended = act.run("cleanup")

    assert ended.code == 0, ended.log
    (line,) = act.report("cleanup")
    planned, deleted = line.split()
    assert planned == deleted == str(len(before - stored(emulator).keys()))
    assert int(deleted) > 0
