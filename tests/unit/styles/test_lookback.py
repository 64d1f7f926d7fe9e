"""Plans of a run whose agent failed again and again."""

from typing import Any

from holdfast.styles.lookback import LOOK_BACK
from holdfast.styles.resume import plan_resume
from tests.fakes.saved import stamped


def agents(sequence: int, status: str, **header: Any) -> Any:
    progress = {"style": "agents", "phase": 1, "agents": {"mercury": {"status": status}}}
    return stamped({"progress": progress}, sequence=sequence, trigger="error", **header)


def test_agent_that_failed_again_and_again_sends_the_plan_back() -> None:
    newest, *earlier = [agents(number, "failed") for number in (6, 5, 4, 3)]

    plan = plan_resume(newest, earlier=[*earlier, agents(2, "active"), agents(1, "active")])

    assert plan.sequence_number == 2
    assert "after 3 recovery attempts" in plan.warnings[0]
    assert "checkpoint 2" in plan.warnings[0]


def test_three_recoveries_are_tried_before_that() -> None:
    newest, *earlier = [agents(number, "failed") for number in (5, 4, 3)]

    plan = plan_resume(newest, earlier=[*earlier, agents(2, "active")])

    assert (plan.sequence_number, plan.retry_current, plan.warnings) == (5, True, [])


def test_without_an_earlier_checkpoint_a_person_must_decide() -> None:
    plan = plan_resume(agents(9, "failed"), earlier=[agents(number, "failed") for number in range(8, 0, -1)])

    assert plan.sequence_number == 9
    assert plan.warnings[0].startswith("the run waits for a person")
    assert "a person must decide" in plan.warnings[1]
    assert (plan.needs_review, plan.resume_at, plan.retry_current) == (True, "human_review", False)


def test_with_what_was_last_seen_alone_it_is_not_said_that_there_is_nothing_to_go_back_to() -> None:
    plan = plan_resume(agents(9, "failed"), source="cache", earlier=[agents(n, "failed") for n in (8, 7, 6)])

    assert plan.review is not None
    assert plan.review.reason.endswith("what the run could go back to cannot be read now")
    assert plan.warnings[1].endswith("resume again once GitHub answers, so that the run can go back")


def test_history_is_only_read_for_a_failed_agent_and_not_all_of_it() -> None:
    looked_at: list[int] = []

    def history() -> Any:
        for number in range(500, 0, -1):
            looked_at.append(number)
            yield agents(number, "failed")

    plan_resume(agents(501, "active"), earlier=history())
    assert looked_at == []
    plan_resume(agents(501, "failed"), earlier=history())
    assert 0 < len(looked_at) <= LOOK_BACK
