from email.utils import formatdate

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits
from holdfast.ratelimit.record import format_budget, parse_budget, report_budget

NOW = 1_800_000_000.0
WRITE = Cost("core", is_mutation=True, creates_content=True)
OPEN = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)


def busy_budget() -> Budget:
    budget = Budget(Limits(low_budget=7)).block("secondary", None, "core", NOW, "too fast")
    for number in range(500):
        cost = Cost("core", is_mutation=number % 2 == 0, creates_content=number % 2 == 0)
        budget = budget.spend(cost, NOW + number * 3)
    rate = {"x-ratelimit-limit": "5000", "x-ratelimit-remaining": "3", "x-ratelimit-reset": "1800000900"}
    return budget.observe(200, rate, NOW + 1500)


def test_budget_comes_back_as_it_was() -> None:
    for budget in (Budget(), busy_budget()):
        assert parse_budget(format_budget(budget), budget.limits) == budget


def test_limits_are_settings_and_are_not_stored() -> None:
    restored = parse_budget(format_budget(busy_budget()), Limits(low_budget=1))

    assert restored.limits == Limits(low_budget=1)


def test_record_stays_small() -> None:
    assert len(format_budget(busy_budget())) < 16_000


@pytest.mark.parametrize(
    "damaged",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"format_version": 2}',
        b'{"format_version": 1}',
        orjson.dumps(orjson.loads(format_budget(busy_budget())) | {"blocks": {"all": [1, "unknown", ""]}}),
        orjson.dumps(orjson.loads(format_budget(busy_budget())) | {"windows": {"core": ["a", 1, 1, 1]}}),
        orjson.dumps(orjson.loads(format_budget(busy_budget())) | {"content": 5}),
    ],
)
def test_damaged_or_unknown_record_is_a_fresh_budget(damaged: bytes) -> None:
    assert parse_budget(damaged, Limits()) == Budget(Limits())


anything = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**53), 2**53) | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
stored = orjson.loads(format_budget(busy_budget()))


@pytest.mark.slow
@given(st.dictionaries(st.sampled_from(sorted(stored)), anything, min_size=1))
def test_whatever_is_in_the_record_the_budget_can_be_used(changed: dict[str, object]) -> None:
    raw = orjson.dumps(stored | changed)

    budget = parse_budget(raw, Limits())

    assert budget.delay(Cost(), NOW).seconds >= 0
    assert budget.spend(Cost(), NOW).calls_this_run == budget.calls_this_run + 1


@given(st.binary())
def test_no_bytes_at_all_make_it_fail(raw: bytes) -> None:
    assert parse_budget(raw, Limits()).limits == Limits()


# As status shows it


def headers(remaining: int) -> dict[str, str]:
    return {
        "date": formatdate(NOW, usegmt=True),
        "x-ratelimit-limit": "5000",
        "x-ratelimit-remaining": str(remaining),
        "x-ratelimit-reset": str(int(NOW + 1800)),
    }


def test_report_names_what_the_specification_names() -> None:
    budget = Budget()
    for number in range(10):
        budget = budget.spend(WRITE, NOW + 10 * number)
    budget = budget.observe(200, headers(4321), NOW + 100)

    report = report_budget(budget, NOW + 100, spool_depth=7, drain_forecast_s=3.04)

    assert report["last_remaining"] == 4321
    assert report["last_reset"] == int(NOW) + 1800
    assert report["calls_this_run"] == 10
    assert report["blocked_until"] is None
    assert report["content_used_minute"] == 5
    assert report["content_used_hour"] == 10
    assert report["content_left_hour"] == 440
    assert report["spool_depth"] == 7
    assert report["drain_forecast_s"] == 3.0


def test_report_tells_moments_by_the_local_clock() -> None:
    skewed = NOW - 7200
    budget = Budget().observe(200, headers(10), skewed).block("secondary", 90, "core", skewed, "too fast")

    report = report_budget(budget, skewed, drain_forecast_s=None)

    assert report["blocked_until"] == skewed + 90
    assert report["blocked_because"] == "too fast"
    assert (report["last_reset"], report["resets_at"]) == (int(NOW) + 1800, skewed + 1800)
    assert report["drain_forecast_s"] is None


def test_report_before_the_first_answer_and_without_limits_is_empty_not_wrong() -> None:
    report = report_budget(Budget(OPEN), NOW)

    assert report["last_remaining"] is None
    assert report["last_reset"] is None
    assert report["content_left_hour"] is None
    assert report["drain_forecast_s"] == 0.0
