from email.utils import formatdate
from math import inf

import pytest

from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits, Need

NOW = 1_800_000_000.0
READ = Cost("core")
WRITE = Cost("core", is_mutation=True, creates_content=True)
COMMIT = Cost("graphql", is_mutation=True, creates_content=True)
UNHURRIED = Limits(write_interval_s=0)
OPEN = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)


def headers(
    remaining: int, *, reset_in: float = 1800, limit: int = 5000, resource: str = "core", at: float = NOW
) -> dict[str, str]:
    return {
        "date": formatdate(at, usegmt=True),
        "x-ratelimit-limit": str(limit),
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-used": str(limit - remaining),
        "x-ratelimit-reset": str(int(at + reset_in)),
        "x-ratelimit-resource": resource,
    }


def spend_many(budget: Budget, cost: Cost, count: int, *, every_s: float, at: float = NOW) -> Budget:
    for number in range(count):
        budget = budget.spend(cost, at + number * every_s)
    return budget


# The pause between two writes


def test_fresh_budget_lets_every_call_go() -> None:
    for cost in (READ, WRITE, COMMIT):
        assert Budget().delay(cost, NOW).seconds == 0.0
        assert Budget().delay(cost, NOW).reason == ""


def test_second_write_waits_for_the_pause_and_a_read_does_not() -> None:
    budget = Budget().spend(WRITE, NOW)

    assert budget.delay(WRITE, NOW + 0.25).seconds == 0.75
    assert budget.delay(COMMIT, NOW + 0.25).seconds == 0.75
    assert budget.delay(READ, NOW + 0.25).seconds == 0.0
    assert budget.delay(WRITE, NOW + 1).seconds == 0.0
    assert "pause between two writes" in budget.delay(WRITE, NOW).reason


# What no header shows


def test_content_a_minute_stays_below_the_limit_with_a_share_for_critical_ones() -> None:
    budget = Budget(UNHURRIED)
    sent = 0
    while not budget.delay(WRITE, NOW).seconds:
        budget, sent = budget.spend(WRITE, NOW), sent + 1

    assert sent == 68
    assert budget.delay(WRITE, NOW + 10).seconds == 50.0
    assert "this minute" in budget.delay(WRITE, NOW).reason
    while not budget.delay(WRITE, NOW, is_critical=True).seconds:
        budget, sent = budget.spend(WRITE, NOW), sent + 1
    assert sent == 72


def test_content_an_hour_stays_below_the_limit_with_a_share_for_critical_ones() -> None:
    budget = spend_many(Budget(), WRITE, 425, every_s=2)

    now = NOW + 850
    assert budget.delay(WRITE, now).seconds == NOW + 3600 - now
    assert "this hour" in budget.delay(WRITE, now).reason
    assert budget.delay(WRITE, now, is_critical=True).seconds == 0.0
    assert budget.room("core", now).content_hour == 0
    assert budget.room("core", now, is_critical=True).content_hour == 25
    assert budget.delay(WRITE, NOW + 3600).seconds == 0.0


def test_reads_create_no_content() -> None:
    budget = spend_many(Budget(), READ, 500, every_s=1)

    assert budget.room("core", NOW + 500).content_hour == 425


def test_points_a_minute_hold_reads_back_by_resource() -> None:
    budget = spend_many(Budget(), READ, 810, every_s=0.01)

    assert budget.delay(READ, NOW + 10).seconds > 40
    assert "points" in budget.delay(READ, NOW + 10).reason
    assert budget.delay(COMMIT, NOW + 10).seconds == 0.0


def test_mutation_costs_five_points() -> None:
    budget = spend_many(Budget(UNHURRIED._replace(content_per_minute=0)), WRITE, 162, every_s=0.01)

    assert budget.room("core", NOW + 2).points == 0


def test_server_without_content_limits_has_no_limits_of_ours() -> None:
    budget = spend_many(Budget(OPEN), WRITE, 2000, every_s=0)

    assert budget.delay(WRITE, NOW).seconds == 0.0
    assert budget.room("core", NOW).content_hour == inf


@pytest.mark.parametrize("limit", range(1, 12))
def test_even_a_tiny_limit_leaves_room_for_one_checkpoint_or_for_what_there_is(limit: int) -> None:
    capacity = Limits().capacity(limit, is_critical=False)

    assert min(limit, 3) <= capacity <= limit


# What the headers show


def test_last_calls_are_kept_for_critical_ones_and_the_rest_waits_for_the_reset() -> None:
    budget = Budget().observe(200, headers(50), NOW)

    assert budget.delay(READ, NOW).seconds == 1805.0
    assert "core calls" in budget.delay(READ, NOW).reason
    assert budget.delay(READ, NOW, is_critical=True).seconds == 0.0
    assert budget.delay(COMMIT, NOW).seconds == 0.0


