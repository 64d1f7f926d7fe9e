from typing import Any

import pytest

from holdfast.format.checkpoint import draft_from_mapping, stamp
from holdfast.format.header import RunStatus
from holdfast.format.index import IndexEntry
from holdfast.repository.catalog import RunSummary
from holdfast.sidecar.dashboard import views
from holdfast.sidecar.dashboard.views import RunQuery, parse_query, select_runs
from holdfast.styles.measures import add_cost
from holdfast.styles.resume import ResumePlan, plan_resume


def run(number: int, status: str = "in_progress", workflow: str | None = None) -> RunSummary:
    moment = f"2026-11-17T00:00:{number % 60:02d}Z"
    return RunSummary(f"run-{number:03d}", RunStatus(status), True, number, moment, workflow)


def plan(state: dict[str, Any], **fields: Any) -> ResumePlan:
    values = {"run_id": "r", "trigger": "manual", "state": state, **fields}
    draft = draft_from_mapping(
        values, now="2026-11-17T00:00:00Z", new_id=lambda: "0" * 8 + "-0000-4000-8000-" + "0" * 12
    )
    return plan_resume(stamp(draft.body(1)))


def test_a_query_is_read_from_an_address_and_written_back() -> None:
    query = parse_query({"q": " a b ", "status": "failed", "review": "true", "page": "3", "sort": "run_id"})

    assert query == RunQuery("a b", "failed", "", True, False, "run_id", 3)
    assert query.link(page=4) == "/ui/runs?q=a%20b&status=failed&review=true&sort=run_id&page=4"
    assert RunQuery().link() == "/ui/runs"


@pytest.mark.parametrize("page", ["0", "-1", "x", "9999999999", "²"])
def test_nonsense_is_taken_as_not_asked_for(page: str) -> None:
    assert parse_query({"page": page, "sort": "__class__"}) == RunQuery()


def test_runs_are_searched_filtered_sorted_and_cut_into_pages() -> None:
    runs = [run(number, "failed" if number % 2 else "in_progress", "ci.yml") for number in range(120)]

    first = select_runs(runs, RunQuery(sort="run_id"))
    last = select_runs(runs, RunQuery(sort="run_id", page=99))
    found = select_runs(runs, RunQuery(words="RUN-01", status="failed"))

    assert (first.total, first.pages, len(first.rows), first.rows[0].run_id) == (120, 3, 50, "run-000")
    assert (last.page, len(last.rows)) == (3, 20)
    assert {each.run_id for each in found.rows} == {"run-011", "run-013", "run-015", "run-017", "run-019"}
    assert first.workflows == ["ci.yml"]


def states(way: views.Way) -> list[tuple[str, str]]:
    return [(stage.name, stage.state) for _, row in way.rows for stage in row]


def test_phases_are_drawn_with_their_gates() -> None:
    state = {
        "phase_outputs": {"phase_1_plan": {}},
        "gate_history": [{"phase": "phase_1_plan", "decision": "pass"}],
    }
    way = views.draw_way(plan(state, trigger="phase_complete", phase="phase_1_plan"))

    assert states(way)[:2] == [("phase_1_plan", "done"), ("phase_2", "current")]
    assert way.rows[0][1][0].note == "gate: pass"


def test_only_a_failed_run_is_drawn_as_failed() -> None:
    going_on = views.draw_way(plan({}, phase="phase_2_build"))
    failed = views.draw_way(plan({}, phase="phase_2_build", trigger="error", status="failed"))

    assert states(going_on)[0] == ("phase_2_build", "current")
    assert states(failed)[0] == ("phase_2_build", "failed")


def test_layers_are_drawn_row_by_row() -> None:
    progress = {
        "style": "layers",
        "layer_index": 1,
        "dag_structure": {"layers": [["a"], ["b", "c"]]},
        "tasks": [{"task_id": "a", "result": 1, "timestamp": "2026-11-17T00:00:00Z", "duration": 2}],
    }
    way = views.draw_way(plan({"progress": progress}))

    assert [name for name, _ in way.rows] == ["layer 0", "layer 1"]
    assert states(way) == [("a", "done"), ("b", "current"), ("c", "current")]


