"""Two budgets that went on apart become one that leaves no more than is left of both."""

from dataclasses import replace

import pytest

from holdfast.ratelimit.budget import Block, Budget
from holdfast.ratelimit.clock_skew import ClockSkew
from holdfast.ratelimit.limits import Cost, Quota
from holdfast.ratelimit.reunion import reunite
from holdfast.ratelimit.window import MOST_ENTRIES, SlidingWindow

NOW = 10_000.0
WRITE = Cost(is_mutation=True, creates_content=True)


def spend(budget: Budget, *moments: float) -> Budget:
    for moment in moments:
        budget = budget.spend(WRITE, moment)
    return budget


def test_what_both_spent_counts_once_each() -> None:
    before = spend(Budget(), NOW - 20, NOW - 10)
    shared, apart = spend(before, NOW - 9, NOW - 4.2), spend(before, NOW - 9.5, NOW - 4.1, NOW - 1)

    whole = reunite(shared, before, apart, NOW)

    assert whole.content_spent(NOW) == whole.calls_this_run == 7
    assert [whole.content_spent(NOW, span_s) for span_s in (3.0, 6.0, 9.2, 15.0)] == [1, 3, 4, 6]
    assert whole.room("core", NOW).points == Budget().room("core", NOW).points - 7 * WRITE.points
    assert whole.last_mutation_at == NOW - 1


def test_nothing_changes_where_nothing_happened() -> None:
    before = spend(Budget(), NOW - 20)
    shared = spend(before, NOW - 5)

    assert reunite(shared, before, before, NOW) == shared


def test_times_of_one_that_was_alone_are_those_of_the_others_afterwards() -> None:
    shared = replace(Budget(), clock_skew=ClockSkew(shift_s=500.0))
    apart = Budget(blocks={"all": Block(NOW + 60, "secondary", "slow down")}, slow_until=NOW + 90)

    whole = reunite(shared, Budget(), spend(apart, NOW - 5), NOW)

    assert whole.last_mutation_at == NOW + 495
    assert whole.delay(WRITE, NOW).seconds == 60
    assert whole.is_slow(NOW + 89)
    assert not whole.is_slow(NOW + 91)


@pytest.mark.parametrize(
    ("shared", "apart", "left"),
    [
        (Quota(5000, 90, 4910, NOW + 60), Quota(5000, 40, 4960, NOW + 60), 40),
        (Quota(5000, 40, 4960, NOW + 60), Quota(5000, 90, 4910, NOW + 61), 40),
        (Quota(5000, 40, 4960, NOW + 60), Quota(5000, 4990, 10, NOW + 3660), 4990),
        (Quota(5000, 4990, 10, NOW + 3660), Quota(5000, 40, 4960, NOW + 60), 4990),
        (None, Quota(5000, 40, 4960, NOW + 60), 40),
    ],
)
def test_of_two_quotas_the_later_hour_counts_and_in_it_the_lower(
    shared: Quota | None, apart: Quota, left: int
) -> None:
    known = Budget(quotas={"core": shared} if shared else {})

    assert reunite(known, Budget(), Budget(quotas={"core": apart}), NOW).remaining("core", NOW) == left


def test_quota_of_which_nothing_was_heard_meanwhile_is_that_of_the_others() -> None:
    old = Budget(quotas={"core": Quota(5000, 40, 4960, NOW + 60)})
    shared = Budget(quotas={"core": Quota(5000, 60, 4940, NOW + 60)})

    assert reunite(shared, old, old, NOW).remaining("core", NOW) == 60


def test_count_that_was_begun_anew_meanwhile_is_added_as_it_is() -> None:
    before = spend(Budget(), NOW - 20, NOW - 10)
    apart = spend(replace(before, calls_this_run=0), NOW - 5)

    assert reunite(before, before, apart, NOW).calls_this_run == 3


def test_window_of_many_stays_bounded_and_counts_all() -> None:
    one = SlidingWindow(10_000.0, tuple((float(second), 1) for second in range(MOST_ENTRIES)))
    other = tuple((second + 0.5 + MOST_ENTRIES, 1) for second in range(MOST_ENTRIES))

    joined = one.joined_with(other)

    assert len(joined.entries) <= MOST_ENTRIES
    assert joined.total(1_200.0) == 2 * MOST_ENTRIES
    assert list(joined.entries) == sorted(joined.entries)
