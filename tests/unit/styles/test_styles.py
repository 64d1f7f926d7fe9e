"""What every style fulfils, whatever its progress looks like."""

from typing import Any

import pytest

from holdfast.styles import agents, layers, phases, steps, tasks
from holdfast.styles.known import STYLES, plan_style
from holdfast.styles.style import Style, Today
from tests.fakes.saved import saved

FRESH: dict[str, dict[str, Any]] = {
    "phases": phases.new_progress(["phase_1"]),
    "layers": layers.new_progress([["a"], ["b"]]),
    "agents": agents.new_progress(),
    "tasks": tasks.new_progress(["a"]),
    "steps": steps.new_progress(["a"]),
}


@pytest.fixture(params=STYLES.values(), ids=list(STYLES))
def style(request: pytest.FixtureRequest) -> Style:
    chosen: Style = request.param
    return chosen


def test_a_new_progress_names_its_style_and_has_no_flaws(style: Style) -> None:
    fresh = FRESH[style.name]

    assert fresh["style"] == style.name
    assert plan_style(saved(given=fresh), Today()).flaws == ()


def test_restoring_a_new_progress_changes_nothing(style: Style) -> None:
    fresh = FRESH[style.name]

    assert style.restore(fresh, fresh) == fresh


def test_a_new_run_that_is_told_to_stop_begins_again_at_its_beginning(style: Style) -> None:
    fresh = FRESH[style.name]
    before = plan_style(saved(given=fresh), Today())

    after = plan_style(saved(given=style.interrupt(fresh)), Today())

    assert (after.resume_at, after.completed) == (before.resume_at, before.completed)


def test_a_checkpoint_always_has_a_label(style: Style) -> None:
    assert style.label({}, FRESH[style.name])


@pytest.mark.parametrize("name", ["cats", 3, None, ["steps"]])
def test_an_unknown_style_gives_no_place_and_says_why(name: Any) -> None:
    point = plan_style(saved(given={"style": name}), Today())

    assert point.resume_at is None
    assert "phases, layers, agents, tasks, steps" in point.flaws[0]
