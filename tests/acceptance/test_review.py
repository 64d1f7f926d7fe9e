"""Runs that wait for a person, on the embedded GitHub: through the library and the recorder."""

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.errors import DecisionRefused
from holdfast.settings import Settings
from holdfast.styles.known import STYLES


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


@pytest.mark.parametrize(
    ("style", "part", "options"),
    [
        ("tasks", "task", {"work": ["a", "b", "c"]}),
        ("steps", "step", {"work": ["a", "b", "c"]}),
        ("phases", "phase", {"work": ["a", "b", "c"]}),
    ],
)
def test_what_tripped_the_breaker_is_done_again_after_a_retry(
    hf: Holdfast, style: Any, part: str, options: dict[str, Any]
) -> None:
    with hf.run("r", style=style, **options) as run:
        with getattr(run, part)("a"):
            pass
        with getattr(run, part)("b"):
            run.trip("b went wrong")
    hf.review("r", "retry")

    with hf.run("r", style=style, **options) as run:
        run.resume()
        assert run.remaining(["a", "b", "c"]) == ["b", "c"]


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


def decide(hf: Holdfast, decision: str = "continue", *, run_id: str = "r") -> Any:
    hf.review(run_id, decision)
    return hf.resume(run_id)


@pytest.fixture(params=[True, False], ids=["stored", "spooled"])
def step(tmp_path: Path, request: pytest.FixtureRequest) -> Iterator[tuple[Holdfast, Any]]:
    """Give what saves a checkpoint, and drains it or not."""
    with opened(tmp_path, write_mode="commit") as holdfast:

        def save(state: object = None, **said: Any) -> None:
            holdfast.save("r", {} if state is None else state, **said)
            if request.param:
                holdfast.drain()

        yield holdfast, save


def test_continue_goes_on_after_the_phases_that_were_completed_meanwhile(step: tuple[Holdfast, Any]) -> None:
    hf, save = step
    save(trigger="circuit_breaker", phase="phase_2")
    for phase in ("phase_2", "phase_3", "phase_4"):
        save(trigger="phase_complete", phase=phase)
    save(trigger="error")

    plan = decide(hf)

    assert (plan.resume_at, plan.needs_review) == ("phase_5", False)
    assert plan.completed == ["phase_2", "phase_3", "phase_4"]


def test_continue_goes_on_in_the_phase_that_was_begun_meanwhile(step: tuple[Holdfast, Any]) -> None:
    hf, save = step
    save(trigger="escalation", phase="phase_2")
    save(trigger="iteration", phase="phase_3_design")

    assert decide(hf).resume_at == "phase_3_design"


@pytest.mark.parametrize(("decision", "resume_at"), [("continue", "phase_4"), ("retry", "phase_2_build")])
def test_a_gate_that_is_let_pass_repeats_no_phase_that_was_completed_since(
    step: tuple[Holdfast, Any], decision: str, resume_at: str
) -> None:
    hf, save = step
    gates = [{"gate_id": "phase_2", "decision": "fail"}]
    outputs: dict[str, Any] = {"phase_1": {}, "phase_2_build": {}}
    save({"phase_outputs": outputs, "gate_history": gates}, trigger="gate_decision", phase="phase_2_build")
    outputs["phase_3"] = {}
    save({"phase_outputs": outputs, "gate_history": gates}, trigger="phase_complete", phase="phase_3")

    assert decide(hf, decision).resume_at == resume_at


@pytest.mark.parametrize(("decision", "resume_at"), [("continue", "phase_3"), ("retry", "phase_2_build")])
def test_a_gate_that_is_named_after_no_phase_belongs_to_the_phase_it_was_decided_in(
    step: tuple[Holdfast, Any], decision: str, resume_at: str
) -> None:
    hf, save = step
    gates = [{"gate_id": "security", "decision": "reject"}]
    save({"gate_history": gates}, trigger="gate_decision", phase="phase_2_build")
    save({"gate_history": gates}, trigger="error")
    waiting = hf.resume("r").resume_at

    plan = decide(hf, decision)

    assert (waiting, plan.resume_at) == ("phase_2_build_gate", resume_at)


