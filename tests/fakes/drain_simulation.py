"""A GitHub that only counts, and a worker that only follows plans, in virtual time."""

from collections import deque
from collections.abc import Iterable
from dataclasses import dataclass, field
from email.utils import formatdate
from math import inf

from holdfast.drain.chunks import BatchStep, CommitStep, DrainPolicy, Step
from holdfast.drain.plan import plan_drain
from holdfast.format.receipt import QueueItem
from holdfast.format.triggers import Priority, Trigger
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits

START = 1_800_000_000.0
REQUEST_S = 0.2
LONGEST_WAIT_S = 2.5


def make_item(
    number: int,
    *,
    run_id: str = "run-0",
    at: float = START,
    priority: Priority = Priority.MEDIUM,
    size_bytes: int = 5_000,
) -> QueueItem:
    return QueueItem(f"{run_id}-{number}", run_id, number, Trigger.MANUAL, priority, size_bytes, at)


def evenly(count: int, runs: int, over_s: float) -> list[QueueItem]:
    """Return `count` items of `runs` runs in turn, arriving evenly over `over_s` seconds."""
    return [
        make_item(1 + number // runs, run_id=f"run-{number % runs}", at=START + number * over_s / count)
        for number in range(count)
    ]


@dataclass
class CountingGitHub:
    """Knows GitHub's real limits and counts every request that it would refuse."""

    calls_per_hour: int = 5_000
    refused: list[str] = field(default_factory=list)
    contents: deque[float] = field(default_factory=deque)
    points: dict[str, deque[tuple[float, int]]] = field(default_factory=dict)
    calls: dict[str, tuple[float, int]] = field(default_factory=dict)
    mutations: list[float] = field(default_factory=list)

    def answer(self, cost: Cost, now: float) -> tuple[int, dict[str, str]]:
        """Return status and headers, as of the time that the request arrives."""
        reset_at, used = self.calls.get(cost.resource, (0.0, 0))
        if now >= reset_at:
            reset_at, used = now + 3600, 0
        used += 1
        self.calls[cost.resource] = (reset_at, used)
        reason = self._refusal(cost, now, used)
        if reason:
            self.refused.append(f"{reason} at {now - START:.0f} s")
        headers = {
            "date": formatdate(now, usegmt=True),
            "x-ratelimit-limit": str(self.calls_per_hour),
            "x-ratelimit-remaining": str(max(0, self.calls_per_hour - used)),
            "x-ratelimit-reset": str(int(reset_at)),
            "x-ratelimit-resource": cost.resource,
        }
        return (403 if reason else 200), headers

    def _refusal(self, cost: Cost, now: float, used: int) -> str:
        points = self.points.setdefault(cost.resource, deque())
        points.append((now, cost.points))
        while points[0][0] <= now - 60:
            points.popleft()
        if cost.is_mutation:
            self.mutations.append(now)
        if cost.creates_content:
            self.contents.append(now)
        while self.contents and self.contents[0] <= now - 3600:
            self.contents.popleft()
        if used > self.calls_per_hour:
            return "primary"
        if sum(amount for _, amount in points) > (2_000 if cost.resource == "graphql" else 900):
            return "points"
        if sum(at > now - 60 for at in self.contents) > 80:
            return "content a minute"
        return "content an hour" if len(self.contents) > 500 else ""


@dataclass
class Simulation:
    """Drains `arrivals` as a worker would, and remembers when each item was verified."""

    arrivals: Iterable[QueueItem]
    policy: DrainPolicy
    github: CountingGitHub = field(default_factory=CountingGitHub)
    budget: Budget = field(default_factory=lambda: Budget(Limits()))
    now: float = START
    verified: dict[str, float] = field(default_factory=dict)
    steps: list[Step] = field(default_factory=list)
    pending: dict[str, QueueItem] = field(default_factory=dict)

    def run(self, until: float) -> "Simulation":
        """Drain until everything is verified, or until `until`."""
        coming = deque(sorted(self.arrivals, key=lambda item: item.arrived_at))
        while self.now < until and (coming or self.pending):
            while coming and coming[0].arrived_at <= self.now:
                item = coming.popleft()
                self.pending[item.checkpoint_id] = item
            plan = plan_drain(list(self.pending.values()), self.budget, self.now, self.policy)
            for step in plan.steps:
                self._carry_out(step)
            if not plan.steps:
                self._sleep(plan.wait_s, coming)
        return self

    def _sleep(self, wait_s: float, coming: deque[QueueItem]) -> None:
        """Wait as planned; an arrival wakes us when we had nothing to do or when it is critical."""
        wakes = (t.arrived_at for t in coming if not self.pending or t.priority is Priority.CRITICAL)
        end = self.now + wait_s if self.pending else inf
        self.now = min(end, next(wakes, inf))

    def _carry_out(self, step: Step) -> None:
        self.steps.append(step)
        if isinstance(step, CommitStep):
            self._request(Cost("graphql"))
            self._request(Cost("graphql", is_mutation=True, creates_content=True))
        else:
            files = 1 if isinstance(step, BatchStep) else len(step.items)
            self._request(Cost("core"))
            for _ in range(files + 2):
                self._request(Cost("core", is_mutation=True, creates_content=True))
        for item in step.items:
            del self.pending[item.checkpoint_id]
            self.verified[item.checkpoint_id] = self.now

    def _request(self, cost: Cost) -> None:
        while wait := self.budget.delay(cost, self.now, is_critical=True).seconds:
            assert wait <= LONGEST_WAIT_S, f"a planned request had to wait {wait} s"
            self.now += wait
        self.budget = self.budget.spend(cost, self.now)
        status, headers = self.github.answer(cost, self.now + REQUEST_S / 2)
        self.now += REQUEST_S
        self.budget = self.budget.observe(status, headers, self.now, cost.resource)
