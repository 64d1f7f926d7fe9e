"""Save anywhere, crash, resume: nothing completed runs again, and nothing unfinished is skipped.

Each test lets a small executor run a workflow, save at every point where that style saves, and die after
any of these saves. Another one goes on with nothing but the plan of the stored bytes.
"""

from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from holdfast.styles.resume import ResumePlan, plan_resume
from tests.fakes.saved import stamped

PHASES = ["phase_0", "phase_0_5", *(f"phase_{number}" for number in range(1, 9))]


def names(most: int) -> st.SearchStrategy[list[str]]:
    return st.lists(st.text("abcdef", min_size=1, max_size=4), unique=True, min_size=1, max_size=most)


def resumed(state: dict[str, Any], **header: Any) -> ResumePlan:
    """Return the plan that is made of the bytes as they would be stored."""
    plan = plan_resume(stamped(state, **header))
    assert plan.state == state
    assert plan.warnings == []
    return plan


@given(phases=st.one_of(names(8), st.just(PHASES)), moment=st.integers(0, 1000), is_named=st.booleans())
def test_phases(phases: list[str], moment: int, is_named: bool) -> None:
    is_listed = is_named or phases is not PHASES
    saves: list[tuple[str, str, list[str]]] = []
    for place, phase in enumerate(phases):
        saves += [
            ("expensive_op", phase, phases[:place]),
            ("phase_complete", phase, phases[: place + 1]),
            ("gate_decision", phase, phases[: place + 1]),
        ]
    trigger, phase, done = saves[moment % len(saves)]
    state: dict[str, Any] = {
        "phase_outputs": {name: {"by": name} if name in done else None for name in phases}
    }
    if is_listed:
        state["progress"] = {"style": "phases", "phases": phases}

    plan = resumed(state, trigger=trigger, phase=phase)

    left = [name for name in phases if name not in done]
    assert plan.completed == done
    assert plan.remaining == left
    at_gate = trigger == "gate_decision"
    assert plan.resume_at == (f"{phase}_gate" if at_gate else [*left, "complete"][0])


@given(
    layers=st.lists(st.integers(1, 4), min_size=1, max_size=5).map(
        lambda sizes: [[f"t{place}.{task}" for task in range(size)] for place, size in enumerate(sizes)]
    ),
    data=st.data(),
)
def test_layers(layers: list[list[str]], data: st.DataObject) -> None:
    index = data.draw(st.integers(0, len(layers)))
    begun = layers[index] if index < len(layers) else []
    in_layer = data.draw(st.lists(st.sampled_from(begun), unique=True)) if begun else []
    done = [task for layer in layers[:index] for task in layer] + in_layer
    progress = {
        "style": "layers",
        "layer_index": index,
        "dag_structure": {"layers": layers},
        "tasks": [{"task_id": task, "result": task.upper()} for task in done],
    }

    plan = resumed({"progress": progress}, trigger="layer_complete" if not in_layer else "interrupted")

    ran = [
        task for layer in layers[int(plan.resume_at or 0) :] for task in layer if task not in plan.completed
    ]
    assert plan.completed == done
    assert plan.remaining == ran
    assert sorted([*done, *ran]) == sorted(task for layer in layers for task in layer)


@given(
    present=st.lists(st.lists(st.sampled_from("abcdefgh"), unique=True, max_size=4), max_size=5),
    done=st.lists(st.sampled_from("abcdefgh"), unique=True),
)
def test_layers_of_another_dag(present: list[list[str]], done: list[str]) -> None:
    progress = {
        "style": "layers",
        "layer_index": 0,
        "dag_structure": {"layers": [["another"]]},
        "tasks": [{"task_id": task} for task in done],
    }

    plan = plan_resume(stamped({"progress": progress}), dag={"layers": present})

    place = int(plan.resume_at or 0)
    assert plan.completed == done
    assert set(plan.remaining or ()) == {task for layer in present for task in layer} - set(done)
    assert all(set(layer) <= set(done) for layer in present[:place])
    assert place == len(present) or not set(present[place]) <= set(done)


@given(agents=st.dictionaries(st.text("abc", min_size=1), st.sampled_from(["active", "completed", "failed"])))
def test_agents(agents: dict[str, str]) -> None:
    records = {agent: {"status": status, "state": "AA=="} for agent, status in agents.items()}

    plan = resumed({"progress": {"style": "agents", "phase": 3, "agents": records}})

    assert plan.resume_at == 3
    assert set(plan.completed) == {agent for agent, status in agents.items() if status == "completed"}
    assert set(plan.remaining or []) == set(agents) - set(plan.completed)
    assert plan.retry_current is ("failed" in agents.values())


@given(tasks=names(12), moment=st.integers(0, 1000), is_failing=st.booleans())
def test_tasks(tasks: list[str], moment: int, is_failing: bool) -> None:
    done, under_way = tasks[: moment % (len(tasks) + 1)], tasks[moment % (len(tasks) + 1) :][:1]
    statuses = {task: "completed" if task in done else "pending" for task in tasks}
    statuses |= dict.fromkeys(under_way, "failed" if is_failing else "in_progress")

    plan = resumed({"progress": {"style": "tasks", "tasks": {t: {"status": s} for t, s in statuses.items()}}})

    assert plan.completed == done
    assert plan.remaining == [task for task in tasks if task not in done]
    assert plan.resume_at == next(iter(plan.remaining), None)
    assert plan.retry_current is bool(under_way)


@given(total=st.integers(1, 12), moment=st.integers(0, 1000))
def test_steps(total: int, moment: int) -> None:
    saves: list[tuple[dict[str, Any], int]] = []
    for index in range(total):
        saves += [
            ({"kind": "before_step", "step_index": index}, index),
            ({"kind": "interrupted", "step_index": index, "in_progress": True}, index),
            ({"kind": "failed", "step_index": index, "error": "x", "retryable": True}, index),
            ({"kind": "completed", "step_index": index, "output": None}, index + 1),
            ({"kind": "interrupted", "step_index": index, "in_progress": False}, index + 1),
        ]
    state, completed = saves[moment % len(saves)]
    progress = {
        "style": "steps",
        "state": state,
        "completed_steps": [{"step_index": index} for index in range(completed)],
        "total_steps": total,
    }

    plan = resumed({"progress": progress})

    assert plan.completed == list(range(completed))
    assert plan.remaining == list(range(completed, total))
    assert plan.resume_at == completed
