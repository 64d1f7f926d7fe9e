from email.utils import formatdate

from holdfast.ratelimit.budget import Budget
from holdfast.ratelimit.limits import Cost, Limits
from holdfast.ratelimit.report import report_budget

NOW = 1_800_000_000.0
WRITE = Cost("core", is_mutation=True, creates_content=True)
OPEN = Limits(write_interval_s=0, content_per_minute=0, content_per_hour=0)


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
