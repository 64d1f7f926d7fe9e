"""The table of styles, tried out: the fields that it names make the plan that it promises."""

import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from holdfast import Holdfast
from holdfast.settings import Settings
from holdfast.styles.known import STYLES
from tests.docs.pages import page

TABLE = {
    match[1]: row for row in page("docs/styles.md").rows() if (match := re.match(r"\[(\w+)\]\(#", row[0]))
}

# For each style: a run that is in the middle of something, where it goes on, and whether that is repeated.
BEGUN: dict[str, tuple[dict[str, Any], Any, bool]] = {
    "phases": ({"phase_outputs": {"phase_1": 1}, "gate_history": []}, "phase_2", True),
    "layers": (
        {
            "progress": {
                "layer_index": 1,
                "dag_structure": {"layers": [["a"], ["b", "c"]]},
                "tasks": [{"task_id": name, "result": 1} for name in "ab"],
            }
        },
        1,
        True,
    ),
    "agents": ({"progress": {"phase": 2, "agents": {"a": {"status": "failed"}}, "decisions": []}}, 2, True),
    "tasks": ({"progress": {"tasks": {"a": {"status": "completed"}, "b": {"status": "failed"}}}}, "b", True),
    "steps": (
        {
            "progress": {
                "state": {"kind": "before_step", "step_index": 1},
                "completed_steps": [{"step_index": 0}],
                "variables": {},
            }
        },
        1,
        True,
    ),
}


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    with Holdfast(Settings.from_environment({"HOLDFAST_DATA_DIR": str(tmp_path)})) as holdfast:
        yield holdfast


def state_of(style: str, **more: Any) -> dict[str, Any]:
    state = {**BEGUN[style][0], **more}
    return state if style == "phases" else {**state, "progress": {**state["progress"], "style": style}}


def test_the_table_has_every_style() -> None:
    assert list(TABLE) == list(STYLES)


@pytest.mark.parametrize("style", STYLES)
def test_the_fields_say_where_a_style_resumes_and_that_it_repeats_what_was_begun(
    hf: Holdfast, style: str
) -> None:
    fields = set(re.findall(r"`(\w+)`", TABLE[style][2])) - {"phase", "trigger"}
    given = state_of(style)
    assert fields <= {*given, *given.get("progress", {})}

    hf.save("r", given, trigger="error", phase="phase_2")

    plan = hf.resume("r")
    assert (plan.resume_at, plan.retry_current, plan.needs_review) == (*BEGUN[style][1:], False)


@pytest.mark.parametrize("style", STYLES)
@pytest.mark.parametrize(
    ("trigger", "more", "place"),
    [
        ("error", {"circuit_breaker_state": {"state": "open"}}, "human_review"),
        ("circuit_breaker", {}, "human_review"),
        ("escalation", {}, "human_review"),
        ("gate_decision", {"gate_history": [{"gate_id": "phase_2", "decision": "fail"}]}, "phase_2_gate"),
    ],
)
def test_each_style_waits_for_a_person_until_a_review(
    hf: Holdfast, style: str, trigger: str, more: dict[str, Any], place: str
) -> None:
    assert re.match("breaker, escalation, failed gate|the same", TABLE[style][3])
    hf.save("r", state_of(style, **more), trigger=trigger, phase="phase_2")
    hf.save("r", state_of(style), trigger="interrupted", phase="phase_2")
    assert (hf.resume("r").resume_at, hf.resume("r").needs_review) == (place, True)

    hf.review("r", "retry")

    after = hf.resume("r")
    assert (after.resume_at, after.needs_review) == (BEGUN[style][1], False)


def test_tasks_wait_also_for_one_that_was_cut_off_and_must_not_be_done_twice(hf: Holdfast) -> None:
    assert "cut off and must not be done twice" in TABLE["tasks"][3]
    with pytest.raises(KeyboardInterrupt), hf.run("r", style="tasks") as run, run.task("a", idempotent=False):
        raise KeyboardInterrupt

    assert (hf.resume("r").resume_at, hf.resume("r").needs_review) == ("human_review", True)


def test_a_step_that_failed_for_good_is_not_repeated(hf: Holdfast) -> None:
    assert "unless it failed for good" in TABLE["steps"][5]
    failed = {"kind": "failed", "step_index": 0, "retryable": False}
    hf.save(
        "r", {"progress": {"style": "steps", "state": failed, "completed_steps": []}}, trigger="step_failed"
    )

    assert not hf.resume("r").retry_current
