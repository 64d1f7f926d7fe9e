from typing import Any

import pytest

from holdfast.styles.layers import plan
from holdfast.styles.outlook import Outlook, Today
from tests.fakes.saved import saved

LAYERS = [["load"], ["clean", "geocode"], ["report"]]


def plan_of(index: Any, *tasks: str, dag: Any = None, layers: Any = None, **fields: Any) -> Outlook:
    checkpoint = saved(
        "layers",
        layer_index=index,
        dag_structure={"layers": layers or LAYERS},
        tasks=[{"task_id": task} for task in tasks],
        **fields,
    )
    return plan(checkpoint, Today(dag=dag))


def test_run_goes_on_at_the_saved_layer() -> None:
    outlook = plan_of(1, "load", trigger="layer_complete")

    assert outlook.resume_at == 1
    assert outlook.completed == ("load",)
    assert outlook.remaining == ("clean", "geocode", "report")
    assert not outlook.retry_current
    assert outlook.flaws == outlook.warnings == ()


def test_tasks_of_the_layer_that_are_done_do_not_run_again() -> None:
    outlook = plan_of(1, "load", "geocode", trigger="interrupted")

    assert outlook.resume_at == 1
    assert outlook.remaining == ("clean", "report")
    assert outlook.retry_current


def test_layers_before_the_saved_one_are_done_even_without_a_record_of_their_tasks() -> None:
    outlook = plan_of(2)

    assert outlook.completed == ("load", "clean", "geocode")
    assert outlook.remaining == ("report",)
    assert outlook.warnings == ()


def test_layer_that_is_recorded_in_part_is_told() -> None:
    outlook = plan_of(2, "load", "clean")

    assert outlook.remaining == ("report",)
    assert "geocode" in outlook.warnings[0]


def test_after_the_last_layer_nothing_remains() -> None:
    outlook = plan_of(3, "load", "clean", "geocode", "report")

    assert (outlook.resume_at, outlook.remaining) == (3, ())


def test_same_dag_is_no_warning() -> None:
    assert plan_of(1, "load", dag={"layers": LAYERS}).warnings == ()
    assert plan_of(1, "load", dag=LAYERS).warnings == ()


def test_changed_dag_is_a_warning_that_names_what_no_longer_fits() -> None:
    changed = {"layers": [["load"], ["clean"], ["enrich"], ["report"]]}
    outlook = plan_of(2, "load", "clean", "geocode", dag=changed)

    assert outlook.resume_at == 2
    assert outlook.remaining == ("enrich", "report")
    (warning,) = outlook.warnings
    assert "no longer in it: geocode" in warning
    assert "new: enrich" in warning
    assert "in another layer: report" in warning


def test_new_task_before_the_saved_layer_is_not_skipped() -> None:
    outlook = plan_of(
        2, "load", "clean", "geocode", dag=[["load", "audit"], ["clean", "geocode"], ["report"]]
    )

    assert outlook.resume_at == 0
    assert outlook.remaining == ("audit", "report")
    assert "completed, but now after tasks that are not: clean, geocode" in outlook.warnings[0]


def test_given_dag_that_is_none_is_told_and_not_used() -> None:
    outlook = plan_of(1, "load", dag={"nodes": []})

    assert outlook.resume_at == 1
    assert "not compared" in outlook.warnings[0]


@pytest.mark.parametrize("index", [None, -1, "1", True, 1.5])
def test_layer_index_that_is_none_is_told_and_found_from_the_tasks(index: Any) -> None:
    outlook = plan_of(index, "load")

    assert outlook.resume_at == 1
    assert "layer_index" in outlook.flaws[0]


def test_layer_index_beyond_the_dag_is_told() -> None:
    assert "has 3 layers" in plan_of(7).flaws[0]


def test_malformed_fields_are_told_and_what_remains_is_not_made_up() -> None:
    checkpoint = saved("layers", layer_index=1, dag_structure={"nodes": 3}, tasks={"load": 1})
    outlook = plan(checkpoint, Today())

    assert (outlook.resume_at, outlook.completed, outlook.remaining) == (1, (), None)
    assert len(outlook.flaws) == 2


def test_task_without_an_id_is_not_taken_as_completed() -> None:
    checkpoint = saved(
        "layers", layer_index=0, dag_structure={"layers": LAYERS}, tasks=[{}, {"taskId": "load"}]
    )
    outlook = plan(checkpoint, Today())

    assert outlook.completed == ("load",)
    assert "task_id" in outlook.flaws[0]
