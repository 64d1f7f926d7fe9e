from holdfast.styles import steps
from holdfast.styles.steps_merge import UNSEEN, is_unseen, mark, merge
from holdfast.styles.values import Document

NOW = "2026-11-17T20:00:00.000Z"


def progress(
    *, done: tuple[str, ...] = (), failed: tuple[str, ...] = (), begun: tuple[str, ...] = ()
) -> Document:
    made = steps.new_progress()
    for name in (*done, *failed, *begun):
        made, index = steps.place(made, name)
        made = steps.begin(made, index)
        if name in done:
            made = steps.complete(
                made, index, output=f"{name} is done", captured={name: 1}, duration_s=1.0, now=NOW
            )
        if name in failed:
            made = steps.fail(made, index, error="exit code 1", is_retryable=True, output="no")
    return made


def names_done(merged: Document) -> list[str]:
    return [record["command"] for record in merged["completed_steps"]]


def test_what_either_has_completed_is_completed() -> None:
    merged = merge(progress(done=("lint", "build")), progress(done=("test", "lint")))

    assert merged["known_steps"] == ["lint", "build", "test"]
    assert sorted(names_done(merged)) == ["build", "lint", "test"]
    assert merged["variables"] == {"lint": 1, "build": 1, "test": 1}
    assert all(steps.is_done(merged, name) for name in merged["known_steps"])


def test_a_record_keeps_what_it_says_under_its_new_place() -> None:
    merged = merge(progress(done=("lint",)), progress(done=("test",)))

    (record,) = [each for each in merged["completed_steps"] if each["command"] == "test"]
    assert record == {
        "step_index": 1,
        "command": "test",
        "output": "test is done",
        "captured_variables": {"test": 1},
        "duration_s": 1.0,
        "completed_at": NOW,
    }


def test_what_failed_or_is_in_progress_stays_so() -> None:
    merged = merge(progress(done=("lint",)), progress(failed=("build",), begun=("test",)))

    assert [(each["step_index"], each["error"], each["output"]) for each in merged["failed_steps"]] == [
        (1, "exit code 1", "no")
    ]
    assert merged["steps_in_progress"] == [2]
    assert merged["state"]["step_index"] == 1


def test_the_mark_says_that_nobody_has_looked() -> None:
    marked = mark(progress(done=("lint",)), unseen=True)

    assert is_unseen({"progress": marked})
    assert not is_unseen({"progress": mark(marked, unseen=False)})
    assert UNSEEN not in mark(marked, unseen=False)
    assert not is_unseen(None)
