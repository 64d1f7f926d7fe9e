from typing import Any

import pytest

from holdfast.styles.agents import count_recoveries, is_agent_done, new_progress, plan, restore
from holdfast.styles.style import ResumePoint, Saved, Today
from tests.fakes.saved import saved


def agents(*, phase: Any = 2, trigger: str = "error", metrics: Any = None, **statuses: Any) -> Saved:
    records = {
        agent: status if isinstance(status, dict) else {"status": status}
        for agent, status in statuses.items()
    }
    return saved("agents", {"phase": phase, "agents": records, "metrics": metrics}, trigger=trigger)


def plan_of(checkpoint: Saved, **recoveries: int) -> ResumePoint:
    return plan(checkpoint, Today(recoveries=recoveries))


def test_every_agent_that_is_not_completed_goes_on_in_the_saved_phase() -> None:
    point = plan_of(agents(atlas="active", mercury="completed", apollo="waiting"))

    assert point.resume_at == 2
    assert point.completed == ("mercury",)
    assert point.remaining == ("atlas", "apollo")
    assert not point.retry_current


def test_failed_agent_is_restarted() -> None:
    point = plan_of(agents(atlas="active", mercury="failed"), mercury=2)

    assert point.retry_current
    assert "mercury" in point.remaining  # type: ignore[operator]
    assert point.given_up == ()


@pytest.mark.parametrize(
    "checkpoint",
    [
        agents(mercury={"status": "failed", "recovery_attempts": 3}),
        agents(mercury="failed", metrics={"recovery_attempts": {"mercury": 3}}),
        agents(mercury="failed", metrics={"recovery_attempts": 4}),
    ],
    ids=["agent", "metrics by agent", "metrics"],
)
def test_agent_is_given_up_after_three_recovery_attempts(checkpoint: Saved) -> None:
    point = plan_of(checkpoint)

    assert point.given_up == ("mercury",)
    assert not point.retry_current


def test_stored_count_wins_over_the_counted_one() -> None:
    point = plan_of(agents(mercury={"status": "failed", "recovery_attempts": 1}), mercury=9)

    assert point.given_up == ()


def test_each_earlier_failure_is_a_restart_that_did_not_help() -> None:
    failed, active = agents(mercury="failed"), agents(mercury="active")

    assert count_recoveries(["mercury"], [active, failed, failed, active]) == {"mercury": 2}


def test_count_ends_where_the_agent_was_completed_or_not_there() -> None:
    failed = agents(mercury="failed")

    assert count_recoveries(["mercury"], [failed, agents(mercury="completed"), failed]) == {"mercury": 1}
    assert count_recoveries(["mercury"], [failed, agents(atlas="active"), failed]) == {"mercury": 1}


def test_checkpoint_made_by_the_clock_is_no_further_failure() -> None:
    ticking = agents(mercury="failed", trigger="interval")

    assert count_recoveries(["mercury"], [ticking, ticking, ticking]) == {"mercury": 0}


def test_counting_looks_no_further_than_it_must() -> None:
    looked_at = 0

    def endless() -> Any:
        nonlocal looked_at
        while True:
            looked_at += 1
            yield agents(mercury="failed")

    assert count_recoveries(["mercury"], endless()) == {"mercury": 3}
    assert looked_at < 6


def test_blocked_agent_is_a_warning() -> None:
    point = plan_of(agents(atlas={"status": "active", "blockers": ["no quota", "no logs"]}))

    assert point.warnings == ("agent atlas is blocked: no quota, no logs",)


def test_phase_that_is_no_number_is_taken_from_the_header() -> None:
    point = plan_of(agents(phase="two", atlas="active"))

    assert point.resume_at == 1
    assert "'phase_1_plan'" in point.flaws[0]


def test_nothing_is_made_up_without_agents_or_phase() -> None:
    point = plan(saved("agents", {"agents": [1]}, phase="research"), Today())

    assert (point.completed, point.remaining) == ((), ())
    assert point.resume_at is None
    assert len(point.flaws) == 2


def test_agent_without_a_status_is_told_and_taken_as_not_completed() -> None:
    point = plan_of(agents(atlas={"confidence": 1}, mercury={"status": 3}))

    assert point.remaining == ("atlas", "mercury")
    assert "atlas, mercury" in point.flaws[0]


def test_a_phase_that_is_no_number_is_the_first() -> None:
    assert restore({"phase": "two"}, new_progress())["phase"] == 0


def test_an_agent_without_a_phase_belongs_to_the_present_one() -> None:
    stored = {"phase": 2, "agents": {"atlas": {"status": "completed"}, "mercury": "?"}}

    progress = restore(stored, new_progress())

    assert [is_agent_done(progress, name) for name in ("atlas", "mercury")] == [True, False]
