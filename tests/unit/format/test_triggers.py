import pytest

from holdfast.format.triggers import Priority, Trigger, parse_trigger

CRITICAL = {"circuit_breaker", "step_failed", "interrupted", "error"}
HIGH = {
    "phase_complete", "gate_decision", "escalation", "cost_threshold", "destructive_op", "layer_complete",
    "step_complete", "run_complete", "review", "rollback",
}  # fmt: skip


@pytest.mark.parametrize("trigger", list(Trigger))
def test_every_trigger_has_the_priority_of_the_contract(trigger: Trigger) -> None:
    expected = "critical" if trigger in CRITICAL else "high" if trigger in HIGH else "medium"

    assert trigger.priority == expected


def test_critical_sorts_before_high_before_medium() -> None:
    assert sorted(Priority, key=lambda priority: priority.rank) == ["critical", "high", "medium"]


@pytest.mark.parametrize(
    ("spelling", "trigger"),
    [
        ("phase_completed", Trigger.PHASE_COMPLETE),
        ("user_requested", Trigger.MANUAL),
        ("before_risky_operation", Trigger.DESTRUCTIVE_OP),
        ("error_encountered", Trigger.ERROR),
        ("confidence_threshold_crossed", Trigger.CONFIDENCE_THRESHOLD),
        ("memory_pressure_high", Trigger.MEMORY_PRESSURE),
        ("after_step", Trigger.STEP_COMPLETE),
        ("signal", Trigger.INTERRUPTED),
        ("time_interval", Trigger.INTERVAL),
        ("BeforeStep", Trigger.BEFORE_STEP),
        ("TimeInterval", Trigger.INTERVAL),
        ("StepFailed", Trigger.STEP_FAILED),
        ("manual", Trigger.MANUAL),
    ],
)
def test_spellings_of_the_other_systems_are_the_same_trigger(spelling: str, trigger: Trigger) -> None:
    assert parse_trigger(spelling) is trigger


def test_unknown_trigger_is_refused_with_the_list() -> None:
    with pytest.raises(
        ValueError, match=r"'lunch' is not a trigger; use one of circuit_breaker, .*debug_breakpoint"
    ):
        parse_trigger("lunch")
