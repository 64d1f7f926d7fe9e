from dataclasses import replace
from math import inf

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.drain.chunks import BatchStep, CommitStep, DrainPolicy, SinglesStep, Step, order_items
from holdfast.drain.plan import FEW, first_look, forecast_drain_s, plan_drain
from holdfast.format.receipt import QueueItem
from holdfast.format.triggers import Priority, Trigger
from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits
from holdfast.ratelimit.record import report_budget
from tests.fakes.drain_simulation import (
    START,
    CountingGitHub,
    Simulation,
    evenly,
    make_item,
)

CONTENTS = DrainPolicy("contents")
COMMIT = DrainPolicy("commit")
WRITE = Cost("core", is_mutation=True, creates_content=True)
OPEN = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)
LOW = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "90", "x-ratelimit-reset": str(int(START) + 60)}


def spent(count: int, *, ago_s: float = 1800.0) -> Budget:
    """Return a budget that has spent `count` content-creating requests, the last `ago_s` before START."""
    budget = Budget()
    for number in range(count):
        budget = budget.spend(WRITE, START - ago_s - count + number)
    return budget.at(START)


def of_run(run_id: str, count: int, *, at: float = START) -> list[QueueItem]:
    return [make_item(number, run_id=run_id, at=at) for number in range(1, count + 1)]


def written(steps: tuple[Step, ...]) -> list[QueueItem]:
    return [item for step in steps for item in step.items]


# Order


def test_most_urgent_go_first_and_then_the_oldest() -> None:
    medium = make_item(1, run_id="a", at=START)
    late_high = make_item(1, run_id="b", at=START + 2, priority=Priority.HIGH)
    high = make_item(1, run_id="c", at=START + 1, priority=Priority.HIGH)
    critical = make_item(1, run_id="d", at=START + 3, priority=Priority.CRITICAL)

    assert order_items([medium, late_high, high, critical]) == [critical, high, late_high, medium]


def test_critical_one_pulls_the_earlier_ones_of_its_run_along() -> None:
    run = of_run("a", 3)
    trip = make_item(4, run_id="a", at=START + 9, priority=Priority.CRITICAL)
    later = make_item(5, run_id="a", at=START + 10)
    other = make_item(1, run_id="b", at=START, priority=Priority.HIGH)

    assert order_items([other, later, trip, *reversed(run)]) == [*run, trip, other, later]


# Single files, batches, commits


def test_lone_checkpoint_on_a_quiet_day_leaves_at_once_as_a_single_file() -> None:
    item = make_item(1)

    for budget in (Budget(), spent(40, ago_s=5)):
        plan = plan_drain([item], budget, START, CONTENTS)
        assert plan.steps == (SinglesStep("run-0", (item,)),)
        assert plan.wait_s == 0.0


def test_nothing_spooled_is_nothing_to_do() -> None:
    assert plan_drain([], Budget(), START, CONTENTS).steps == ()
    assert forecast_drain_s([], Budget(), START, CONTENTS) == 0.0


def test_few_checkpoints_are_single_files_run_by_run() -> None:
    runs = [*of_run("a", 3), *of_run("b", 2, at=START + 1)]

    plan = plan_drain(runs, Budget(), START + 2, CONTENTS)

    assert plan.steps == (SinglesStep("a", tuple(runs[:3])), SinglesStep("b", tuple(runs[3:])))


def test_burst_of_a_hundred_is_one_batch() -> None:
    items = of_run("a", 100)

    assert plan_drain(items, Budget(), START, CONTENTS).steps == (BatchStep("a", tuple(items)),)


def test_low_remaining_calls_make_batches() -> None:
    items = of_run("a", 2, at=START - 600)
    budget = Budget().observe(200, LOW, START)

    assert plan_drain(items, budget, START, CONTENTS).steps == (BatchStep("a", tuple(items)),)


def test_hour_that_runs_short_makes_batches() -> None:
    items = of_run("a", 3, at=START - 600)

    assert plan_drain(items, spent(300), START, CONTENTS).steps == (BatchStep("a", tuple(items)),)


def test_batch_of_one_is_a_single_file() -> None:
    item = make_item(1, at=START - 600)

    assert plan_drain([item], spent(300), START, CONTENTS).steps == (SinglesStep("run-0", (item,)),)


