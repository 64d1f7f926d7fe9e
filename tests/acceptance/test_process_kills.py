"""Processes under load die by SIGKILL at random moments; `scripts/soak` does the same some hundred times."""

from pathlib import Path

import pytest

from tests.soak.kills import kill_often

KILLS = 12


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_nothing_acknowledged_is_lost_or_doubled_when_processes_are_killed_at_random(tmp_path: Path) -> None:
    survived = kill_often(tmp_path, KILLS, seed=1)

    assert survived.kills == KILLS
    assert survived.acknowledged
