"""What a run measures of itself, what makes it save by that, and what its blocks take."""

from collections.abc import Callable
from contextlib import suppress
from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.recorder import AgentsRun, LayersRun, PhasesRun, StepsRun, TasksRun
from holdfast.recorder.options import resident_mb
from tests.fakes.recording import Outage, Shelf


def test_each_block_takes_an_output(shelf: Shelf) -> None:
    with shelf.open(TasksRun) as tasks, tasks.task("compile") as task:
        task.output = {"binary": "a.out"}
    assert shelf.progress["tasks"]["compile"]["output"] == {"binary": "a.out"}
    with shelf.open(StepsRun) as steps, steps.step("lint") as step:
        step.output = "clean"
    assert shelf.progress["completed_steps"][0]["output"] == "clean"
    with shelf.open(PhasesRun) as phases, phases.phase("phase_1_plan") as phase:
        phase.output = "a plan"
    assert shelf.newest["state_snapshot"]["phase_outputs"]["phase_1_plan"] == "a plan"
    with shelf.open(LayersRun, work=[["a"]]) as layers, layers.layer(0) as layer:
        layer.output = [1]
    assert shelf.progress["layer_outputs"] == {"layer_0": [1]}
    with shelf.open(AgentsRun) as agents, agents.agent("writer") as agent:
        agent.output = {"pages": 3}
        assert agent.output == {"pages": 3}
    assert shelf.progress["agents"]["writer"]["output"] == {"pages": 3}


@pytest.mark.parametrize(
    "block",
    [
        lambda shelf: shelf.open(TasksRun).task("a"),
        lambda shelf: shelf.open(StepsRun).step("a"),
        lambda shelf: shelf.open(PhasesRun).phase("phase_1"),
        lambda shelf: shelf.open(LayersRun).layer(0),
        lambda shelf: shelf.open(AgentsRun).agent("a"),
        lambda shelf: shelf.open(AgentsRun).phase(1),
    ],
    ids=["task", "step", "phase", "layer", "agent", "agents' phase"],
)
def test_an_unknown_attribute_raises(shelf: Shelf, block: Callable[[Shelf], Any]) -> None:
    with pytest.raises(AttributeError, match="ouptut"), block(shelf) as made:
        made.ouptut = "lost"


def test_the_cost_is_saved_with_its_breakdown_at_80_percent_and_once(shelf: Shelf) -> None:
    with shelf.open(TasksRun, cost_limit=10) as run:
        assert run.cost(7, item="model") == 7
        assert shelf.triggers == []
        assert run.cost(1, item="search") == 8
        assert run.cost(5) == 13

    assert shelf.triggers == ["cost_threshold", "run_complete"]
    assert shelf.saved[0]["state_snapshot"]["cost_breakdown"] == {"model": 7, "search": 1}
    assert shelf.saved[0]["state_snapshot"]["cost_accumulated"] == 8


def test_a_resumed_run_does_not_save_its_cost_again(shelf: Shelf) -> None:
    with shelf.open(TasksRun, cost_limit=10) as run:
        run.cost(9)
    before = len(shelf.saved)

    with shelf.open(TasksRun, cost_limit=10) as again:
        again.resume()
        again.cost(0.5)
        assert len(shelf.saved) == before


def test_an_evaluation_is_saved_with_all_before_it(shelf: Shelf) -> None:
    with shelf.open(TasksRun) as run:
        run.evaluation(0.5, scores={"facts": 0.4}, issues=["no source"], passed=False)
        run.evaluation(0.9, passed=True)

    assert shelf.triggers[:2] == ["evaluation_completed", "evaluation_completed"]
    history = shelf.saved[1]["state_snapshot"]["evaluation_history"]
    assert [(each["iteration"], each["score"], each["passed"]) for each in history] == [
        (1, 0.5, False),
        (2, 0.9, True),
    ]
    assert history[0]["scores"] == {"facts": 0.4}


class Scalar:
    """A number as numpy has them: no float, but it gives one."""

    def item(self) -> float:
        return 0.5


def test_costs_and_scores_may_be_numbers_of_numpy(shelf: Shelf) -> None:
    number: Any = Scalar()
    with shelf.open(PhasesRun) as run:
        assert run.cost(number) == 0.5
        run.evaluation(number, scores={"tone": number})
    (saved,) = shelf.newest["state_snapshot"]["evaluation_history"]
    assert (saved["score"], saved["scores"]) == (0.5, {"tone": 0.5})


