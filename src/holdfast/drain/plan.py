"""From what is spooled, the budget and the time to what to write and how, or how long to wait and why.

The planner remembers nothing: what was spent stands in the budget, how long a checkpoint has waited stands
in its item. While little of the hour is spent, everything leaves at once. After that a run is written
only once its oldest checkpoint has waited for a pause, which grows with what writing all runs costs, so that
batches fill up and the hour lasts. A critical checkpoint never waits for a pause.
"""

from collections.abc import Sequence
from dataclasses import dataclass, replace
from math import inf

from holdfast.drain.chunks import (
    DraftStep,
    DrainPolicy,
    SinglesStep,
    Step,
    draft_batches,
    draft_commits,
    draft_singles,
    order_items,
)
from holdfast.drain.needs import RUN_FILES, RUN_READS
from holdfast.format.receipt import QueueItem
from holdfast.ratelimit.budget import HOUR_S, Budget

SHORTEST_WAIT_S = 0.05
EASY_SHARE = 0.7  # up to this share of the hour the pause does not grow
FEW = 10  # with fewer checkpoints it does not matter how many calls the hour has left


@dataclass(frozen=True, slots=True)
class DrainPlan:
    """The steps to take now, in this order; without any, how long to wait and why."""

    steps: tuple[Step, ...]
    wait_s: float
    reason: str


def plan_drain(items: Sequence[QueueItem], budget: Budget, now: float, policy: DrainPolicy) -> DrainPlan:
    """Return what to write now, no more than the budget covers; else how long to wait and why.

    The plan is good for one pass: whoever carries it out plans anew after it. With `longest_pause_s=0`
    in the policy there are no pauses, and only the limits count.
    """
    if not items:
        return DrainPlan((), 0.0, "nothing is spooled")
    drafts = _drafts(items, budget, now, policy)
    pause_s = _pause_s(drafts, budget, now, policy)
    due = [draft for draft in drafts if draft.wait_s(pause_s, now) <= 0]
    steps = _affordable(due, budget, now, policy)
    if steps:
        return DrainPlan(steps, 0.0, "")
    if due:
        wait = budget.delay_for(due[0].need, now, is_critical=due[0].is_critical)
        return DrainPlan((), max(wait.seconds, SHORTEST_WAIT_S), wait.reason)
    wait_s = min(draft.wait_s(pause_s, now) for draft in drafts)
    return DrainPlan((), max(wait_s, SHORTEST_WAIT_S), "collecting, so that the hour's requests last")


def first_look(steps: tuple[Step, ...]) -> tuple[Step, ...]:
    """Return the first part of a large plan: its answers tell how many calls are left."""
    if sum(len(step.items) for step in steps) <= FEW:
        return steps
    first = steps[0]
    return (replace(first, items=first.items[:1]) if isinstance(first, SinglesStep) else first,)


def forecast_drain_s(items: Sequence[QueueItem], budget: Budget, now: float, policy: DrainPolicy) -> float:
    """Return about how long it takes to write all of `items` at the pace that the budget allows."""
    if not items:
        return 0.0
    drafts = _drafts(items, budget, now, policy)
    pause_s = _pause_s(drafts, budget, now, policy)
    waiting_s = max(0.0, min(draft.wait_s(pause_s, now) for draft in drafts))
    closed_s = budget.delay_for(drafts[0].need, now, is_critical=drafts[0].is_critical).seconds
    in_time_s = budget.seconds_for_content(
        _content_of(drafts),
        now,
        begin_in_s=max(waiting_s, closed_s),
        is_critical=all(draft.is_critical for draft in drafts),
    )
    return max(in_time_s, _late_s(drafts, budget, now, policy))


def _late_s(drafts: list[DraftStep], budget: Budget, now: float, policy: DrainPolicy) -> float:
    """Return after about how many seconds the steps are done that this hour's calls do not suffice for."""
    critical_room = budget.room(policy.resource, now, is_critical=True).requests
    room = budget.room(policy.resource, now).requests
    requests = 0
    for position, draft in enumerate(drafts):
        requests += draft.need.requests
        if requests > (critical_room if draft.is_critical else room):
            late = drafts[position:]
            later = sum(each.need.requests for each in late[1:])
            begin_in_s = budget.seconds_for_calls(
                requests + later, policy.resource, now, is_critical=draft.is_critical
            )
            return budget.seconds_for_content(_content_of(late), now, begin_in_s=begin_in_s)
    return 0.0


