"""Replicas under load die by SIGKILL, most often the one that drains; `scripts/soak` does more of it."""

from pathlib import Path

import pytest

from tests.fakes.postgres import postgres_url
from tests.soak.replica_kills import TAKE_OVER_S, kill_replicas

KILLS = 2


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_acknowledged_is_lost_doubled_or_out_of_order_when_replicas_are_killed(
    tmp_path: Path,
) -> None:
    result = kill_replicas(tmp_path, postgres_url(tmp_path), KILLS, seed=1)

    assert result.kills == KILLS
    assert result.acknowledged
    assert all(seconds < TAKE_OVER_S for seconds in result.take_overs)