def test_exhausted_calls_wait_for_the_reset_and_five_seconds() -> None:
    budget = Budget().observe(200, headers(0), NOW)

    assert budget.delay(READ, NOW, is_critical=True).seconds == 1805.0
    assert budget.delay(READ, NOW + 1804, is_critical=True).seconds == 1.0
    assert budget.delay(READ, NOW + 1805).seconds == 0.0


def test_passed_reset_restores_the_limit() -> None:
    budget = Budget().observe(200, headers(3), NOW)

    assert budget.remaining("core", NOW) == 3
    assert budget.remaining("core", NOW + 1800) == 5000
    assert budget.remaining("graphql", NOW) is None
    after = budget.spend(READ, NOW + 1900)
    assert after.remaining("core", NOW + 1901) == 4999


def test_each_call_counts_until_its_answer_says_more() -> None:
    budget = Budget().observe(200, headers(1000), NOW).spend(READ, NOW).spend(READ, NOW)

    assert budget.remaining("core", NOW) == 998
    assert budget.observe(200, headers(990), NOW).remaining("core", NOW) == 990


def test_resources_are_told_apart_by_their_header() -> None:
    budget = Budget().observe(200, headers(7, resource="graphql"), NOW, "core")

    assert budget.remaining("graphql", NOW) == 7
    assert budget.remaining("core", NOW) is None


def test_low_budget_begins_below_the_setting() -> None:
    assert Budget().observe(200, headers(99), NOW).is_low(NOW)
    assert not Budget().observe(200, headers(100), NOW).is_low(NOW)
    assert not Budget().is_low(NOW)


def test_token_of_an_actions_job_is_counted_before_the_first_answer() -> None:
    budget = spend_many(Budget(Limits(requests_per_hour=1000)), READ, 950, every_s=1)

    assert budget.remaining("core", NOW + 950) == 50
    assert budget.delay(READ, NOW + 950).seconds == NOW + 3600 + 5 - (NOW + 950)


@pytest.mark.parametrize(
    "broken",
    [{}, {"x-ratelimit-limit": "many"}, {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "1"}],
)
def test_headers_that_say_nothing_of_use_change_no_window(broken: dict[str, str]) -> None:
    assert Budget().observe(200, broken, NOW).quotas == {}


# What GitHub refuses


def test_primary_limit_stops_calls_of_any_kind_until_the_reset_and_five_seconds() -> None:
    budget = Budget().observe(403, headers(0), NOW).block("primary", 1800, "core", NOW, "limit exceeded")

    for cost in (READ, WRITE, Cost("graphql"), COMMIT):
        assert budget.delay(cost, NOW, is_critical=True).seconds == 1805.0
        assert budget.delay(cost, NOW + 1805).seconds == 0.0
        assert budget.delay(cost, NOW).reason == "limit exceeded"
        assert budget.delay(cost, NOW).kind == "primary"


def test_refusal_with_no_calls_left_stops_calls_of_any_kind_before_it_is_understood() -> None:
    budget = Budget().observe(403, headers(0, reset_in=20), NOW)

    for cost in (READ, WRITE, Cost("graphql"), COMMIT):
        assert budget.delay(cost, NOW, is_critical=True).seconds == 25.0
    assert not Budget().observe(200, headers(0, reset_in=20), NOW).delay(Cost("graphql"), NOW).seconds


def test_primary_limit_of_graphql_stops_graphql_alone() -> None:
    budget = Budget().block("primary", 100, "graphql", NOW)

    assert budget.delay(COMMIT, NOW).seconds == 100.0
    assert budget.delay(WRITE, NOW).seconds == 0.0


def test_primary_limit_without_any_time_waits_a_minute() -> None:
    assert Budget().block("primary", None, "core", NOW).delay(READ, NOW).seconds == 60.0


def test_primary_limit_without_a_wait_ends_by_the_reset_that_the_headers_name() -> None:
    budget = Budget().observe(403, headers(0, reset_in=20), NOW).block("primary", None, "core", NOW)

    assert budget.delay(READ, NOW).seconds == 25.0


def test_secondary_limit_waits_as_long_as_github_asks() -> None:
    budget = Budget().block("secondary", 17, "core", NOW)

    for cost in (READ, WRITE, COMMIT):
        assert budget.delay(cost, NOW).seconds == 17.0
        assert budget.delay(cost, NOW).kind == "secondary"
    assert budget.delay(READ, NOW + 17).seconds == 0.0


def test_secondary_limit_without_a_wait_doubles_from_a_minute_to_half_an_hour() -> None:
    budget, now, waits = Budget(), NOW, []
    for _ in range(8):
        budget = budget.block("secondary", None, "core", now)
        waits.append(budget.delay(READ, now).seconds)
        now += waits[-1]

    assert waits == [60, 120, 240, 480, 960, 1800, 1800, 1800]


def test_secondary_limit_that_comes_again_waits_longer_than_github_asks() -> None:
    budget = Budget().block("secondary", 60, "core", NOW).block("secondary", 60, "core", NOW + 60)

    assert budget.delay(READ, NOW + 60).seconds == 120.0


