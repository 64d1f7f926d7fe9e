import pytest

from holdfast.ratelimit.limits import Quota, parse_quota

NOW = 1_800_000_000.0
QUOTA = Quota(limit=5000, remaining=3, used=4997, reset_at=NOW)


def test_reset_restores_the_calls_at_once_and_reliably_after_its_grace() -> None:
    assert (QUOTA.remaining_at(NOW - 1), QUOTA.remaining_at(NOW)) == (3, 5000)
    assert (QUOTA.reliable_at(NOW + 4.9), QUOTA.reliable_at(NOW + 5)) == (3, 5000)


def test_call_takes_one_but_never_below_nothing() -> None:
    assert QUOTA.less_one() == Quota(limit=5000, remaining=2, used=4998, reset_at=NOW)
    assert Quota(1, 0, 1, NOW).less_one().remaining == 0


@pytest.mark.parametrize(
    "headers",
    [{}, {"x-ratelimit-limit": "many"}, {"x-ratelimit-limit": "60", "x-ratelimit-remaining": "1"}],
)
def test_headers_that_say_nothing_of_use_are_no_quota(headers: dict[str, str]) -> None:
    assert parse_quota(headers) is None
