"""Threads for work that blocks: so many, with so much that waits for them, and not waited for at the end."""

import asyncio
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import suppress
from typing import Any, TypeVar

from holdfast.sidecar.problems import unavailable

T = TypeVar("T")

# Those under way and those that wait for their turn. More would only wait for longer than anyone listens.
MOST_WAITING = 64
LONGEST_TURN_S = 10.0


class Threads:
    """Runs blocking work beside the event loop, so much of it at once."""

    def __init__(self, count: int, name: str) -> None:
        self._executor = ThreadPoolExecutor(count, thread_name_prefix=name)
        self._under_way: set[Future[Any]] = set()

    def begin(self, work: Callable[[], T]) -> "Future[T]":
        """Have `work` done as soon as a thread is free."""
        future = self._executor.submit(work)
        self._under_way.add(future)
        future.add_done_callback(self._under_way.discard)
        return future

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns."""
        return await asyncio.wrap_future(self.begin(work))

    def close(self, grace_s: float) -> bool:
        """Begin nothing more; return whether what was under way ended within `grace_s`."""
        self._executor.shutdown(wait=False, cancel_futures=True)
        return not wait(list(self._under_way), grace_s).not_done


class BoundedThreads:
    """Threads for work that may hang: what finds no turn in time is refused, and told when to come again."""

    def __init__(
        self,
        count: int,
        name: str,
        *,
        most_waiting: int = MOST_WAITING,
        longest_turn_s: float = LONGEST_TURN_S,
    ) -> None:
        self._threads = Threads(count, name)
        self._turns = asyncio.Semaphore(count)
        self._waiting = 0
        self._most_waiting = most_waiting
        self._longest_turn_s = longest_turn_s

    async def run(self, work: Callable[[], T]) -> T:
        """Return what `work` returns. Raises Problem when too much is under way for too long."""
        await self._take_turn()
        future = self._threads.begin(work)
        loop = asyncio.get_running_loop()

        def give_back(_: object) -> None:
            with suppress(RuntimeError):  # the loop has ended, and nobody waits for a turn any more
                loop.call_soon_threadsafe(self._turns.release)

        # Whoever asked may be gone before the thread is free again.
        future.add_done_callback(give_back)
        return await asyncio.wrap_future(future)

    def close(self, grace_s: float) -> bool:
        """Begin nothing more; return whether what was under way ended within `grace_s`."""
        return self._threads.close(grace_s)

    async def _take_turn(self) -> None:
        busy = unavailable("too_many_reads", "Too many requests wait for GitHub; try again in a few seconds.")
        if self._turns.locked() and self._waiting >= self._most_waiting:
            raise busy
        self._waiting += 1
        try:
            async with asyncio.timeout(self._longest_turn_s):
                await self._turns.acquire()
        except TimeoutError:
            raise busy from None
        finally:
            self._waiting -= 1