def _content_of(drafts: Sequence[DraftStep]) -> int:
    return sum(draft.need.content for draft in drafts)


def _drafts(items: Sequence[QueueItem], budget: Budget, now: float, policy: DrainPolicy) -> list[DraftStep]:
    """Return every step that is to be taken some time, the most urgent first."""
    ordered = order_items(items)
    if policy.mode == "commit":
        return draft_commits(ordered, policy)
    if not _is_room_for_singles(items, budget, now, policy):
        return draft_batches(ordered, policy)
    minute, _ = budget.content_capacity(now)
    return draft_singles(ordered, policy, most_files=minute / 2 - RUN_FILES)


def _is_room_for_singles(items: Sequence[QueueItem], budget: Budget, now: float, policy: DrainPolicy) -> bool:
    """Whether little of the hour is spent, and a file for each checkpoint would take little more of it."""
    runs = len({item.run_id for item in items})
    content = len(items) + RUN_FILES * runs
    _, hour = budget.content_capacity(now)
    calls = budget.room("core", now).requests
    return (
        not budget.is_low(now)
        and content <= hour * policy.singles_share
        and content + budget.content_spent(now) <= hour * policy.free_share
        and content + RUN_READS * runs <= calls * policy.singles_share
    )


def _pause_s(drafts: list[DraftStep], budget: Budget, now: float, policy: DrainPolicy) -> float:
    """Return how long a run's checkpoints are collected before they are written."""
    if policy.longest_pause_s <= 0:
        return 0.0
    slowness = 2.0 if budget.is_slow(now) else 1.0
    for_content_s = _content_pause_s(drafts, budget, now, policy) * slowness
    return min(
        max(for_content_s, _calls_pause_s(drafts, budget, now, policy)), policy.longest_strained_pause_s
    )


def _content_pause_s(drafts: list[DraftStep], budget: Budget, now: float, policy: DrainPolicy) -> float:
    """Return the pause that keeps to the pace GitHub advises, and makes what is left of the hour last."""
    _, hour = budget.content_capacity(now)
    if hour == inf:
        return 0.0
    left_share = budget.room(policy.resource, now).content_hour / hour
    content = _content_of(drafts)
    pace = min(hour, budget.limits.pushes_per_minute * 60.0 or inf)
    settled_s = min(content * HOUR_S / pace, policy.longest_pause_s)
    return settled_s * _ease(1.0 - left_share, policy) * _strain(left_share)


def _ease(spent_share: float, policy: DrainPolicy) -> float:
    """Return 0 on a quiet day, 1 once the free share of the hour is spent, and what lies between."""
    beyond_quiet = (spent_share - policy.quiet_share) / (policy.free_share - policy.quiet_share)
    return min(max(beyond_quiet, 0.0), 1.0)


def _strain(left_share: float) -> float:
    """Return 1 while enough of the hour is left, and more the less is left."""
    return max(1.0, (1.0 - EASY_SHARE) / max(left_share, 0.01))


def _calls_pause_s(drafts: list[DraftStep], budget: Budget, now: float, policy: DrainPolicy) -> float:
    """Return the pause that makes the calls last until their reset, once GitHub says that few are left."""
    if not budget.is_low(now, policy.resource):
        return 0.0
    requests = sum(draft.need.requests for draft in drafts)
    left = max(1.0, budget.room(policy.resource, now).requests)
    return min(budget.seconds_to_reset(policy.resource, now) * requests / left, policy.longest_pause_s)


def _affordable(due: list[DraftStep], budget: Budget, now: float, policy: DrainPolicy) -> tuple[Step, ...]:
    """Return the first steps that the budget covers now; only a few, as urgent work may arrive."""
    if not due or budget.delay_for(due[0].need, now, is_critical=due[0].is_critical).seconds > 0:
        return ()
    steps = [due[0].step]
    spent = due[0].need
    critical_room = budget.room(policy.resource, now, is_critical=True)
    room = budget.room(policy.resource, now)
    for draft in due[1:]:
        spent = spent.plus(draft.need)
        is_long = spent.content * budget.limits.write_interval_s > policy.longest_pass_s
        if is_long or not (critical_room if draft.is_critical else room).fits(spent):
            break
        steps.append(draft.step)
    return tuple(steps)
