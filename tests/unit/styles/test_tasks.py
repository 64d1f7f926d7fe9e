from typing import Any

import pytest

from holdfast.styles.outlook import Outlook, Today
from holdfast.styles.tasks import plan
from tests.fakes.saved import saved


def plan_of(**statuses: Any) -> Outlook:
    tasks = {task: {"status": status} for task, status in statuses.items()}
    return plan(saved("tasks", {"tasks": tasks}), Today())


@pytest.mark.parametrize(
    ("status", "is_repeated"), [("pending", False), ("in_progress", True), ("failed", True)]
)
def test_first_task_that_is_not_completed_comes_next(status: str, is_repeated: bool) -> None:
    outlook = plan_of(a="completed", b=status, c="completed", d="pending")

    assert outlook.resume_at == "b"
    assert outlook.completed == ("a", "c")
    assert outlook.remaining == ("b", "d")
    assert outlook.retry_current is is_repeated
    assert outlook.flaws == ()


def test_when_all_are_completed_nothing_comes_next() -> None:
    outlook = plan_of(a="completed")

    assert (outlook.resume_at, outlook.remaining, outlook.retry_current) == (None, (), False)


@pytest.mark.parametrize("status", ["done", None, 3, ["completed"]])
def test_unknown_status_is_told_and_taken_as_not_completed(status: Any) -> None:
    outlook = plan_of(a=status)

    assert outlook.remaining == ("a",)
    assert "a" in outlook.flaws[0]


@pytest.mark.parametrize("tasks", [None, [{"id": "a"}], "a"])
def test_nothing_is_made_up_without_tasks(tasks: Any) -> None:
    outlook = plan(saved("tasks", {"tasks": tasks}), Today())

    assert (outlook.resume_at, outlook.remaining) == (None, None)
    assert "progress.tasks" in outlook.flaws[0]
