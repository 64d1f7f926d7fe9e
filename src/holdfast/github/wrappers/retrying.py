"""The one retry policy: how often something is tried, and how long the pauses are.

A read without an answer is repeated at once, here. A write is repeated only by who planned it, with `repeat`:
whether a lost one has landed, or what a conflict means, is settled by reading and planning again. A limit is
waited for by neither: the worker does that, and keeps serving meanwhile.
"""

import random
from collections.abc import Callable
from functools import cached_property
from typing import TYPE_CHECKING, TypeVar

from holdfast.clock import Deadline, SystemClock
from holdfast.errors import Conflict, GatewayError, Missing, Silent, Unavailable, Unverified
from holdfast.github.calls import Call, Gateway
from holdfast.github.patience import Patience

if TYPE_CHECKING:
    from tenacity import RetryCallState, Retrying

PlanT = TypeVar("PlanT")
ResultT = TypeVar("ResultT")

READ_ATTEMPTS = 4
# What fails this often stays in the spool, and is tried again after a longer pause.
WRITE_ATTEMPTS = 3
# Nobody tries these again: a change that someone asked for by hand, and one that many writers may disturb.
CHANGE_ATTEMPTS = 5
SWEEP_ATTEMPTS = 8

_SHORTEST_PAUSE_S = 0.5
_LONGEST_PAUSE_S = 8.0


def pause_s(doublings: int) -> float:
    """Return the pause after an attempt: 0.5 s, doubled as often as that, 8 s at most."""
    return float(min(_LONGEST_PAUSE_S, _SHORTEST_PAUSE_S * 2.0**doublings))


def is_worth_repeating(error: GatewayError) -> bool:
    """Whether the same write may succeed on top of what is there now."""
    return isinstance(error, Conflict | Unavailable | Unverified) and not isinstance(error, Silent)


def repeat(
    work: Callable[[], ResultT],
    *,
    attempts: int,
    deadline: Deadline,
    note: Callable[[int, GatewayError], None],
    when: Callable[[GatewayError], bool] = is_worth_repeating,
) -> ResultT:
    """Return what `work` returns, which reads and plans anew each time. Raises its last GatewayError.

    `when` tells which errors are worth another attempt; `note` is told of each that gets one, before the
    pause: up to 1 s, 2 s, 4 s, then 8 s, and at least half of that.
    """

    def work_without_plan(_: None) -> ResultT:
        return work()

    return plan_and_repeat(
        lambda: None, work_without_plan, attempts=attempts, deadline=deadline, note=note, when=when
    )


def plan_and_repeat(
    plan: Callable[[], PlanT],
    work: Callable[[PlanT], ResultT],
    *,
    attempts: int,
    deadline: Deadline,
    note: Callable[[int, GatewayError], None],
    when: Callable[[GatewayError], bool] = is_worth_repeating,
) -> ResultT:
    """Return what `work` makes of a plan; like `repeat`, but an error of `plan` itself is raised at once."""
    attempt = 1
    while True:
        planned = plan()
        try:
            return work(planned)
        except GatewayError as error:
            # Its traceback would keep all that was to be written in memory while it is written otherwise.
            error.__traceback__ = None
            if attempt == attempts or not when(error):
                raise
            note(attempt, error)
        deadline.pause(pause_s(attempt))
        attempt += 1


class RetryingGateway:
    """Performs calls through `inner`, and reads up to `attempts` times: a short failure is nobody's concern.

    Between two attempts it waits somewhere between nothing and 0.5, 1, 2, 4, then 8 seconds, as
    `random_share` (from 0 to 1) has it, so that several workers do not come back together. All attempts of a
    read share the `patience` that is given for it, and nothing is repeated once that is used up.
    """

    def __init__(
        self,
        inner: Gateway,
        *,
        sleep: Callable[[float], None],
        attempts: int = READ_ATTEMPTS,
        random_share: Callable[[], float] = random.random,
        patience: Callable[[], Patience] = lambda: Patience(SystemClock()),
    ) -> None:
        self._inner = inner
        self._sleep = sleep
        self._attempts = attempts
        self._random_share = random_share
        self._patience = patience

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise the GatewayError of the last attempt."""
        if call.is_mutation:
            return self._inner.perform(call)
        patience = self._patience()
        try:
            return self._ask(call, patience)
        except GatewayError as error:
            if self._attempts == 1 or not _is_worth_asking_again(call, error):
                raise
        self._sleep(self._pause_s(0))
        try:
            result: ResultT = self._policy(self._ask, call, patience)
        except GatewayError as error:
            # tenacity's own record of the call holds the error, and the error's traceback holds that record.
            raise error.with_traceback(None) from error.__cause__
        return result

    def _ask(self, call: Call[ResultT], patience: Patience) -> ResultT:
        with patience.asking(call.subject):
            return self._inner.perform(call)

    @cached_property
    def _policy(self) -> "Retrying":
        """Return how all attempts after the first are made.

        One for all calls: tenacity's object refers to itself, and would keep a call's content in memory.
        Loaded when it is first needed: that takes a tenth of a second, and as a rule all goes well.
        """
        from tenacity import Retrying, stop_after_attempt

        return Retrying(
            retry=_has_failed_for_now,
            wait=lambda state: self._pause_s(state.attempt_number),
            stop=stop_after_attempt(self._attempts - 1),
            sleep=self._sleep,
            reraise=True,
        )

    def _pause_s(self, doublings: int) -> float:
        return self._random_share() * pause_s(doublings)


def _has_failed_for_now(state: "RetryCallState") -> bool:
    error = state.outcome.exception() if state.outcome else None
    return isinstance(error, GatewayError) and _is_worth_asking_again(state.args[0], error)


def _is_worth_asking_again(call: Call[ResultT], error: GatewayError) -> bool:
    """Whether the same read may succeed in a moment: no clear answer, or not visible yet."""
    if isinstance(error, Missing):
        return getattr(call, "is_fresh", False)
    return isinstance(error, Unavailable) and not isinstance(error, Silent)
