"""A quick share of the random schedules of cleanup, always the same ones."""

from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, Phase, given, seed, settings

from tests.soak.cleaning import Cleaning, Seen, cleanings, play_cleaning

MEMORY = Path("/dev/shm")
SHARES = 4
PLAYS = 12


def play_share(number: int, plays: int) -> Seen:
    """Play `plays` schedules that follow from the seed `number`, and return what they had in them."""
    seen = Seen()

    @seed(number)
    @settings(
        max_examples=plays,
        database=None,
        deadline=None,
        phases=[Phase.generate, Phase.shrink],
        suppress_health_check=list(HealthCheck),
        report_multiple_bugs=False,
    )
    @given(cleanings())
    def play_each(cleaning: Cleaning) -> None:
        nonlocal seen
        with TemporaryDirectory(dir=MEMORY if MEMORY.is_dir() else None) as folder:
            seen += play_cleaning(cleaning, Path(folder))

    play_each()
    return seen


@pytest.mark.parametrize("number", range(SHARES))
def test_nothing_protected_is_ever_gone(number: int) -> None:
    seen = play_share(number, PLAYS)

    assert seen.schedules == PLAYS
    assert seen.sweeps
