import asyncio
import threading
from contextlib import suppress

import pytest

from holdfast.format.checkpoint import Draft
from holdfast.format.receipt import Receipt
from holdfast.recorder import StepsRun, TasksRun
from tests.fakes.recording import Outage, Shelf


class Gate:
    """Lets checkpoints through to the shelf only when it is opened."""

    def __init__(self, shelf: Shelf) -> None:
        self._put = shelf.put
        self.reached = threading.Event()
        self.opened = threading.Event()
        shelf.put = self.put  # type: ignore[method-assign]

    def put(self, draft: Draft) -> Receipt:
        self.reached.set()
        assert self.opened.wait(timeout=60)
        return self._put(draft)


def test_steps_work_with_async_with(shelf: Shelf) -> None:
    async def main() -> None:
        async with shelf.open(StepsRun) as run:
            async with run.step("lint") as step:
                step.capture(version="1.2")
            with suppress(Outage):
                async with run.step("test"):
                    raise Outage

    asyncio.run(main())

    assert shelf.triggers == ["before_step", "step_complete", "before_step", "step_failed"]
    assert shelf.progress["variables"] == {"version": "1.2"}


def test_a_save_that_takes_its_time_lets_other_tasks_run(shelf: Shelf) -> None:
    gate = Gate(shelf)

    async def main() -> None:
        async with shelf.open(TasksRun) as run:

            async def work() -> None:
                async with run.task("compile"):
                    pass

            working = asyncio.create_task(work())
            while not gate.reached.is_set():
                await asyncio.sleep(0)
            run.state["meanwhile"] = True
            run.cost(0.5)
            assert not working.done()
            gate.opened.set()
            await working

    asyncio.run(main())

    assert shelf.triggers == ["task_change", "task_change", "run_complete"]
    assert shelf.newest["state_snapshot"]["meanwhile"] is True


def test_the_end_of_a_run_does_not_hold_up_the_loop_either(shelf: Shelf) -> None:
    gate = Gate(shelf)

    async def whole_run() -> None:
        async with shelf.open(TasksRun):
            pass

    async def main() -> None:
        running = asyncio.create_task(whole_run())
        while not gate.reached.is_set():
            await asyncio.sleep(0)
        assert not running.done()
        gate.opened.set()
        await running

    asyncio.run(main())
    assert shelf.triggers == ["run_complete"]


def test_a_task_that_is_cancelled_while_its_end_is_saved_is_still_completed(shelf: Shelf) -> None:
    async def main() -> None:
        async with shelf.open(TasksRun) as run:
            entered = asyncio.Event()

            async def work() -> None:
                async with run.task("compile"):
                    gate.append(Gate(shelf))
                    entered.set()

            gate: list[Gate] = []
            run.checkpoint()
            working = asyncio.create_task(work())
            await entered.wait()
            while not gate[0].reached.is_set():
                await asyncio.sleep(0)
            working.cancel()
            for _ in range(5):
                await asyncio.sleep(0)
            assert not working.done()
            gate[0].opened.set()
            with pytest.raises(asyncio.CancelledError):
                await working
            assert run.is_done("compile")

    asyncio.run(main())
    assert shelf.triggers == ["manual", "task_change", "task_change", "run_complete"]


def test_a_cancelled_run_is_interrupted(shelf: Shelf) -> None:
    async def main() -> None:
        begun = asyncio.Event()

        async def work() -> None:
            async with shelf.open(StepsRun) as run, run.step("lint"):
                begun.set()
                await asyncio.Event().wait()

        working = asyncio.create_task(work())
        await begun.wait()
        working.cancel()
        with pytest.raises(asyncio.CancelledError):
            await working

    asyncio.run(main())
    assert shelf.triggers == ["before_step", "interrupted"]
    assert shelf.progress["state"] == {"kind": "interrupted", "step_index": 0, "in_progress": True}
