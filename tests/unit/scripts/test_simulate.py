"""The simulation of scaling: the same each time, and within the limits."""

from itertools import pairwise

import pytest
import simulate


@pytest.mark.slow
def test_an_hour_comes_out_the_same_each_time_and_nothing_is_refused() -> None:
    outcome = simulate.play(1_000, 1, "commit", seed=1)

    assert outcome.refused == 0
    assert outcome.left < 100
    assert outcome.deepest > 400  # the outage
    assert outcome.row == simulate.play(1_000, 1, "commit", seed=1).row


@pytest.mark.slow
def test_an_outage_is_noticed_by_a_request_and_then_asked_about_every_half_a_minute() -> None:
    outcome = simulate.play(1_000, 1, "commit", seed=1)

    begin, end = simulate.OUTAGE_S
    failures = outcome.failures
    pauses = [after - before for before, after in pairwise(failures)]
    assert begin < failures[0] < begin + 60
    assert end - 31 < failures[-1] < end
    assert all(pause < 2.0 ** (number + 1) + 1 for number, pause in enumerate(pauses[:4]))
    assert all(30 <= pause < 31 for pause in pauses[4:])


@pytest.mark.slow
def test_picture_shows_every_case_and_the_outage() -> None:
    outcome = simulate.play(1_000, 1, "commit", seed=1)

    picture = simulate.draw([outcome, outcome])

    assert picture.count("<polyline") == picture.count('class="away"') == 2
    assert "1,000 an hour" in picture