def test_batches_stay_moderate_in_bytes_and_in_number() -> None:
    large = [make_item(number, size_bytes=1_500_000) for number in range(1, 6)]
    budget = spent(300)

    steps = plan_drain(large, budget, START + 600, CONTENTS).steps
    assert [len(step.items) for step in steps] == [2, 2, 1]
    steps = plan_drain(of_run("a", 1200), budget, START + 600, CONTENTS).steps
    assert [len(step.items) for step in steps] == [500, 500, 200]


def test_without_limits_everything_goes_at_once_as_single_files() -> None:
    items = [*of_run("a", 250), *of_run("b", 30)]

    plan = plan_drain(items, Budget(OPEN), START, CONTENTS)

    assert [(type(step), len(step.items)) for step in plan.steps] == [
        (SinglesStep, 100),
        (SinglesStep, 100),
        (SinglesStep, 50),
        (SinglesStep, 30),
    ]


def test_commit_takes_all_runs_together_and_splits_only_for_the_size_of_a_request() -> None:
    items = [*of_run("a", 40), *of_run("b", 40)]

    assert plan_drain(items, Budget(), START, COMMIT).steps == (CommitStep(tuple(order_items(items))),)
    many = [*of_run("a", 150), *of_run("b", 150)]
    assert [len(step.items) for step in plan_drain(many, Budget(), START, COMMIT).steps] == [196, 104]
    large = [make_item(number, size_bytes=8_000_000) for number in range(1, 6)]
    assert [len(step.items) for step in plan_drain(large, Budget(), START, COMMIT).steps] == [2, 2, 1]


def test_runs_of_a_backlog_stay_together_so_that_few_commits_have_their_index() -> None:
    in_turn = [
        make_item(number, run_id=f"run-{run}", at=START + number)
        for number in range(1, 21)
        for run in range(50)
    ]

    steps = plan_drain(in_turn, Budget(), START + 60, COMMIT).steps

    assert sorted(map(id, written(steps))) == sorted(map(id, in_turn))
    assert sum(len({item.run_id for item in step.items}) for step in steps) < 60


def test_staying_together_lets_no_less_urgent_one_go_ahead() -> None:
    high = [make_item(1, run_id=run, priority=Priority.HIGH) for run in ("a", "b")]
    rest = [make_item(number, run_id=run) for number in range(2, 400) for run in ("a", "b")]
    trip = make_item(400, run_id="c", priority=Priority.CRITICAL)

    planned = written(plan_drain([*rest, *high, trip], Budget(), START + 60, COMMIT).steps)

    assert planned[:3] == [trip, *high]
    assert [item.run_id for item in planned[3:]] == ["a"] * 398 + ["b"] * 398


def test_oversized_checkpoint_counts_its_parts_as_files() -> None:
    whole = make_item(1, size_bytes=10_000_000)
    divided = make_item(1, size_bytes=35_000_000)

    assert forecast_drain_s([whole], Budget(), START, CONTENTS) == 3.0
    assert forecast_drain_s([divided], Budget(), START, CONTENTS) == 6.0
    assert plan_drain([divided], Budget(), START, COMMIT).steps == (CommitStep((divided,)),)


# Waiting


def test_busy_hour_collects_before_it_writes_and_says_how_long() -> None:
    plan = plan_drain([make_item(1)], spent(200), START, CONTENTS)

    assert plan.steps == ()
    assert 0 < plan.wait_s <= 30
    assert "collecting" in plan.reason
    later = plan_drain([make_item(1)], spent(200).at(START + plan.wait_s), START + plan.wait_s, CONTENTS)
    assert len(later.steps) == 1


def test_without_pauses_only_the_limits_count() -> None:
    plan = plan_drain([make_item(1)], spent(400), START, replace(CONTENTS, longest_pause_s=0))

    assert len(plan.steps) == 1


def test_after_a_secondary_limit_it_collects_twice_as_long() -> None:
    slow = spent(200).block("secondary", 1, "core", START - 10)

    usual = plan_drain([make_item(1)], spent(200), START, CONTENTS).wait_s
    assert plan_drain([make_item(1)], slow, START, CONTENTS).wait_s == pytest.approx(2 * usual)


