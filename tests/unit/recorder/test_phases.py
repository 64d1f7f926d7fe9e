from contextlib import suppress

import pytest

from holdfast.recorder import PhasesRun
from tests.fakes.recording import Outage, Shelf


def test_a_phase_is_saved_with_its_output_when_it_is_done(shelf: Shelf) -> None:
    with shelf.open(PhasesRun) as run, run.phase("phase_1_plan") as phase:
        phase.output = {"tasks": 3}

    done, _ = shelf.saved
    assert shelf.triggers == ["phase_complete", "run_complete"]
    assert done["phase"] == "phase_1_plan"
    assert done["state_snapshot"]["phase_outputs"] == {"phase_1_plan": {"tasks": 3}}
    assert done["state_snapshot"]["current_phase_state"] is None
    assert done["state_snapshot"]["progress"] == {"style": "phases"}


def test_a_phase_without_output_is_done_all_the_same(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    with run.phase("phase_1_plan"):
        pass

    again = shelf.open(PhasesRun)
    again.resume()
    assert again.is_done("phase_1_plan")


def test_a_run_resumes_at_the_phase_that_follows(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun, work=["plan", "design", "build"])
    with run.phase("plan"):
        pass
    assert shelf.resume("build-42").resume_at == "design"

    again = shelf.open(PhasesRun, work=["plan", "design", "build"])
    again.resume()
    assert again.remaining() == ["design", "build"]


@pytest.mark.parametrize("names", [["plan", "design"], ["phase_1_plan", "phase_2"]])
def test_a_checkpoint_between_two_phases_repeats_neither(shelf: Shelf, names: list[str]) -> None:
    run = shelf.open(PhasesRun, work=names if names[0] == "plan" else [])
    with run.phase(names[0]):
        pass
    run.checkpoint()

    plan = shelf.resume("build-42")
    assert (plan.resume_at, plan.completed) == (names[1], [names[0]])


def test_an_error_after_the_last_phase_repeats_none(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(PhasesRun, work=["plan"]) as run:
        with run.phase("plan"):
            pass
        raise Outage

    assert shelf.newest["status"] == "failed"
    assert shelf.resume("build-42").resume_at == "complete"


def test_a_checkpoint_before_the_first_phase_begins_with_it(shelf: Shelf) -> None:
    shelf.open(PhasesRun, work=["plan", "design"]).checkpoint()

    assert shelf.resume("build-42").resume_at == "plan"


def test_a_phase_in_progress_has_its_partial_output_saved(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    with run.phase("phase_1_plan") as phase:
        phase.output = {"tasks": 1}
        run.checkpoint()
        current = shelf.newest["state_snapshot"]["current_phase_state"]
        assert (current["phase"], current["partial_output"]) == ("phase_1_plan", {"tasks": 1})
        assert phase.output == {"tasks": 1}
        assert shelf.resume("build-42").resume_at == "phase_1_plan"


def test_a_failed_phase_is_saved_once_and_is_the_one_to_go_on_with(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(PhasesRun) as run, run.phase("phase_1_plan"):
        raise Outage("disk")

    assert shelf.triggers == ["error"]
    assert (shelf.newest["status"], shelf.newest["phase"]) == ("failed", "phase_1_plan")
    assert shelf.resume("build-42").resume_at == "phase_1_plan"


def test_a_gate_is_saved_with_its_decision_and_counts_its_iterations(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    with run.phase("phase_1_plan"):
        pass
    run.gate("phase_1_plan", decision="iterate", score=0.4)
    run.gate("phase_1_plan", decision="pass", score=0.9)
    run.gate("phase_2", decision="pass", iteration=7)

    assert shelf.triggers == ["phase_complete", "gate_decision", "gate_decision", "gate_decision"]
    assert shelf.newest["state_snapshot"]["gate_history"] == [
        {"gate_id": "phase_1_plan", "decision": "iterate", "score": 0.4, "iteration": 1},
        {"gate_id": "phase_1_plan", "decision": "pass", "score": 0.9, "iteration": 2},
        {"gate_id": "phase_2", "decision": "pass", "score": None, "iteration": 7},
    ]
    assert shelf.resume("build-42").resume_at == "phase_2_gate"


def test_a_phase_that_is_repeated_is_not_done_until_it_is_done_again(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    with run.phase("phase_1_plan") as phase:
        phase.output = "first"
    with suppress(Outage), run.phase("phase_1_plan"):
        raise Outage

    again = shelf.open(PhasesRun)
    state = again.resume()
    assert not again.is_done("phase_1_plan")
    assert state["current_phase_state"]["previous_output"] == "first"


def test_a_phase_is_known_by_its_number_too(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    run.state["phase_outputs"] = {"phase_0": {}, "phase_0_5": {}, "phase_1": None}

    names = ["phase_0_intake", "phase_0_5_scope", "phase_1_plan"]
    assert run.remaining(names) == ["phase_1_plan"]


def test_a_tripped_breaker_calls_for_a_person(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun)
    run.cost(0.1)
    assert run.cost(0.2) == 0.3
    with run.phase("phase_2"):
        run.trip("80 % is spent", breaker="budget")

    tripped = shelf.saved[0]
    assert (tripped["trigger"], tripped["phase"]) == ("circuit_breaker", "phase_2")
    breaker = tripped["state_snapshot"]["circuit_breaker_state"]["budget"]
    assert (breaker["state"], breaker["reason"]) == ("open", "80 % is spent")
    assert tripped["state_snapshot"]["cost_accumulated"] == 0.3


def test_a_member_that_is_no_object_is_told_and_not_overwritten(shelf: Shelf) -> None:
    failures: list[Exception] = []
    run = shelf.open(PhasesRun, on_failed=failures.append)
    run.state["phase_outputs"] = "mine"

    with run.phase("phase_1_plan"):
        pass

    assert len(failures) == 2
    assert run.state["phase_outputs"] == "mine"
    assert shelf.saved == []


def test_a_resume_warns_when_other_lessons_are_active_now(shelf: Shelf) -> None:
    first = shelf.open(PhasesRun)
    first.state["active_lessons"] = ["measure twice"]
    first.checkpoint()

    run = shelf.open(PhasesRun)
    run.resume(active_lessons=["cut once"])
    assert run.plan is not None
    assert "lessons have changed" in run.plan.warnings[0]


def test_outputs_of_another_shape_are_told_and_stop_nothing(shelf: Shelf) -> None:
    failures: list[Exception] = []
    run = shelf.open(PhasesRun, on_failed=failures.append)
    run.state["phase_outputs"] = "none yet"

    assert run.checkpoint() is None
    assert "phase_outputs" in str(failures[0])
