"""A gateway that tells a meter how each call went."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import Protocol

from holdfast.errors import GatewayError
from holdfast.github.calls import Call, Gateway, ResultT


class Meter(Protocol):
    """Whoever counts what is asked of GitHub. `endpoint` is the name of the call's type."""

    def request_answered(self, endpoint: str, status: int) -> None:
        """Count one answer of GitHub."""
        ...

    def call_performed(self, seconds: float, *, is_mutation: bool, error: GatewayError | None) -> None:
        """Count one attempt, and how it ended."""
        ...

    def call_repeated(self) -> None:
        """Count an attempt that follows one that failed."""
        ...


@dataclass(frozen=True, slots=True)
class MeteredGateway:
    """Performs calls through `inner`; `meter` is told how long each took and how it ended."""

    inner: Gateway
    meter: Meter
    now: Callable[[], float] = time.perf_counter

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers, or raise its GatewayError."""
        began = self.now()
        try:
            result = self.inner.perform(call)
        except GatewayError as error:
            self._tell(call, began, error)
            raise
        self._tell(call, began, None)
        return result

    def _tell(self, call: Call[ResultT], began: float, error: GatewayError | None) -> None:
        elapsed_s = self.now() - began
        self.meter.call_performed(elapsed_s, is_mutation=call.is_mutation, error=error)