def test_strikes_are_forgotten_by_a_success_after_a_while() -> None:
    struck = Budget().block("secondary", None, "core", NOW)

    assert struck.observe(200, {}, NOW + 61).strikes == 1
    assert struck.observe(200, {}, NOW + 661).strikes == 0
    again = struck.block("secondary", None, "core", NOW + 700)
    assert again.delay(READ, NOW + 700).seconds == 60.0


def test_rate_is_halved_for_ten_minutes_after_a_secondary_limit() -> None:
    budget = Budget().block("secondary", 10, "core", NOW).spend(WRITE, NOW + 10)

    assert budget.delay(WRITE, NOW + 10).seconds == 2.0
    assert budget.content_capacity(NOW + 10)[0] == 32
    assert budget.spend(WRITE, NOW + 609).delay(WRITE, NOW + 609).seconds == 2.0
    assert budget.spend(WRITE, NOW + 611).delay(WRITE, NOW + 611).seconds == 1.0
    assert budget.content_capacity(NOW + 611)[0] == 68


def test_shorter_block_does_not_end_a_longer_one() -> None:
    budget = Budget().block("primary", 1000, "core", NOW).block("secondary", 60, "core", NOW)

    assert budget.delay(READ, NOW).seconds == 1000.0


def test_our_own_budget_blocks_nothing() -> None:
    assert Budget().block("own_budget", 1000, "core", NOW).delay(READ, NOW).seconds == 0.0


# Clocks


@pytest.mark.parametrize("skew", [-7200.0, 7200.0])
def test_skewed_local_clock_does_not_change_the_wait(skew: float) -> None:
    local = NOW + skew
    budget = Budget().observe(200, headers(0), local)

    assert budget.delay(READ, local).seconds == pytest.approx(1805, abs=2)
    assert budget.delay(READ, local + 1806).seconds == 0.0


def test_clock_that_jumps_back_does_not_make_waits_grow() -> None:
    blocked = Budget().observe(403, headers(0), NOW).block("primary", 1800, "core", NOW)

    assert blocked.delay(READ, NOW - 7200).seconds == 1805.0
    after = blocked.at(NOW - 7200)
    assert after.delay(READ, NOW - 7200 + 1000).seconds == 805.0
    assert after.delay(READ, NOW - 7200 + 1805).seconds == 0.0


def test_content_count_outlives_a_clock_that_jumps_back() -> None:
    budget = spend_many(Budget(), WRITE, 425, every_s=1)
    now = NOW + 424 - 7200

    after = budget.at(now)
    assert after.room("core", now).content_hour == 0
    assert after.delay(WRITE, now).seconds == 3600 - 424


# For people


def test_forecast_beyond_the_hour_goes_by_the_hourly_rate() -> None:
    budget = spend_many(Budget(), WRITE, 425, every_s=1)

    assert budget.seconds_for_content(425, NOW + 425) == 3599.0
    assert budget.seconds_for_content(850, NOW + 425) == 7199.0
    assert budget.seconds_for_content(0, NOW + 425) == 0.0


def test_forecast_within_a_minute_goes_by_its_limit() -> None:
    budget = spend_many(Budget(Limits(write_interval_s=0)), WRITE, 68, every_s=0)

    assert budget.seconds_for_content(3, NOW + 1) == 59.0
    assert budget.seconds_for_content(3, NOW + 1, is_critical=True) == 0.0


def test_calls_beyond_this_hour_and_the_next_take_until_the_one_after() -> None:
    budget = Budget().observe(200, headers(60), NOW)

    assert budget.seconds_for_calls(10, "core", NOW) == 0.0
    assert budget.seconds_for_calls(11, "core", NOW) == 1805.0
    assert budget.seconds_for_calls(60, "core", NOW, is_critical=True) == 0.0
    assert budget.seconds_for_calls(10 + 4950, "core", NOW) == 1805.0
    assert budget.seconds_for_calls(10 + 4951, "core", NOW) == 1805.0 + 3600.0
    assert budget.seconds_for_calls(99_999, "graphql", NOW) == 0.0


def test_a_wait_for_what_is_kept_back_says_for_whom() -> None:
    budget = Budget().observe(200, headers(51), NOW)

    wait = budget.delay_for(Need("core", requests=6), NOW)

    assert wait.reason == (
        "too few of this hour's core calls are left, but for those kept for critical checkpoints"
    )
    assert budget.delay_for(Need("core", requests=52), NOW, is_critical=True).reason == (
        "too few of this hour's core calls are left"
    )


def test_need_larger_than_a_whole_window_goes_right_after_the_reset() -> None:
    budget = Budget().observe(200, headers(2, limit=4), NOW)

    assert budget.delay_for(Need("core", requests=9), NOW).seconds == 1805.0
    assert budget.delay_for(Need("core", requests=9), NOW + 1805).seconds == 0.0
