from typing import Any

import pytest

from holdfast.styles import tasks
from holdfast.styles.style import ResumePoint, Today
from holdfast.styles.tasks import plan
from tests.fakes.saved import saved


def plan_of(**statuses: Any) -> ResumePoint:
    tasks = {task: {"status": status} for task, status in statuses.items()}
    return plan(saved("tasks", {"tasks": tasks}), Today())


@pytest.mark.parametrize(
    ("status", "is_repeated"), [("pending", False), ("in_progress", True), ("failed", True)]
)
def test_first_task_that_is_not_completed_comes_next(status: str, is_repeated: bool) -> None:
    point = plan_of(a="completed", b=status, c="completed", d="pending")

    assert point.resume_at == "b"
    assert point.completed == ("a", "c")
    assert point.remaining == ("b", "d")
    assert point.retry_current is is_repeated
    assert point.flaws == ()


def test_when_all_are_completed_nothing_comes_next() -> None:
    point = plan_of(a="completed")

    assert (point.resume_at, point.remaining, point.retry_current) == (None, (), False)


@pytest.mark.parametrize("status", ["done", None, 3, ["completed"]])
def test_unknown_status_is_told_and_taken_as_not_completed(status: Any) -> None:
    point = plan_of(a=status)

    assert point.remaining == ("a",)
    assert "a" in point.flaws[0]


@pytest.mark.parametrize("tasks", [None, [{"id": "a"}], "a"])
def test_nothing_is_made_up_without_tasks(tasks: Any) -> None:
    point = plan(saved("tasks", {"tasks": tasks}), Today())

    assert (point.resume_at, point.remaining) == (None, None)
    assert "progress.tasks" in point.flaws[0]


def test_tasks_keep_what_they_say_and_new_ones_are_pending() -> None:
    stored = {"tasks": {"a": {"status": "completed"}}, "metadata": {"k": "v"}}

    progress = tasks.restore(stored, tasks.new_progress(["a", "b"]))

    assert [tasks.is_done(progress, name) for name in ("a", "b")] == [True, False]
    assert progress["metadata"] == {"k": "v"}
