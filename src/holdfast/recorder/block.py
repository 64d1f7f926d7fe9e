"""A part of the work: what `with` does around it, and `async with` without holding up the loop."""

import asyncio
from abc import ABC, abstractmethod
from collections.abc import Callable
from functools import partial
from types import TracebackType
from typing import Self, TypeVar

from holdfast.format.triggers import Trigger
from holdfast.recorder.state import RunState

T = TypeVar("T")


async def in_thread(work: Callable[[], T]) -> T:
    """Return what `work` returns, done in a thread. If the task is cancelled meanwhile, it is still done."""
    under_way = asyncio.ensure_future(asyncio.to_thread(work))
    try:
        return await asyncio.shield(under_way)
    except asyncio.CancelledError:
        await under_way
        raise


class WorkBlock(ABC):
    """A step, task, phase, layer or agent: use it with `with`, or in a coroutine with `async with`."""

    def __init__(self, run: RunState, name: str) -> None:
        self.name = name
        self._run = run
        self._began_at = 0.0

    @abstractmethod
    def _begin(self) -> None: ...

    @abstractmethod
    def _complete(self) -> None: ...

    def _fail(self, error: BaseException) -> None:
        self._run.record_failure(Trigger.ERROR, self.name, error)

    def _elapsed_s(self) -> float:
        """Return for how long the work has been under way, in seconds."""
        return round(max(0.0, self._run.clock.now() - self._began_at), 3)

    def __enter__(self) -> Self:
        self._began_at = self._run.clock.now()
        self._begin()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if error is None:
            self._complete()
        elif self._run.is_interruption(error):
            self._run.record_interruption()
        else:
            self._fail(error)

    async def __aenter__(self) -> Self:
        return await in_thread(self.__enter__)

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await in_thread(partial(self.__exit__, kind, error, trace))
