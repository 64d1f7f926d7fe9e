"""A gateway that repeats reads; the one retry policy.

A write is never repeated here: whether a lost one landed is settled by reading. A limit is not waited for
here either: the worker does that, and keeps serving meanwhile.
"""

import random
from collections.abc import Callable
from typing import Any, TypeVar

from holdfast.errors import GatewayError, Missing, Unavailable
from holdfast.github.gateway import Call, Gateway

ResultT = TypeVar("ResultT")

_FIRST_WAIT_S = 0.5
_LONGEST_WAIT_S = 8.0


class RetryingGateway:
    """Performs calls through `inner`, and reads up to `attempts` times.

    Between two attempts it waits somewhere between nothing and 0.5, 1, 2, 4, then 8 seconds, as
    `random_share` (from 0 to 1) has it, so that several workers do not come back together.
    """

    def __init__(
        self,
        inner: Gateway,
        *,
        sleep: Callable[[float], None],
        attempts: int = 4,
        random_share: Callable[[], float] = random.random,
    ) -> None:
        self._inner = inner
        self._sleep = sleep
        self._attempts = attempts
        self._random_share = random_share

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise the GatewayError of the last attempt."""
        for attempt in range(1, self._attempts):
            try:
                return self._inner.perform(call)
            except (Unavailable, Missing) as error:
                if not is_worth_repeating(call, error):
                    raise
            self._sleep(self._wait_s(attempt))
        return self._inner.perform(call)

    def _wait_s(self, attempt: int) -> float:
        return self._random_share() * min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (attempt - 1))


def is_worth_repeating(call: Call[Any], error: GatewayError) -> bool:
    """Whether the same read may succeed in a moment: no clear answer, or not visible yet."""
    if call.is_mutation:
        return False
    return isinstance(error, Unavailable) or getattr(call, "is_fresh", False)
