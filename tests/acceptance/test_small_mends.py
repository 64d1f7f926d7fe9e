"""Small promises of the specifications, each through the door that a user would use."""

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.settings import Settings

NATIVE_STEPS = {
    "version": 1,
    "session_id": "session-abc123",
    "workflow_path": "ci.yml",
    "state": {"Failed": {"step_index": 3, "error": "boom", "retryable": True}},
    "completed_steps": [],
    "variables": {},
}


def opened(folder: Path, **settings: object) -> Holdfast:
    return Holdfast(Settings.from_environment({}, {"data_dir": folder, "min_free_bytes": 0, **settings}))


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with opened(tmp_path) as holdfast:
        yield holdfast


@pytest.mark.parametrize("status", ["pending", "error", "failed", "in_progress"])
def test_a_task_that_is_not_done_is_not_completed(hf: Holdfast, status: str) -> None:
    tasks = [{"task_id": "a", "status": "completed"}, {"task_id": "b", "status": status}, {"task_id": "c"}]
    layers = {"layers": [["a", "b"], ["c"]]}
    progress = {"style": "layers", "layer_index": 0, "dag_structure": layers, "tasks": tasks}
    hf.save("r", {"progress": progress})

    plan = hf.resume("r")

    assert (plan.completed, plan.remaining) == (["a", "c"], ["b"])


def test_an_imported_row_counts_only_its_finished_tasks(hf: Holdfast) -> None:
    row = b"""{"id": "550e8400-e29b-41d4-a716-446655440000", "workflow_id": "w", "layer_index": 1,
        "timestamp": "2026-01-01T00:00:00Z", "dag_structure": {"layers": [["a"], ["b", "c"]]},
        "state": {"tasks": [{"taskId": "a", "status": "completed"}, {"taskId": "b", "status": "failed"}]}}"""
    (imported,) = hf.import_checkpoints([("row.json", row)])

    assert imported.run_id
    plan = hf.resume(imported.run_id)

    assert (plan.completed, plan.remaining) == (["a"], ["b", "c"])


@pytest.mark.parametrize(
    ("state", "resume_at", "is_repeated"),
    [
        ({"Failed": {"step_index": 3, "error": "boom", "retryable": True}}, 3, True),
        ({"BeforeStep": {"step_index": 2}}, 2, True),
        ({"Completed": {"step_index": 2, "output": "ok"}}, 3, False),
        ({"Interrupted": {"step_index": 1, "in_progress": True}}, 1, True),
    ],
)
def test_the_steps_know_the_specifications_own_tags(
    hf: Holdfast, state: Any, resume_at: int, is_repeated: bool
) -> None:
    done = [{"step_index": index} for index in range(resume_at)]
    hf.save("r", {"progress": {"style": "steps", "state": state, "completed_steps": done}})

    plan = hf.resume("r")
    with hf.run("r", style="steps") as run:
        run.resume()

    assert (plan.resume_at, plan.retry_current, plan.warnings) == (resume_at, is_repeated, [])


def test_a_native_state_is_told_to_be_imported(hf: Holdfast) -> None:
    hf.save("r", NATIVE_STEPS)

    plan = hf.resume("r")

    (warning,) = [warning for warning in plan.warnings if "holdfast import" in warning]
    assert warning.startswith("the state looks like ")


def fail_again(hf: Holdfast, times: int) -> None:
    for _ in range(times):
        with suppress(ValueError), hf.run("r", style="agents") as run:
            run.resume()
            with run.agent("coder"):
                raise ValueError("broken")


def test_a_run_goes_back_for_an_agent_once(hf: Holdfast) -> None:
    with hf.run("r", style="agents", autosave_s=None) as run, run.agent("planner"):
        pass
    fail_again(hf, 4)
    back = hf.resume("r")
    assert any("the plan goes back to checkpoint" in warning for warning in back.warnings)
    assert not back.needs_review
    # Who looks at one checkpoint has not asked for those before it, and waits for nobody because of that.
    assert not hf.resume("r", at=hf.checkpoints("r").entries[-1].sequence).needs_review

    fail_again(hf, 4)
    again = hf.resume("r")

    assert again.state["progress"]["stepped_back_for"] == ["coder"]
    assert any("has gone back for that before: a person must decide" in each for each in again.warnings)


@pytest.mark.parametrize(("decision", "status"), [("retry", "pending"), ("continue", "completed")])
def test_a_run_whose_agent_is_given_up_waits_for_a_person(hf: Holdfast, decision: str, status: str) -> None:
    with hf.run("r", style="agents", autosave_s=None) as run, run.agent("planner"):
        pass
    fail_again(hf, 8)

    for _ in range(2):  # in the spool, and stored
        assert [line.review.reason for line in hf.waiting() if line.review] == ["coder failed too often"]
        assert hf.resume("r").resume_at == "human_review"
        hf.drain()
    hf.review("r", decision)

    assert hf.waiting() == []
    plan = hf.resume("r")
    assert (plan.needs_review, plan.state["progress"]["agents"]["coder"]["status"]) == (False, status)


@pytest.mark.parametrize(("decision", "status"), [("retry", "pending"), ("continue", "completed")])
@pytest.mark.parametrize("is_stored", [False, True], ids=["spooled", "stored"])
def test_a_run_with_nothing_to_go_back_to_waits_for_a_person(
    hf: Holdfast, decision: str, status: str, is_stored: bool
) -> None:
    fail_again(hf, 3)
    assert not hf.resume("r").needs_review
    fail_again(hf, 1)
    if is_stored:
        hf.drain()

    plan = hf.resume("r")
    assert plan.review is not None
    assert (plan.review.kind, plan.review.reason) == ("escalation", "coder failed too often")
    assert (plan.needs_review, plan.resume_at, plan.retry_current) == (True, "human_review", False)
    assert [line.summary.run_id for line in hf.waiting()] == ["r"]
    hf.review("r", decision)

    after = hf.resume("r")
    assert hf.waiting() == []
    assert (after.needs_review, after.state["progress"]["agents"]["coder"]["status"]) == (False, status)
    assert not any("failed" in warning for warning in after.warnings)


def test_agents_that_failed_too_often_wait_also_where_only_history_counts_them(hf: Holdfast) -> None:
    progress = {"style": "agents", "phase": 1, "agents": {"a": {"status": "failed"}, "b": {"status": "x"}}}
    for _ in range(4):
        hf.save("r", {"progress": progress}, trigger="error")

    plan = hf.resume("r")
    assert (plan.needs_review, plan.resume_at) == (True, "human_review")
    hf.review("r", "retry")

    after = hf.resume("r")
    assert (after.needs_review, after.resume_at) == (False, 1)
    assert after.state["progress"]["agents"]["a"]["status"] == "pending"


@pytest.mark.parametrize("way", ["recorder", "checkpoint"])
def test_a_completed_run_starts_the_clean_up(tmp_path: Path, way: str) -> None:
    with opened(tmp_path, delete_completed=True) as hf:
        if way == "recorder":
            with hf.run("r", drain_at_end=True) as run, run.phase("phase_1"):
                pass
        else:
            hf.save("r", {}, trigger="run_complete", status="completed")
            hf.drain()

        assert [run.run_id for run in hf.runs(archived=True)] == ["r"]


def test_the_hour_of_the_embedded_github_is_that_of_the_clock(tmp_path: Path) -> None:
    resets = []
    for number in range(2):
        with opened(tmp_path) as hf:
            hf.save("r", number)
            hf.drain()
            resets.append(hf.status()["budget"]["last_reset"])

    assert resets[0] % 3600 == 0
    assert resets[1] - resets[0] in (0, 3600)