def test_low_remaining_calls_are_stretched_until_their_reset() -> None:
    rate = LOW | {"x-ratelimit-remaining": "80", "x-ratelimit-reset": str(int(START) + 900)}
    budget = Budget().observe(200, rate, START)

    plan = plan_drain([make_item(1)], budget, START, CONTENTS)

    assert plan.steps == ()
    assert plan.wait_s == pytest.approx(900 * 6 / 30)


def test_exhausted_hour_waits_until_the_first_requests_are_an_hour_old() -> None:
    plan = plan_drain([make_item(1, at=START - 1000)], spent(425), START, CONTENTS)

    assert plan.steps == ()
    assert plan.wait_s == pytest.approx(3600 - 1800 - 425 + 2)
    assert "this hour" in plan.reason


@pytest.mark.parametrize("policy", [CONTENTS, COMMIT])
def test_blocked_budget_waits_as_long_as_github_said(policy: DrainPolicy) -> None:
    budget = Budget().block("primary", 1234, "core", START, "limit exceeded")
    critical = make_item(1, priority=Priority.CRITICAL)

    plan = plan_drain([critical], budget, START, policy)

    assert plan.steps == ()
    assert plan.wait_s == 1234
    assert plan.reason == "limit exceeded"


def test_item_from_the_future_does_not_wait_for_the_clock() -> None:
    item = make_item(1, at=START + 7200)

    assert len(plan_drain([item], spent(300), START, CONTENTS).steps) == 1


# Critical checkpoints


def test_critical_one_goes_first_and_within_the_reserve_when_the_hour_is_exhausted() -> None:
    backlog = of_run("a", 50, at=START - 3000)
    earlier = of_run("b", 4, at=START - 10)
    trip = make_item(5, run_id="b", priority=Priority.CRITICAL)
    later = make_item(6, run_id="b")

    plan = plan_drain([*backlog, later, *earlier, trip], spent(425), START, CONTENTS)

    assert plan.steps == (BatchStep("b", (*earlier, trip)),)


def test_critical_one_waits_when_even_the_reserve_is_spent() -> None:
    trip = make_item(1, priority=Priority.CRITICAL)

    plan = plan_drain([trip], spent(450), START, CONTENTS)

    assert plan.steps == ()
    assert plan.wait_s > 0


def test_critical_one_does_not_wait_for_a_pause() -> None:
    trip = make_item(1, run_id="b", priority=Priority.CRITICAL)

    plan = plan_drain([make_item(1), trip], spent(300), START, CONTENTS)

    assert plan.steps == (SinglesStep("b", (trip,)),)


def test_commit_with_a_critical_one_takes_the_others_along() -> None:
    trip = make_item(1, run_id="b", priority=Priority.CRITICAL)
    other = make_item(1, run_id="a")

    assert plan_drain([other, trip], spent(425), START, COMMIT).steps == (CommitStep((trip, other)),)


# The bars: an hour of checkpoints on one token, and GitHub never has to say no


@pytest.mark.slow
@pytest.mark.parametrize("policy", [CONTENTS, COMMIT], ids=["contents", "commit"])
@pytest.mark.parametrize("runs", [1, 10, 100])
def test_ten_thousand_in_an_hour_are_verified_ten_minutes_later(policy: DrainPolicy, runs: int) -> None:
    simulation = Simulation(evenly(10_000, runs, 3600), policy).run(START + 4200)

    assert len(simulation.verified) == 10_000
    assert simulation.github.refused == []
    assert max(simulation.verified.values()) < START + 4200


@pytest.mark.slow
@pytest.mark.parametrize("policy", [CONTENTS, COMMIT], ids=["contents", "commit"])
def test_token_of_an_actions_job_manages_the_same_hour(policy: DrainPolicy) -> None:
    github = CountingGitHub(calls_per_hour=1000)
    budget = Budget(Limits(requests_per_hour=1000))

    simulation = Simulation(evenly(10_000, 10, 3600), policy, github, budget).run(START + 4200)

    assert len(simulation.verified) == 10_000
    assert github.refused == []


@pytest.mark.slow
@pytest.mark.parametrize("policy", [CONTENTS, COMMIT], ids=["contents", "commit"])
@pytest.mark.parametrize("runs", [1, 10, 100])
def test_burst_of_two_thousand_drains_in_ten_minutes(policy: DrainPolicy, runs: int) -> None:
    simulation = Simulation(evenly(2_000, runs, 0), policy).run(START + 600)

    assert len(simulation.verified) == 2_000
    assert simulation.github.refused == []


