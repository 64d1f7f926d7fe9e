import threading
from concurrent.futures import ThreadPoolExecutor

from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.recorder import LayersRun, StepsRun, TasksRun
from tests.fakes.recording import Shelf


def test_tasks_in_many_threads_are_all_saved_and_never_lost_again(shelf: Shelf) -> None:
    names = [f"task-{number}" for number in range(40)]
    with shelf.open(TasksRun, work=names) as run, ThreadPoolExecutor(8) as pool:

        def work(name: str) -> None:
            with run.task(name):
                run.state[name] = "done"

        list(pool.map(work, names))

    done: set[str] = set()
    for checkpoint in shelf.saved:
        tasks = checkpoint["state_snapshot"]["progress"]["tasks"]
        completed = {name for name, task in tasks.items() if task["status"] == "completed"}
        assert done <= completed
        done = completed
    assert done == set(names)
    assert len(shelf.saved) == 2 * len(names) + 1


def test_steps_in_many_threads_never_resume_after_one_that_is_not_completed(shelf: Shelf) -> None:
    names = [f"step-{number}" for number in range(20)]
    together = threading.Barrier(4)
    with shelf.open(StepsRun, work=names) as run, ThreadPoolExecutor(4) as pool:

        def work(name: str) -> None:
            with run.step(name):
                together.wait()

        list(pool.map(work, names))

    for envelope in shelf.envelopes:
        shelf.envelopes = [envelope]
        plan = shelf.resume("build-42")
        assert isinstance(plan.resume_at, int)
        assert set(range(plan.resume_at)) <= set(plan.completed)


def test_tasks_of_a_layer_may_be_completed_in_many_threads(shelf: Shelf) -> None:
    names = [f"task-{number}" for number in range(40)]
    with shelf.open(LayersRun) as run, run.layer(0) as layer, ThreadPoolExecutor(8) as pool:
        list(pool.map(layer.task, names))

    assert {task["task_id"] for task in shelf.progress["tasks"]} == set(names)


def test_who_only_changes_the_state_does_not_wait_for_the_disk(shelf: Shelf) -> None:
    syncing, go_on = threading.Event(), threading.Event()
    put = shelf.put

    def slow(draft: Draft) -> Receipt:
        syncing.set()
        assert go_on.wait(timeout=60)
        return put(draft)

    shelf.put = slow  # type: ignore[method-assign]
    run = shelf.open(TasksRun)
    saver = threading.Thread(target=run.checkpoint)
    saver.start()
    assert syncing.wait(timeout=60)
    run.cost(0.5)
    run.describe(image="builder:3")
    go_on.set()
    saver.join()

    assert "cost_accumulated" not in shelf.newest["state_snapshot"]
    assert run.state["cost_accumulated"] == 0.5