@pytest.mark.parametrize("trigger", ["circuit_breaker", "manual"])
def test_a_state_that_says_closed_does_not_close_a_breaker(step: tuple[Holdfast, Any], trigger: str) -> None:
    hf, save = step
    save({"circuit_breaker_state": {"status": "open", "reason": "5 errors"}}, trigger=trigger)
    save({"circuit_breaker_state": {"status": "closed"}}, trigger="phase_complete", phase="phase_2")
    save({"circuit_breaker_state": {"status": "closed"}}, trigger="manual", phase="phase_3")

    plan = hf.resume("r")

    assert (plan.resume_at, plan.needs_review) == ("human_review", True)
    assert plan.review
    assert plan.review.reason == ("5 errors")
    assert [run.run_id for run in hf.runs(review=True)] == ["r"]
    assert decide(hf).needs_review is False


def test_a_run_that_was_stopped_stays_stopped_whatever_comes_after(step: tuple[Holdfast, Any]) -> None:
    hf, save = step
    save(trigger="escalation", phase="phase_2")
    hf.review("r", "stop", by="ada")
    save(trigger="phase_complete", phase="phase_2")
    save(trigger="manual", phase="phase_3")

    plan = hf.resume("r")

    assert (plan.resumable, plan.status, plan.needs_review, plan.review) == (False, "failed", False, None)
    assert "was stopped by a review" in plan.warnings[0]
    assert "a fork of it can" in plan.warnings[0]
    assert [(run.resumable, run.status) for run in hf.runs()] == [(False, "failed")]
    assert hf.runs(resumable=True) == hf.runs(review=True) == []
    with pytest.raises(DecisionRefused, match="does not wait"):
        hf.review("r", "continue")


def test_the_recorder_does_not_go_on_with_a_run_that_was_stopped(tmp_path: Path) -> None:
    with opened(tmp_path) as hf:
        hf.save("r", {}, trigger="escalation")
        hf.review("r", "stop")

        with pytest.raises(DecisionRefused, match="was stopped by a review"), hf.run("r") as run:
            run.resume()

        assert not hf.resume("r").resumable


def test_a_run_that_was_stopped_is_not_completed_but_may_end_as_failed(step: tuple[Holdfast, Any]) -> None:
    hf, save = step
    save(trigger="escalation", phase="phase_2")
    hf.review("r", "stop")

    with pytest.raises(DecisionRefused, match="was stopped by a review"):
        hf.complete("r")

    hf.complete("r", "failed")
    assert [run.status for run in hf.runs()] == ["failed"]


def test_a_run_that_was_stopped_is_not_rolled_back_but_forked(step: tuple[Holdfast, Any]) -> None:
    hf, save = step
    save(trigger="manual", phase="phase_1")
    save(trigger="escalation", phase="phase_2")
    hf.review("r", "stop")

    with pytest.raises(DecisionRefused, match="a fork of it can"):
        hf.rollback("r", 1)
    with pytest.raises(DecisionRefused, match="an earlier one"):
        hf.fork("r", 3, "s")

    assert not hf.resume("r").resumable
    hf.fork("r", 2, "waits")
    hf.fork("r", 1, "goes-on")
    assert hf.resume("waits").needs_review
    assert hf.resume("goes-on").resume_at == "phase_1"


@pytest.mark.parametrize("trigger", ["escalation", "circuit_breaker"])
def test_who_goes_back_to_where_a_person_was_asked_is_asked_again(
    step: tuple[Holdfast, Any], trigger: str
) -> None:
    hf, save = step
    save(trigger=trigger, phase="phase_2")
    hf.review("r", "continue")
    save(trigger="phase_complete", phase="phase_3")

    hf.rollback("r", 1)
    save(trigger="manual", phase="phase_2")

    plan = hf.resume("r")
    assert (plan.resume_at, plan.needs_review) == ("human_review", True)
    assert decide(hf).needs_review is False