def test_agents_are_drawn_with_their_confidence_now_and_over_time() -> None:
    progress = {
        "style": "agents",
        "phase": 2,
        "agents": {"x": {"status": "active", "confidence": 0.5}, "y": {"status": "failed", "confidence": 7}},
        "confidence_history": [
            {"agent": "x", "confidence": 0.2},
            {"agent": None, "confidence": 0.9},
            {"agent": "x", "confidence": 0.6},
            {"agent": None, "confidence": 0.8},
            {"agent": "y", "confidence": 0.1},
        ],
    }
    way = views.draw_way(plan({"progress": progress}))

    assert states(way) == [("x", "current"), ("y", "failed")]
    assert [stage.share for stage in way.rows[0][1]] == [0.5, None]
    assert [(name, line.newest) for name, line in way.confidence] == [
        ("Confidence of x", 0.6),
        ("Confidence of the run", 0.8),
    ]


def test_the_cost_that_a_recorder_notes_is_drawn_over_time() -> None:
    state = add_cost({}, 1.5, None, "2026-11-18T01:00:00Z")
    state |= add_cost(state, 0.5, "model", "2026-11-18T01:10:00Z")

    way = views.draw_way(plan(state, trigger="manual", phase="phase_1"))

    assert way.cost is not None
    assert (way.cost.newest, way.cost.highest) == (2.0, 2.0)


def test_checkpoints_are_cut_into_pages_newest_first() -> None:
    entries = [
        IndexEntry(number, f"id-{number}", "manual", "2026-11-17T00:00:00Z", "", "in_progress", "")
        for number in range(1, 121)
    ]

    newest = views.select_entries("a run", entries, 1)
    oldest = views.select_entries("a run", entries, 99)

    assert (newest.rows[0].sequence, newest.rows[-1].sequence, newest.total) == (120, 71, 120)
    assert (oldest.page, oldest.pages, oldest.rows[-1].sequence) == (3, 3, 1)
    assert newest.link(page=2) == "/ui/runs/a%20run?page=2"


def test_tasks_and_steps_are_drawn() -> None:
    tasks = {
        "style": "tasks",
        "tasks": {"a": {"status": "completed"}, "b": {"status": "failed", "error": "no"}},
    }
    steps = {
        "style": "steps",
        "state": {"kind": "failed", "step_index": 1, "error": "no"},
        "completed_steps": [{"step_index": 0, "command": "lint", "duration_s": 1.5}],
    }

    assert states(views.draw_way(plan({"progress": tasks}))) == [("a", "done"), ("b", "failed")]
    assert states(views.draw_way(plan({"progress": steps}))) == [("lint", "done"), ("step 1", "failed")]


@pytest.mark.parametrize("style", ["phases", "layers", "agents", "tasks", "steps", "unknown"])
@pytest.mark.parametrize("nonsense", [None, 5, "x", [], {"layers": 5}, [[5]], {"a": 5}])
def test_nonsense_in_the_progress_is_no_reason_to_fail(style: str, nonsense: object) -> None:
    names = ("agents", "tasks", "completed_steps", "dag_structure", "state", "confidence_history")
    progress = {"style": style, **dict.fromkeys(names, nonsense)}

    views.draw_way(plan({"progress": progress, "cost_history": nonsense}))


def test_a_timeline_has_the_newest_and_tells_what_waits() -> None:
    entries = [
        IndexEntry(number, f"id-{number}", "manual", f"2026-11-17T00:00:{number:02d}Z", "", "in_progress", "")
        for number in (1, 2, 5)
    ]

    dots = views.draw_timeline("a run", entries, {"id-5"})

    assert [(dot.x, dot.kind) for dot in dots] == [
        (0.0, "in_progress"),
        (250.0, "in_progress"),
        (1000.0, "spooled"),
    ]
    assert dots[0].href == "/ui/runs/a%20run/checkpoints/1"


def test_gauges_have_the_limits_that_there_are() -> None:
    budget = {
        "last_remaining": 10,
        "limit": 5000,
        "resets_at": 1.0,
        "content_left_minute": None,
        "content_left_hour": 400,
    }

    gauges = views.budget_gauges(budget, {"minute": 80, "hour": 500})

    assert [(gauge.name, gauge.left, gauge.limit) for gauge in gauges] == [
        ("calls this hour", 10, 5000),
        ("writes this hour", 400, 500),
    ]


def test_only_times_with_a_zone_are_times() -> None:
    assert views.parse_moment("2026-11-17T00:00:00") is None
    assert views.parse_moment("yesterday") is None
    assert views.parse_moment("2026-11-17T00:00:00Z") == 1_794_873_600.0
