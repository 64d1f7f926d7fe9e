"""What the templates make of what they are given."""

from typing import Any

import pytest

from holdfast.sidecar.dashboard.drawings import Gauge, draw_line
from holdfast.sidecar.dashboard.rendering import HEADERS, render

SPOOL = {"depth": 1200, "bytes": 5_000_000, "oldest_age_s": 90.0, "set_aside": 0}


def overview(*, is_shared: bool = False, **changes: Any) -> str:
    status = {
        "spool": SPOOL,
        "budget": {"blocked_until": None},
        **dict.fromkeys(("last_error", "saves_refused", "next_try", "drained_by", "set_aside", "shards")),
        **changes,
    }
    values: dict[str, Any] = {
        "status": status,
        "depth": draw_line([(0.0, 3.0), (5.0, 1.0)]),
        "is_shared": is_shared,
        "rate": 12.34,
        "reviews": [],
        "reviews_unknown": "",
    }
    gauges = [Gauge("calls this hour", 17, 5000, 1_800_000_000.0)]
    return render("overview_now.html", {**values, "review_count": 0, "gauges": gauges})


def test_the_overview_has_the_spool_its_rate_and_the_budget_with_its_reset() -> None:
    text = overview()

    for told in ("<dd>1,200</dd>", "<dd>12.3</dd>", "17 of 5,000 left", 'datetime="2027-01-15T08:00:00Z"'):
        assert told in text
    assert "No run waits for a person." in text
    assert "Nothing reaches GitHub" not in text


def test_the_chart_of_a_shared_queue_is_said_to_be_what_this_replica_saw() -> None:
    assert "Waiting, over the last hour: 1 now, 3 at most" in overview()
    assert "Waiting, over the last hour, as this replica saw it: 1 now, 3 at most" in overview(is_shared=True)


def test_an_outage_is_told_with_what_to_do_and_when_the_next_try_is() -> None:
    advice = "the token is refused (401): give a new one"
    text = overview(last_error=advice, next_try={"at": 1_800_000_000.0})

    assert advice in text
    assert 'Next try: <time datetime="2027-01-15T08:00:00Z"' in text


def test_why_new_checkpoints_are_refused_is_told() -> None:
    text = overview(saves_refused="the disk has 0 bytes left")

    assert "New checkpoints are refused" in text
    assert "the disk has 0 bytes left" in text


def test_what_is_set_aside_is_told_with_its_reason() -> None:
    aside = [{"run_id": "build-1", "sequence_number": 3, "reason": "a secret was found"}]
    text = overview(set_aside=aside, spool={**SPOOL, "set_aside": 1})

    assert '<a href="/ui/runs/build-1">build-1</a> #3: a secret was found' in text


@pytest.mark.parametrize("allowed", ["unsafe-inline", "unsafe-eval", "*", "data:", "http:"])
def test_no_page_may_run_anything_but_our_own_files(allowed: str) -> None:
    policy = HEADERS["Content-Security-Policy"]

    assert policy.startswith("default-src 'none';")
    assert "script-src 'self';" in policy
    assert allowed not in policy
