"""Threads for what may hang: bounded, refused beyond that, left behind at the end."""

import asyncio
import threading

import pytest

from holdfast.sidecar.problems import Problem
from holdfast.sidecar.threads import BoundedThreads, Threads

# Only there to end a test that hangs.
LONGEST_S = 60


class Hanging:
    """Work that does not end before it is let go."""

    def __init__(self) -> None:
        self.is_begun = threading.Event()
        self.may_end = threading.Event()

    def __call__(self) -> str:
        self.is_begun.set()
        assert self.may_end.wait(LONGEST_S)
        return "done"


def test_work_is_done_beside_the_loop() -> None:
    async def scene() -> tuple[str, bool]:
        threads = Threads(1, "test")
        name = await threads.run(lambda: threading.current_thread().name)
        return name, threads.close(LONGEST_S)

    assert asyncio.run(scene()) == ("test_0", True)


def test_what_hangs_is_left_behind_at_the_end() -> None:
    hanging = Hanging()
    threads = Threads(1, "test")
    threads.begin(hanging)
    assert hanging.is_begun.wait(LONGEST_S)

    assert not threads.close(0)

    hanging.may_end.set()
    assert threads.close(LONGEST_S)


def test_beyond_the_bound_work_is_refused_with_a_time() -> None:
    hanging = Hanging()

    async def scene() -> Problem:
        threads = BoundedThreads(1, "test", most_waiting=0, longest_turn_s=10 * LONGEST_S)
        first = asyncio.create_task(threads.run(hanging))
        await asyncio.to_thread(hanging.is_begun.wait, LONGEST_S)
        with pytest.raises(Problem) as caught:
            await threads.run(lambda: "too much")
        hanging.may_end.set()
        assert await first == "done"
        return caught.value

    problem = asyncio.run(scene())

    assert (problem.status, problem.code) == (503, "too_many_reads")
    assert problem.headers["Retry-After"] == "5"


def test_a_turn_that_does_not_come_is_given_up() -> None:
    hanging = Hanging()

    async def scene() -> Problem:
        threads = BoundedThreads(1, "test", most_waiting=1, longest_turn_s=0)
        first = asyncio.create_task(threads.run(hanging))
        await asyncio.to_thread(hanging.is_begun.wait, LONGEST_S)
        with pytest.raises(Problem) as caught:
            await threads.run(lambda: "too late")
        hanging.may_end.set()
        await first
        return caught.value

    assert asyncio.run(scene()).status == 503


def test_a_turn_is_given_back_by_the_thread_even_if_nobody_waits_for_it() -> None:
    hanging = Hanging()

    async def scene() -> str:
        threads = BoundedThreads(1, "test")
        first = asyncio.create_task(threads.run(hanging))
        await asyncio.to_thread(hanging.is_begun.wait, LONGEST_S)
        first.cancel()
        next_one = asyncio.create_task(threads.run(lambda: "its turn"))
        await asyncio.sleep(0)
        assert not next_one.done()
        hanging.may_end.set()
        return await next_one

    assert asyncio.run(scene()) == "its turn"
