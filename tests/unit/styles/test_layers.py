from typing import Any

import pytest

from holdfast.styles import layers
from holdfast.styles.layers import plan
from holdfast.styles.style import ResumePoint, Today
from tests.fakes.saved import saved

LAYERS = [["load"], ["clean", "geocode"], ["report"]]


def plan_of(index: Any, *tasks: str, dag: Any = None, layers: Any = None, **fields: Any) -> ResumePoint:
    checkpoint = saved(
        "layers",
        layer_index=index,
        dag_structure={"layers": layers or LAYERS},
        tasks=[{"task_id": task} for task in tasks],
        **fields,
    )
    return plan(checkpoint, Today(dag=dag))


def test_run_goes_on_at_the_saved_layer() -> None:
    point = plan_of(1, "load", trigger="layer_complete")

    assert point.resume_at == 1
    assert point.completed == ("load",)
    assert point.remaining == ("clean", "geocode", "report")
    assert not point.retry_current
    assert point.flaws == point.warnings == ()


def test_tasks_of_the_layer_that_are_done_do_not_run_again() -> None:
    point = plan_of(1, "load", "geocode", trigger="interrupted")

    assert point.resume_at == 1
    assert point.remaining == ("clean", "report")
    assert point.retry_current


def test_layers_before_the_saved_one_are_done_even_without_a_record_of_their_tasks() -> None:
    point = plan_of(2)

    assert point.completed == ("load", "clean", "geocode")
    assert point.remaining == ("report",)
    assert point.warnings == ()


def test_a_task_of_a_layer_that_is_done_is_not_completed_if_its_record_says_so() -> None:
    failed = [{"task_id": "clean"}, {"task_id": "geocode", "status": "failed"}]
    layers = {"layers": LAYERS}

    point = plan(saved("layers", layer_index=2, dag_structure=layers, tasks=failed), Today())

    assert point.completed == ("clean", "load")
    assert point.remaining == ("geocode", "report")
    assert "geocode" in point.warnings[0]


def test_layer_that_is_recorded_in_part_is_told() -> None:
    point = plan_of(2, "load", "clean")

    assert point.remaining == ("report",)
    assert "geocode" in point.warnings[0]


def test_after_the_last_layer_nothing_remains() -> None:
    point = plan_of(3, "load", "clean", "geocode", "report")

    assert (point.resume_at, point.remaining) == (3, ())


def test_same_dag_is_no_warning() -> None:
    assert plan_of(1, "load", dag={"layers": LAYERS}).warnings == ()
    assert plan_of(1, "load", dag=LAYERS).warnings == ()


def test_changed_dag_is_a_warning_that_names_what_no_longer_fits() -> None:
    changed = {"layers": [["load"], ["clean"], ["enrich"], ["report"]]}
    point = plan_of(2, "load", "clean", "geocode", dag=changed)

    assert point.resume_at == 2
    assert point.remaining == ("enrich", "report")
    (warning,) = point.warnings
    assert "no longer in it: geocode" in warning
    assert "new: enrich" in warning
    assert "in another layer: report" in warning


def test_new_task_before_the_saved_layer_is_not_skipped() -> None:
    point = plan_of(2, "load", "clean", "geocode", dag=[["load", "audit"], ["clean", "geocode"], ["report"]])

    assert point.resume_at == 0
    assert point.remaining == ("audit", "report")
    assert "completed, but now after tasks that are not: clean, geocode" in point.warnings[0]


def test_given_dag_that_is_none_is_told_and_not_used() -> None:
    point = plan_of(1, "load", dag={"nodes": []})

    assert point.resume_at == 1
    assert "not compared" in point.warnings[0]


@pytest.mark.parametrize("index", [None, -1, "1", True, 1.5])
def test_layer_index_that_is_none_is_told_and_found_from_the_tasks(index: Any) -> None:
    point = plan_of(index, "load")

    assert point.resume_at == 1
    assert "layer_index" in point.flaws[0]


def test_layer_index_beyond_the_dag_is_told() -> None:
    assert "has 3 layers" in plan_of(7).flaws[0]


def test_malformed_fields_are_told_and_what_remains_is_not_made_up() -> None:
    checkpoint = saved("layers", layer_index=1, dag_structure={"nodes": 3}, tasks={"load": 1})
    point = plan(checkpoint, Today())

    assert (point.resume_at, point.completed, point.remaining) == (1, (), None)
    assert len(point.flaws) == 2


def test_task_without_an_id_is_not_taken_as_completed() -> None:
    checkpoint = saved(
        "layers", layer_index=0, dag_structure={"layers": LAYERS}, tasks=[{}, {"taskId": "load"}]
    )
    point = plan(checkpoint, Today())

    assert point.completed == ("load",)
    assert "task_id" in point.flaws[0]


@pytest.mark.parametrize("index", [None, -1, "2", 1.5])
def test_a_layer_that_is_no_number_is_the_first(index: object) -> None:
    progress = layers.restore({"layer_index": index}, layers.new_progress())

    assert progress["layer_index"] == 0
