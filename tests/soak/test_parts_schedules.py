"""A dozen of the random schedules with members that are stored once, always the same ones."""

import pytest

from tests.soak.parts import play_parts


# In the last two, someone deletes a segment of the index behind the back of a writer.
@pytest.mark.parametrize("seed", [*range(12), 910014, 920459])
def test_every_kept_checkpoint_is_whole_and_no_part_is_left_over(seed: int) -> None:
    assert play_parts(seed) > 0
