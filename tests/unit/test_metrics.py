"""What is counted, and what a scrape looks like."""

from holdfast.errors import Conflict, SpoolUnwritable, Unavailable
from holdfast.metrics import Metrics

STATUS = {
    "spool": {"depth": 3, "bytes": 4096, "oldest_age_s": 1.5, "set_aside": 1},
    "last_error": None,
    "disk_free_bytes": 1,
    "budget": {"last_remaining": 4321, "content_left_minute": None, "content_left_hour": 17},
}


def values_of(metrics: Metrics) -> dict[str, float]:
    lines = [line for line in metrics.render().decode().splitlines() if not line.startswith("#")]
    return {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}


def test_a_scrape_shows_the_spool_and_the_limits_that_there_are() -> None:
    values = values_of(Metrics(lambda: STATUS))

    assert values["holdfast_spool_depth"] == 3
    assert values["holdfast_spool_bytes"] == 4096
    assert values["holdfast_spool_oldest_age_seconds"] == 1.5
    assert values["holdfast_spool_set_aside"] == 1
    assert values['holdfast_budget_left{limit="requests"}'] == 4321
    assert values['holdfast_budget_left{limit="content_hour"}'] == 17
    assert 'holdfast_budget_left{limit="content_minute"}' not in values


def test_a_spool_that_cannot_be_read_does_not_hide_the_rest() -> None:
    def look() -> dict[str, object]:
        raise SpoolUnwritable("gone")

    metrics = Metrics(look)
    metrics.verified.inc(2)

    values = values_of(metrics)

    assert values["holdfast_verified_total"] == 2
    assert "holdfast_spool_depth" not in values


def test_calls_are_counted_by_how_they_ended() -> None:
    metrics = Metrics(lambda: STATUS)
    conflict = Conflict("a", "someone wrote first", "stale_file")

    metrics.request_answered("WriteFile", 409)
    metrics.call_performed(0.2, is_mutation=True, error=conflict)
    metrics.call_performed(0.1, is_mutation=False, error=Unavailable("a", "no answer"))
    metrics.call_repeated()

    values = values_of(metrics)
    assert values['holdfast_github_requests_total{endpoint="WriteFile",status="409"}'] == 1
    assert values["holdfast_conflicts_total"] == 1
    assert values["holdfast_github_unavailable_total"] == 1
    assert values["holdfast_github_write_seconds_count"] == 1
    assert values["holdfast_retries_total"] == 1