@pytest.mark.slow
def test_writes_keep_their_distance_and_the_hour_its_margin() -> None:
    github = Simulation(evenly(10_000, 10, 3600), CONTENTS).run(START + 4200).github

    gaps = [later - earlier for earlier, later in zip(github.mutations, github.mutations[1:], strict=False)]
    assert min(gaps) >= 1.0 - 1e-6
    busiest = max(sum(start <= at < start + 3600 for at in github.mutations) for start in github.mutations)
    assert busiest <= 425


def test_quiet_day_writes_each_checkpoint_at_once_to_its_own_file() -> None:
    items = evenly(24, 2, 12 * 3600)

    simulation = Simulation(items, CONTENTS).run(START + 24 * 3600)

    assert all(isinstance(step, SinglesStep) for step in simulation.steps)
    assert max(simulation.verified[t.checkpoint_id] - t.arrived_at for t in items) < 5


@pytest.mark.slow
def test_circuit_breaker_gets_through_in_the_middle_of_the_busiest_hour() -> None:
    flood = evenly(10_000, 100, 3600)
    trip = make_item(1, run_id="breaker", at=START + 2000, priority=Priority.CRITICAL)

    simulation = Simulation([*flood, trip], CONTENTS).run(START + 2100)

    assert simulation.budget.room("core", START + 2100).content_hour == 0
    assert simulation.verified[trip.checkpoint_id] - trip.arrived_at < 5
    assert simulation.github.refused == []


def test_tiny_limits_still_make_progress() -> None:
    budget = Budget(Limits(write_interval_s=0, content_per_minute=3, content_per_hour=6))

    simulation = Simulation(evenly(200, 2, 0), CONTENTS, budget=budget).run(START + 4 * 3600)

    assert len(simulation.verified) == 200


@pytest.mark.slow
def test_forecast_grows_with_the_spool_and_with_what_is_spent() -> None:
    small, large = evenly(10, 1, 0), evenly(9_000, 9, 0)

    assert forecast_drain_s(small, Budget(), START, CONTENTS) == 12.0
    assert forecast_drain_s(large, Budget(), START, CONTENTS) == 54.0
    assert forecast_drain_s(large, spent(425), START, CONTENTS) > 400
    assert forecast_drain_s(large, Budget(), START, COMMIT) == 46.0


# Whatever is spooled, whatever was spent

limits = st.builds(
    OPEN._replace,
    write_interval_s=st.sampled_from([0.0, 1.0]),
    content_per_minute=st.sampled_from([0, 3, 10, 80]),
    content_per_hour=st.sampled_from([0, 5, 30, 500]),
    requests_per_hour=st.sampled_from([None, 60, 1000]),
)
items_of_some_runs = st.lists(
    st.tuples(
        st.sampled_from("abcd"),
        st.sampled_from(list(Priority)),
        st.floats(0, 2000),
        st.sampled_from([100, 5_000, 3_000_000, 20_000_000]),
    ),
    min_size=1,
    max_size=60,
).map(
    lambda rows: [
        make_item(number, run_id=run_id, at=START - age_s, priority=priority, size_bytes=size_bytes)
        for number, (run_id, priority, age_s, size_bytes) in enumerate(rows, start=1)
    ]
)


@st.composite
def budgets(draw: st.DrawFn) -> Budget:
    budget = Budget(draw(limits))
    for ago_s in sorted(draw(st.lists(st.floats(0, 4000), max_size=80)), reverse=True):
        budget = budget.spend(draw(st.sampled_from([WRITE, Cost("graphql", True, True)])), START - ago_s)
    if draw(st.booleans()):
        is_primary = draw(st.booleans())
        budget = budget.block(
            "primary" if is_primary else "secondary", draw(st.sampled_from([None, 30.0])), "core", START - 20
        )
    return budget.at(START)