def test_a_confidence_is_saved_when_it_sinks_and_all_are_in_its_history(shelf: Shelf) -> None:
    with shelf.open(AgentsRun, confidence_below=0.75) as run:
        run.confidence = 0.9
        with run.agent("writer") as agent:
            agent.confidence = 0.8
            agent.confidence = 0.7
            agent.confidence = 0.6
        assert agent.confidence == 0.6

    assert shelf.triggers == ["confidence_threshold", "specialist_finished", "run_complete"]
    history = shelf.progress["confidence_history"]
    assert [(each["agent"], each["confidence"]) for each in history] == [
        (None, 0.9),
        ("writer", 0.8),
        ("writer", 0.7),
        ("writer", 0.6),
    ]


def test_memory_pressure_is_saved_once_until_it_is_over(shelf: Shelf) -> None:
    with shelf.open(TasksRun, memory_limit_mb=200) as run:
        with run.task("small"):
            pass
        shelf.memory_mb = 300.0
        with run.task("large"):
            pass
        shelf.memory_mb = 100.0
        with run.task("small again"):
            shelf.memory_mb = 250.0

    assert [trigger for trigger in shelf.triggers if trigger == "memory_pressure"] == ["memory_pressure"] * 2
    assert shelf.triggers[2] == "memory_pressure"
    pressure = shelf.newest["state_snapshot"]["memory_pressure"]
    assert (pressure["used_mb"], pressure["limit_mb"]) == (250.0, 200)


def test_the_memory_of_this_process_is_known() -> None:
    assert 5 < resident_mb() < 100_000


@pytest.mark.parametrize("save_at_begin", [True, False])
def test_the_beginning_of_phases_and_agents_is_saved_if_asked(shelf: Shelf, save_at_begin: bool) -> None:
    with shelf.open(PhasesRun, save_at_begin=save_at_begin) as phases, phases.phase("phase_1_plan"):
        pass
    with shelf.open(AgentsRun, save_at_begin=save_at_begin) as run, run.phase(1), run.agent("writer"):
        pass

    begun = ["phase_start", "phase_start", "specialist_launched"]
    seen = [trigger for trigger in shelf.triggers if trigger in begun]
    assert seen == (begun if save_at_begin else [])


def test_a_phase_that_has_begun_is_where_the_run_goes_on(shelf: Shelf) -> None:
    run = shelf.open(PhasesRun, save_at_begin=True)
    run.phase("phase_2_design").__enter__()

    plan = shelf.resume("build-42")

    assert plan.resume_at == "phase_2_design"


def test_a_run_goes_on_from_an_older_checkpoint(shelf: Shelf) -> None:
    with shelf.open(StepsRun) as run:
        for name in ("lint", "test"):
            with run.step(name):
                pass

    again = shelf.open(StepsRun)
    again.resume(at=2)

    assert again.remaining(["lint", "test"]) == ["test"]


def test_how_often_an_agent_is_restarted_is_stored(shelf: Shelf) -> None:
    with shelf.open(AgentsRun, max_recoveries=1) as run, run.agent("writer"):
        pass
    assert shelf.progress["max_recoveries"] == 1

    again = shelf.open(AgentsRun, max_recoveries=5)
    again.resume()

    assert again.progress["max_recoveries"] == 5


def test_a_task_that_must_not_be_done_twice_waits_for_a_person(shelf: Shelf) -> None:
    first = shelf.open(TasksRun, work=["fetch", "pay", "mail"])
    with first.task("fetch"):
        pass
    first.task("pay", idempotent=False).__enter__()  # and the power fails

    again = shelf.open(TasksRun, work=["fetch", "pay", "mail"])
    again.resume()

    assert again.plan is not None
    assert again.plan.needs_review
    assert again.plan.review is not None
    assert (again.plan.review.kind, again.plan.review.phase) == ("escalation", "pay")
    assert again.plan.resume_at == "human_review"
    assert again.remaining() == ["mail"]
    with pytest.raises(InvalidCheckpoint, match="must not be done twice"), again.task("pay"):
        pytest.fail("it was done twice")


def test_a_task_that_has_ended_is_in_no_doubt(shelf: Shelf) -> None:
    with shelf.open(TasksRun) as run, run.task("pay", idempotent=False):
        pass

    assert not shelf.resume("build-42").needs_review
    assert "idempotent" not in shelf.progress["tasks"]["pay"]


def test_an_agent_is_restarted_as_often_as_the_run_says(shelf: Shelf) -> None:
    for _ in range(3):
        with suppress(Outage), shelf.open(AgentsRun, max_recoveries=1) as run:
            run.resume()
            with run.agent("writer"):
                raise Outage("no words")

    plan = shelf.resume("build-42")

    assert any("writer failed again after 1 recovery attempts" in warning for warning in plan.warnings)
