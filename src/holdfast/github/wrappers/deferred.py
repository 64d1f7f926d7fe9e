"""A gateway that is made when it is first needed: what can be answered without GitHub does not pay for it."""

import threading
from collections.abc import Callable
from typing import TypeVar

from holdfast.github.calls import Call, Gateway

ResultT = TypeVar("ResultT")


class DeferredGateway:
    """Performs calls through what `make` returns, which is called once, by the first call."""

    def __init__(self, make: Callable[[], Gateway]) -> None:
        self._make = make
        self._inner: Gateway | None = None
        self._lock = threading.Lock()

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError."""
        with self._lock:
            if self._inner is None:
                self._inner = self._make()
        return self._inner.perform(call)
