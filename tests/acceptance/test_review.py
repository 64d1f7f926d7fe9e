"""Runs that wait for a person, on the embedded GitHub: through the library and the recorder."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.settings import Settings
from holdfast.styles import STYLES


def opened(folder: Path, **settings: object) -> Holdfast:
    return Holdfast(Settings.from_environment({}, {"data_dir": folder, "min_free_bytes": 0, **settings}))


@pytest.fixture(params=["contents", "commit"])
def hf(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[Holdfast]:
    with opened(tmp_path, write_mode=request.param) as holdfast:
        yield holdfast


class Failure(Exception):
    """What goes wrong in the work."""


@pytest.mark.parametrize("style", STYLES)
def test_leaving_the_block_after_a_trip_does_not_complete_the_run(hf: Holdfast, style: Any) -> None:
    with hf.run("r", style=style) as run:
        run.trip("5 errors in a row")
    hf.drain()

    plan = hf.resume("r")

    assert (plan.resume_at, plan.status, plan.resumable) == ("human_review", "in_progress", True)
    assert plan.review
    assert (plan.review.kind, plan.review.reason) == ("circuit_breaker", "5 errors in a row")
    assert [run.run_id for run in hf.runs(review=True)] == ["r"]


@pytest.mark.parametrize("is_drained", [True, False])
def test_a_breaker_is_remembered_after_bare_states(hf: Holdfast, is_drained: bool) -> None:
    hf.save("r", {"circuit_breaker_state": {"state": "open"}}, trigger="circuit_breaker", phase="phase_2")
    hf.drain()
    for trigger in ("error", "interrupted", "manual"):
        hf.save("r", {"error": "boom"}, trigger=trigger)
        if is_drained:
            hf.drain()

    plan = hf.resume("r")

    assert (plan.resume_at, plan.needs_review) == ("human_review", True)
    assert plan.review
    assert plan.review.phase == "phase_2"
    assert [run.run_id for run in hf.runs(review=True)] == ["r"]


def test_a_failed_gate_holds_after_an_exception(hf: Holdfast) -> None:
    with suppress(Failure), hf.run("r") as run:
        with run.phase("phase_2"):
            pass
        run.gate("phase_2", decision="fail")
        raise Failure
    hf.drain()

    plan = hf.resume("r")

    assert (plan.resume_at, plan.needs_review) == ("phase_2_gate", True)


def test_a_late_checkpoint_of_another_machine_is_told(tmp_path: Path) -> None:
    hour = timedelta(hours=1)
    now = datetime.now(UTC)
    with opened(tmp_path / "here") as here:
        here.submit(
            {"run_id": "r", "trigger": "manual", "state": 1, "timestamp": (now - 3 * hour).isoformat()}
        )
        here.submit({"run_id": "r", "trigger": "run_complete", "status": "completed", "state": 2})
        here.drain()
        # What another machine saved in between, handed in once it was online again.
        here.submit(
            {"run_id": "r", "trigger": "manual", "state": 3, "timestamp": (now - 2 * hour).isoformat()}
        )
        here.drain()

        (warning,) = here.resume("r").warnings

    assert "checkpoint 3 came late: it is of the machine " in warning
    assert "before checkpoint 2 (run_complete, completed)" in warning


def test_the_phases_completed_are_those_of_the_index(hf: Holdfast) -> None:
    for phase in ("phase_0", "phase_1_plan", "phase_2_build"):
        hf.save("r", {"any": "thing"}, trigger="phase_complete", phase=phase)
        hf.drain()

    plan = hf.resume("r")

    assert plan.completed == ["phase_0", "phase_1_plan", "phase_2_build"]
    assert "Phases completed: phase_0, phase_1_plan, phase_2_build\n" in plan.message


def test_an_old_checkpoint_is_a_warning(tmp_path: Path) -> None:
    saved_at = (datetime.now(UTC) - timedelta(days=9)).isoformat()
    checkpoint = {"run_id": "r", "trigger": "manual", "phase": "p", "state": 1, "timestamp": saved_at}
    with opened(tmp_path) as hf:
        hf.submit({**checkpoint, "context_fields": {"warnings": ["x"]}})
        plan = hf.resume("r")
    with opened(tmp_path, warn_age="30d") as patient:
        later = patient.resume("r")

    assert plan.warnings == ["the checkpoint is 9.0 days old: what it relies on may have changed since"]
    assert (plan.phase, plan.trigger, plan.saved_at) == ("p", "manual", saved_at)
    assert plan.age_s == pytest.approx(9 * 86_400, abs=600)
    assert plan.context_fields == {"warnings": ["x"]}
    assert later.warnings == []


def test_a_run_that_waits_is_not_trimmed(tmp_path: Path) -> None:
    with opened(tmp_path, keep_full_runs=0) as hf:
        hf.save("waits", {}, trigger="escalation", phase="phase_1")
        hf.save("waits", {}, trigger="error")
        hf.save("other", {})
        hf.save("other", {})
        hf.drain()

        done = {run.run_id: run.action for run in hf.cleanup().done}

        assert done == {"other": "trim"}
        assert hf.resume("waits").needs_review
