"""A gateway that spends the rate budget: no call leaves unless there is room for it."""

from collections.abc import Callable
from typing import TypeVar

from holdfast.clock import SHORT_PAUSE_S
from holdfast.errors import Throttled
from holdfast.github.calls import Call, Gateway
from holdfast.ratelimit.limiter import RateLimiter
from holdfast.ratelimit.limits import Cost

ResultT = TypeVar("ResultT")


class BudgetedGateway:
    """Performs calls through `inner` as far as the rate limiter has room for them.

    A call waits for its turn for `longest_wait_s` at most: the pause between two writes. Anything longer is
    Throttled at once, because whoever plans the work must know. With `may_use_reserve` the share that is
    kept back for critical checkpoints can be spent too: for a writer whose plan keeps it back already.
    Before each call `give_way` lets the others in this process go first; it returns soon whatever happens.
    """

    def __init__(
        self,
        inner: Gateway,
        rate_limiter: RateLimiter,
        sleep: Callable[[float], None],
        *,
        longest_wait_s: float = SHORT_PAUSE_S,
        may_use_reserve: bool = False,
        give_way: Callable[[], None] = lambda: None,
    ) -> None:
        self._inner = inner
        self._rate_limiter = rate_limiter
        self._sleep = sleep
        self._longest_wait_s = longest_wait_s
        self._may_use_reserve = may_use_reserve
        self._give_way = give_way

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers to `call`, or raise a GatewayError.

        A Throttled of GitHub's own carries the wait that is now remembered, which may have grown.
        """
        self._give_way()
        self._wait_for_room(call)
        try:
            return self._inner.perform(call)
        except Throttled as error:
            error.retry_after_s = self._rate_limiter.block(error)
            raise

    def _wait_for_room(self, call: Call[ResultT]) -> None:
        cost = Cost(call.resource, is_mutation=call.is_mutation, creates_content=call.creates_content)
        left_s = self._longest_wait_s
        while True:
            wait = self._rate_limiter.take(cost, is_critical=self._may_use_reserve)
            if wait.seconds <= 0:
                return
            left_s -= wait.seconds
            if left_s < 0:
                raise Throttled(
                    call.subject,
                    wait.reason,
                    kind=wait.kind,
                    retry_after_s=wait.seconds,
                    resource=call.resource,
                )
            self._sleep(wait.seconds)
