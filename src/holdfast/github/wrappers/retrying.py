"""A gateway that repeats reads; the one retry policy.

A write is never repeated here: whether a lost one landed is settled by reading. A limit is not waited for
here either: the worker does that, and keeps serving meanwhile.
"""

import random
from collections.abc import Callable
from typing import TypeVar

from tenacity import RetryCallState, Retrying, stop_after_attempt

from holdfast.errors import GatewayError, Missing, Unavailable
from holdfast.github.calls import Call, Gateway

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
        self._random_share = random_share
        # One for all calls: tenacity's object refers to itself, and would keep a call's content in memory.
        self._policy = Retrying(
            retry=_is_worth_repeating,
            wait=self._wait_s,
            stop=stop_after_attempt(attempts),
            sleep=sleep,
            reraise=True,
        )

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise the GatewayError of the last attempt."""
        if call.is_mutation:
            return self._inner.perform(call)
        try:
            result: ResultT = self._policy(self._inner.perform, call)
        except GatewayError as error:
            # tenacity's own record of the call holds the error, and the error's traceback holds that record.
            raise error.with_traceback(None) from error.__cause__
        return result

    def _wait_s(self, state: RetryCallState) -> float:
        longest_s = min(_LONGEST_WAIT_S, _FIRST_WAIT_S * 2.0 ** (state.attempt_number - 1))
        return self._random_share() * longest_s


def _is_worth_repeating(state: RetryCallState) -> bool:
    """Whether the same read may succeed in a moment: no clear answer, or not visible yet."""
    error = state.outcome.exception() if state.outcome else None
    is_fresh = getattr(state.args[0], "is_fresh", False)
    return isinstance(error, Unavailable) or (is_fresh and isinstance(error, Missing))
