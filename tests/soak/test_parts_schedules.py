"""A dozen of the random schedules with members that are stored once, always the same ones."""

import pytest

from tests.soak.parts import play_parts


@pytest.mark.parametrize("seed", range(12))
def test_every_kept_checkpoint_is_whole_and_no_part_is_left_over(seed: int) -> None:
    assert play_parts(seed) > 0
