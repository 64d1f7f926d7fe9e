"""A few of the schedules of machines whose clocks are apart, always the same ones."""

import pytest

from tests.soak.limits import LIMIT, play_limits


@pytest.mark.parametrize("seed", [3, 6])
def test_no_run_holds_more_than_its_limit_after_a_last_clean_up(seed: int) -> None:
    assert 0 < play_limits(seed).most_after <= LIMIT
