"""A gateway beside which others are at work, at exactly the wrong moment."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

from holdfast.github.calls import ListFolder
from tests.fakes.assembly import BRANCH
from tests.fakes.memory_gateway import MemoryGateway


class MeddlingGateway:
    """Lets `meddle` happen once, just before the first call that `is_due`."""

    def __init__(
        self, inner: MemoryGateway, is_due: Callable[[Any], bool], meddle: Callable[[], object]
    ) -> None:
        self._inner = inner
        self._is_due = is_due
        self._meddle = meddle
        self._has_meddled = False

    def perform(self, call: Any) -> Any:
        if not self._has_meddled and self._is_due(call):
            self._has_meddled = True
            self._meddle()
        return self._inner.perform(call)


class LaggingGateway:
    """Answers listings of the branch as of an older commit, for as long as one is set."""

    def __init__(self, inner: MemoryGateway) -> None:
        self._inner = inner
        self.shows: list[str] = []

    def perform(self, call: Any) -> Any:
        if self.shows and isinstance(call, ListFolder) and call.ref == BRANCH:
            call = replace(call, ref=self.shows.pop())
        return self._inner.perform(call)
