"""A gateway for work that can wait: it leaves the last of the budget to checkpoints."""

from dataclasses import dataclass

from holdfast.clock import Clock
from holdfast.errors import Throttled
from holdfast.github.calls import Call, Gateway, ResultT
from holdfast.ratelimit.limiter import RateLimiter


@dataclass(frozen=True, slots=True)
class LowPriorityGateway:
    """Performs calls through `inner` unless fewer remain than HOLDFAST_LOW_BUDGET."""

    inner: Gateway
    rate_limiter: RateLimiter
    clock: Clock

    def perform(self, call: Call[ResultT]) -> ResultT:
        """Return what GitHub answers. Raises Throttled when the rest is for checkpoints."""
        budget, now = self.rate_limiter.budget, self.clock.now()
        if budget.is_low(now, call.resource):
            raise Throttled(
                call.subject,
                f"the last {budget.limits.low_budget} {call.resource} calls of the hour are for checkpoints",
                kind="own_budget",
                retry_after_s=budget.seconds_to_reset(call.resource, now),
                resource=call.resource,
            )
        return self.inner.perform(call)