def content_of(step: Step) -> int:
    parts = sum((item.size_bytes - 1) // 10_000_000 for item in step.items)
    match step:
        case CommitStep():
            return 1
        case BatchStep():
            return 3 + parts
        case SinglesStep():
            return len(step.items) + 2 + parts


@pytest.mark.slow
@settings(deadline=None)
@given(items_of_some_runs, budgets(), st.sampled_from([CONTENTS, COMMIT]))
def test_plan_stays_within_the_room_and_takes_each_item_once_in_order(
    items: list[QueueItem], budget: Budget, policy: DrainPolicy
) -> None:
    plan = plan_drain(items, budget, START, policy)

    taken = written(plan.steps)
    assert len(set(taken)) == len(taken)
    for run_id in {item.run_id for item in items}:
        in_order = sorted((t for t in items if t.run_id == run_id), key=lambda item: item.sequence)
        of_this_run = [item for item in taken if item.run_id == run_id]
        assert of_this_run == in_order[: len(of_this_run)]
    room = budget.room(policy.resource, START, is_critical=True)
    needed = sum(content_of(step) for step in plan.steps)
    assert needed <= min(room.content_minute, room.content_hour) or len(plan.steps) == 1
    if not plan.steps:
        assert 0 < plan.wait_s < inf
        assert plan.reason


@pytest.mark.slow
@settings(deadline=None, max_examples=40)
@given(items_of_some_runs, budgets(), st.sampled_from([CONTENTS, COMMIT]))
def test_whoever_follows_the_plans_writes_everything_in_the_end(
    items: list[QueueItem], budget: Budget, policy: DrainPolicy
) -> None:
    now, pending = START, list(items)
    for _ in range(2000):
        if not pending:
            break
        plan = plan_drain(pending, budget, now, policy)
        for step in plan.steps:
            for _ in range(content_of(step)):
                budget = budget.spend(Cost(policy.resource, is_mutation=True, creates_content=True), now)
        pending = [item for item in pending if item not in written(plan.steps)]
        now += plan.wait_s

    assert pending == []


def test_used_up_calls_show_in_the_forecast_before_github_refuses_any() -> None:
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-used": "5000",
        "x-ratelimit-reset": "11800",
        "x-ratelimit-resource": "core",
    }
    budget = Budget(Limits()).observe(200, headers, 10_000.0, "core")
    waiting = [QueueItem("a", "r", 1, Trigger.MANUAL, Priority.MEDIUM, 100, 10_000.0)]

    forecast_s = forecast_drain_s(waiting, budget, 10_000.0, DrainPolicy())

    assert forecast_s >= 1800
    assert report_budget(budget, 10_000.0)["blocked_until"] == pytest.approx(11_805, abs=10)


def announce(remaining: int) -> Budget:
    headers = {
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(START) + 3550),
        "x-ratelimit-resource": "core",
    }
    return Budget().observe(200, headers, START)


@pytest.mark.parametrize("wait_s", [20.0, 3600.0])
@pytest.mark.parametrize("policy", [CONTENTS, COMMIT], ids=["contents", "commit"])
def test_a_wait_that_github_asked_for_counts_once_in_the_forecast(wait_s: float, policy: DrainPolicy) -> None:
    budget = Budget().block("secondary", wait_s, "core", START)
    waiting = evenly(2, 1, 0)

    forecast_s = forecast_drain_s(waiting, budget, START, replace(policy, longest_pause_s=0))

    assert wait_s < forecast_s < wait_s + 12


def test_the_forecast_knows_what_is_kept_for_critical_checkpoints() -> None:
    trip = make_item(1, run_id="b", priority=Priority.CRITICAL)
    policy = replace(CONTENTS, longest_pause_s=0)

    assert forecast_drain_s([trip], announce(51), START, policy) < 10
    assert forecast_drain_s([trip, *evenly(63, 7, 0)], announce(51), START, policy) == 3555.0 + 21


def test_the_forecast_of_a_critical_one_uses_the_reserve() -> None:
    trip = make_item(1, priority=Priority.CRITICAL)

    assert forecast_drain_s([trip], spent(425), START, CONTENTS) < 10
    assert forecast_drain_s([make_item(1)], spent(425), START, CONTENTS) > 600


def test_small_plan_is_carried_out_without_a_first_look() -> None:
    steps = (SinglesStep("a", tuple(make_item(number) for number in range(FEW))),)

    assert first_look(steps) == steps


def test_first_look_of_a_large_plan_is_as_small_as_its_first_step_allows() -> None:
    many = tuple(make_item(number) for number in range(FEW + 1))
    single, batch = SinglesStep("a", many), BatchStep("b", many)

    assert first_look((single, batch)) == (SinglesStep("a", many[:1]),)
    assert first_look((batch, single)) == (batch,)
