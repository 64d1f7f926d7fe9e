import json
import time
from dataclasses import replace
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.cli import complete
from holdfast.clock import SystemClock
from holdfast.emulator import parse_fault
from holdfast.errors import Throttled
from holdfast.library import Holdfast as Library
from holdfast.retention import SweepReport
from holdfast.settings import Settings
from holdfast.sidecar import drainer
from tests.fakes.clock import VirtualClock
from tests.fakes.repository import files_of_run, read_branch
from tests.fakes.sidecar import running_sidecar

from .conftest import GitHub, Holdfast


def store(holdfast: Holdfast, *runs: str, count: int = 2, options: tuple[str, ...] = ()) -> None:
    for run_id in runs:
        for _ in range(count):
            holdfast("submit", "-", "--run-id", run_id, *options, stdin='{"n": 1}')
    assert holdfast("drain", *options).code == 0


def stored(data_dir: Path, run_id: str) -> set[str]:
    (repository,) = (data_dir / "github").glob("*/*.git")
    return set(files_of_run(read_branch(repository), run_id))


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """One run keeps everything, two keep their latest."""
    monkeypatch.setenv("HOLDFAST_KEEP_FULL_RUNS", "1")
    monkeypatch.setenv("HOLDFAST_KEEP_LATEST_RUNS", "2")


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_dry_run_shows_the_plan_as_a_table_and_changes_nothing(holdfast: Holdfast, data_dir: Path) -> None:
    store(holdfast, "a", "b", "c")

    ended = holdfast("cleanup", "--dry-run")

    assert ended.code == 0
    lines = ended.out.splitlines()
    assert lines[0].split() == ["run", "action", "files", "bytes", "why"]
    assert [line.split()[:3] for line in lines[1:3]] == [["b", "trim", "3"], ["a", "trim", "3"]]
    assert "can be resumed" in lines[2]
    assert lines[-1].startswith("Would delete 6 files (")
    assert len(stored(data_dir, "a")) == 4


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_dry_run_is_a_json_document_too(holdfast: Holdfast) -> None:
    store(holdfast, "a", "b")

    found = holdfast("cleanup", "--dry-run", "--json").document

    assert found["dry_run"] is True
    assert found["commits"] == []
    assert sorted(found["delete"]) == [
        "checkpoints/a/cp_001_manual.json",
        "checkpoints/a/cp_002_manual.json",
        "checkpoints/a/index.json",
    ]
    assert {run["run_id"]: run["action"] for run in found["runs"]} == {"a": "trim", "b": "keep"}
    assert found["deleted_files"] == 3


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_cleanup_does_what_the_dry_run_says(holdfast: Holdfast, data_dir: Path) -> None:
    store(holdfast, "a", "b")

    first, second = holdfast("cleanup"), holdfast("cleanup")

    assert first.out.splitlines()[-1].startswith("Deleted 3 files (")
    assert stored(data_dir, "a") == {"latest.json"}
    assert second.out == "Nothing to clean up in 2 runs.\n"
    assert [run["run_id"] for run in holdfast("runs", "--json").document["runs"]] == ["b", "a"]
    assert holdfast("show", "a", "--json").document["sequence_number"] == 2


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_preserved_run_stays_until_it_is_let_go(holdfast: Holdfast, data_dir: Path) -> None:
    store(holdfast, "a", "b")

    assert holdfast("preserve", "a").out == "a is preserved: cleanup never touches it.\n"
    holdfast("cleanup")
    assert len(stored(data_dir, "a")) == 4

    assert holdfast("preserve", "a", "--remove", "--json").document == {
        "run_id": "a",
        "preserved": False,
        "changed": True,
    }
    holdfast("cleanup")
    assert stored(data_dir, "a") == {"latest.json"}


def test_name_that_is_no_text_is_refused_before_anything_is_stored(holdfast: Holdfast) -> None:
    ended = holdfast("preserve", "a\udcff")

    assert ended.code == 2
    assert "names no run" in ended.err
    assert "Traceback" not in ended.err


@pytest.mark.slow
def test_run_that_nobody_knows_is_preserved_with_a_question(holdfast: Holdfast) -> None:
    store(holdfast, "a")

    known, unknown = holdfast("preserve", "a"), holdfast("preserve", "aa")

    assert known.err == ""
    assert unknown.out == "aa is preserved: cleanup never touches it.\n"
    assert "There is no run aa yet" in unknown.err


