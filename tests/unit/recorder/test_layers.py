from contextlib import suppress

from holdfast.recorder import LayersRun
from tests.fakes.recording import Outage, Shelf

DAG = [["fetch"], ["build", "lint"], ["publish"]]


def test_a_layer_is_saved_when_it_is_completed_with_its_tasks(shelf: Shelf) -> None:
    with shelf.open(LayersRun, work=DAG, execution_config={"timeout_s": 60}) as run:
        run.context["branch"] = "main"
        run.messages.append("hello")
        run.decide(type="retry", description="Fetched again", rationale="It was late", alternatives=["stop"])
        with run.layer(0) as layer:
            shelf.clock.sleep(2)
            layer.task("fetch", result={"files": 3})

    assert shelf.triggers == ["layer_complete", "run_complete"]
    done = shelf.saved[0]
    assert done["phase"] == "layer_0"
    progress = done["state_snapshot"]["progress"]
    assert (progress["layer_index"], progress["dag_structure"]) == (1, {"layers": DAG})
    assert progress["tasks"] == [
        {"task_id": "fetch", "result": {"files": 3}, "timestamp": done["timestamp"], "duration": 2.0}
    ]
    assert (progress["context"], progress["messages"]) == ({"branch": "main"}, ["hello"])
    assert progress["execution_config"] == {"timeout_s": 60}
    (decision,) = progress["decisions"]
    assert (decision["type"], decision["alternatives_considered"]) == ("retry", ["stop"])


def test_a_failed_layer_keeps_the_tasks_that_were_completed(shelf: Shelf) -> None:
    with suppress(Outage), shelf.open(LayersRun, work=DAG) as run:
        with run.layer(0) as layer:
            layer.task("fetch")
        with run.layer(1) as layer:
            layer.task("lint", duration_s=0.5)
            raise Outage

    assert shelf.triggers == ["layer_complete", "error"]
    again = shelf.open(LayersRun, work=DAG)
    again.resume()
    assert again.remaining() == [1, 2]
    assert again.remaining(DAG[1]) == ["build"]
    assert again.plan is not None
    assert again.plan.resume_at == 1


def test_a_layer_that_is_completed_before_an_earlier_one_is_not_counted(shelf: Shelf) -> None:
    run = shelf.open(LayersRun, work=DAG)
    with run.layer(1) as layer:
        layer.task("build")

    assert shelf.resume("build-42").resume_at == 0
    assert run.is_done("build")


def test_in_a_graph_that_has_changed_the_first_layer_with_something_to_do_is_next(shelf: Shelf) -> None:
    first = shelf.open(LayersRun, work=DAG)
    with first.layer(0):
        pass
    with first.layer(1) as layer:
        layer.task("build")
        layer.task("lint")

    again = shelf.open(LayersRun, work=[["fetch"], ["test", "lint"], ["publish"]])
    again.resume()

    assert again.remaining() == [1, 2]
    assert again.remaining(["fetch", "test", "lint"]) == ["fetch", "test"]
    assert again.plan is not None
    assert "the DAG has changed" in again.plan.warnings[0]


def test_a_task_that_was_completed_early_is_done_wherever_the_graph_has_it_now(shelf: Shelf) -> None:
    first = shelf.open(LayersRun, work=DAG)
    with suppress(Outage), first.layer(0) as layer:
        layer.task("lint")
        raise Outage

    again = shelf.open(LayersRun, work=[["lint"], ["fetch", "build"]])
    again.resume()

    assert again.remaining() == [1]


def test_a_result_does_not_change_with_the_object_it_came_from(shelf: Shelf) -> None:
    result = [1]
    run = shelf.open(LayersRun)
    with run.layer(0) as layer:
        layer.task("fetch", result)
        result.append(2)

    assert shelf.progress["tasks"][0]["result"] == [1]


def test_context_messages_and_configuration_come_back(shelf: Shelf) -> None:
    first = shelf.open(LayersRun, execution_config={"timeout_s": 60})
    first.context["branch"] = "main"
    first.messages.append("hello")
    first.checkpoint()

    again = shelf.open(LayersRun)
    again.resume()
    assert (again.context, again.messages) == ({"branch": "main"}, ["hello"])
    assert again.progress["execution_config"] == {"timeout_s": 60}

    changed = shelf.open(LayersRun, execution_config={"timeout_s": 5})
    changed.resume()
    assert changed.progress["execution_config"] == {"timeout_s": 5}