@pytest.mark.slow
def test_run_of_which_a_summary_is_left_is_preserved_with_a_word_about_that(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DELETE_COMPLETED", "true")
    store(holdfast, "a")
    holdfast("complete", "a", "--status", "completed")

    ended = holdfast("preserve", "a")

    assert ended.code == 0
    assert "only a summary is left, which is preserved from now on" in ended.err
    assert "spelled right" not in ended.err


def test_name_that_is_no_run_cannot_be_preserved(holdfast: Holdfast) -> None:
    assert holdfast("preserve", "../x").code == 2


@pytest.mark.slow
def test_squash_reports_commits_and_bytes(holdfast: Holdfast, data_dir: Path) -> None:
    store(holdfast, "a")
    before = stored(data_dir, "a")

    found = holdfast("cleanup", "--squash-history", "--json").document["squash"]

    assert found["commits_before"] > found["commits_after"] == 1
    assert found["branch_bytes"] > 0
    assert {"bytes_before", "bytes_after"} <= found.keys()
    assert stored(data_dir, "a") == before
    assert "1 now" in holdfast("cleanup", "--squash-history").out


@pytest.mark.slow
def test_default_branch_is_not_squashed_unless_named(holdfast: Holdfast) -> None:
    store(holdfast, "a", options=("--branch", "main"))

    refused = holdfast("cleanup", "--squash-history", "--branch", "main")

    assert refused.code == 1
    assert "--force main" in refused.err
    assert holdfast("cleanup", "--squash-history", "--branch", "main", "--force", "main").code == 0


@pytest.mark.parametrize(
    "words",
    [
        ("--keep-days", "3"),
        ("--force", "main"),
        ("--squash-history", "--dry-run"),
        ("--squash-history", "--keep-days", "x"),
    ],
)
def test_options_that_do_not_go_together_are_refused(holdfast: Holdfast, words: tuple[str, ...]) -> None:
    assert holdfast("cleanup", *words).code == 2


@pytest.mark.slow
def test_low_budget_ends_with_75_and_leaves_everything(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    store(holdfast, "a", "b", options=github.options)
    monkeypatch.setenv("HOLDFAST_KEEP_FULL_RUNS", "0")
    monkeypatch.setenv("HOLDFAST_LOW_BUDGET", "4999")

    ended = holdfast("cleanup", *github.options)

    assert ended.code == 75
    assert "for checkpoints" in ended.err
    monkeypatch.setenv("HOLDFAST_LOW_BUDGET", "100")
    assert holdfast("cleanup", *github.options).out.splitlines()[-1].startswith("Deleted 6 files")


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_throttled_cleanup_is_a_document_of_the_same_shape_that_says_why(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise Throttled("x", "GitHub's calls are used up", kind="primary", retry_after_s=60)

    usual = holdfast("cleanup", "--json")
    monkeypatch.setattr(Library, "cleanup", refuse)

    ended = holdfast("cleanup", "--json")

    assert ended.code == 75
    assert "used up" in ended.document["reason"]
    assert ended.document.keys() == usual.document.keys()
    assert usual.document["reason"] is None


@pytest.mark.slow
@pytest.mark.usefixtures("few")
def test_cleanup_that_is_cut_short_shows_what_it_did_and_ends_with_75(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def cut_short(holdfast: Library, **_: object) -> SweepReport:
        report = holdfast._assembly.shards[0].sweeper.sweep()
        return replace(report, rest_because="the rest is for checkpoints")

    store(holdfast, "a", "b")
    monkeypatch.setattr(Library, "cleanup", cut_short)

    ended = holdfast("cleanup", "--squash-history")

    assert ended.code == 75
    assert ended.out.splitlines()[-1].startswith("Deleted 3 files")
    assert "the rest is for checkpoints" in ended.err


@pytest.mark.slow
def test_completed_run_ends_with_its_newest_state(holdfast: Holdfast) -> None:
    text = '{"run_id": "a", "trigger": "manual", "phase": "phase_2_build", "workflow": "ci", '
    holdfast("submit", "-", stdin=text + '"state": {"n": 1.10}, "extra": [1]}')

    ended = holdfast("complete", "a", "--status", "completed", "--json")

    assert ended.code == 0
    assert (ended.document["sequence_number"], ended.document["status"]) == (2, "verified")
    shown = holdfast("show", "a", "--json").out
    final = json.loads(shown)
    assert (final["trigger"], final["status"], final["phase"], final["workflow"], final["extra"]) == (
        "run_complete",
        "completed",
        "phase_2_build",
        "ci",
        [1],
    )
    assert '"n": 1.10' in shown or '"n":1.10' in shown


@pytest.mark.slow
def test_run_that_has_ended_already_is_not_ended_again(holdfast: Holdfast) -> None:
    store(holdfast, "a", count=1)
    holdfast("complete", "a")

    again = holdfast("complete", "a", "--json")
    failed = holdfast("complete", "a", "--status", "failed", "--json")

    assert again.document["sequence_number"] == 2
    assert failed.document["sequence_number"] == 3


def test_completion_of_an_unknown_run_fails(holdfast: Holdfast) -> None:
    assert holdfast("complete", "nobody").code == 1


@pytest.mark.slow
def test_completed_run_is_deleted_on_success_unless_it_is_kept(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_DELETE_COMPLETED", "true")
    store(holdfast, "a", "b", "c")

    holdfast("complete", "a")
    holdfast("complete", "b", "--keep")
    holdfast("complete", "c", "--status", "failed")
    holdfast("cleanup")

    assert stored(data_dir, "a") == {"summary.json"}
    assert len(stored(data_dir, "b")) == 5
    assert len(stored(data_dir, "c")) == 5


@pytest.mark.slow
def test_completion_is_safe_on_disk_while_github_is_away(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    clock = VirtualClock(time.time())
    monkeypatch.setattr(SystemClock, "now", lambda _: clock.now())
    monkeypatch.setattr(SystemClock, "sleep", lambda _, seconds: clock.sleep(seconds))
    store(holdfast, "a", options=github.options)
    holdfast("show", "a", *github.options)
    github.emulator.faults.add(parse_fault("any:503:times=1000"))

    ended = holdfast("complete", "a", "--json", *github.options)

    assert ended.code == 75
    assert (ended.document["sequence_number"], ended.document["status"]) == (3, "spooled")


@pytest.mark.slow
def test_completion_beside_a_running_service_is_stored_by_that(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(drainer, "LOOK_EVERY_S", 0.05)
    store(holdfast, "a")

    with running_sidecar(data_dir) as sidecar:
        sidecar.submit("a")
        ended = holdfast("complete", "a", "--json")

    assert ended.code == 0
    assert (ended.document["sequence_number"], ended.document["status"]) == (4, "verified")


@pytest.mark.slow
def test_completion_that_another_process_has_not_stored_yet_is_in_good_hands(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "_WAIT_FOR_SERVICE_S", 0.0)
    store(holdfast, "a")
    other = Assembly(Settings.from_environment({"HOLDFAST_DATA_DIR": str(data_dir)}))

    with other.spool.drainer():
        ended = holdfast("complete", "a")
    other.close()

    assert ended.code == 0
    assert ended.out == "a is completed: checkpoint 3 is spooled.\n"
    assert ended.err.startswith(
        "holdfast: 1 checkpoint still waiting in the spool, the final one among them: "
    )
    assert "is draining this spool" in ended.err
    assert holdfast("drain").code == 0


@pytest.mark.slow
def test_completion_beside_another_drain_tells_how_many_wait_for_that(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(complete, "_WAIT_FOR_SERVICE_S", 0.0)
    store(holdfast, "a")
    holdfast("submit", "-", "--run-id", "b", stdin="{}")
    other = Assembly(Settings.from_environment({"HOLDFAST_DATA_DIR": str(data_dir)}))

    with other.spool.drainer():
        ended = holdfast("complete", "a", "--json")
    other.close()

    assert (ended.document["status"], ended.document["left"]) == ("spooled", 2)
    assert "is draining this spool" in ended.document["reason"]
    assert "2 checkpoints still waiting in the spool" in ended.err


@pytest.mark.slow
def test_completion_that_github_will_not_take_fails_and_says_why(holdfast: Holdfast, github: GitHub) -> None:
    store(holdfast, "a", options=github.options)
    github.emulator.switch(secret_marker="run_complete")

    ended = holdfast("complete", "a", "--json", *github.options)

    assert ended.code == 1
    assert ended.document["status"] == "refused"
    assert "the final checkpoint was refused: " in ended.err
