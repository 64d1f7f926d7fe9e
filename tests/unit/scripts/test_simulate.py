"""The simulation of scaling: the same each time, and within the limits."""

import simulate


def test_an_hour_comes_out_the_same_each_time_and_nothing_is_refused() -> None:
    outcome = simulate.play(1_000, 1, "commit", seed=1)

    assert outcome.refused == 0
    assert outcome.left < 100
    assert outcome.deepest > 400  # the outage
    assert outcome.row == simulate.play(1_000, 1, "commit", seed=1).row


def test_picture_shows_every_case_and_the_outage() -> None:
    outcome = simulate.play(1_000, 1, "commit", seed=1)

    picture = simulate.draw([outcome, outcome])

    assert picture.count("<polyline") == picture.count('class="away"') == 2
    assert "1,000 an hour" in picture


def test_new_installation_takes_runs_from_all_and_the_others_stay() -> None:
    runs = [f"run-{number}" for number in range(2_000)]
    before = {run_id: simulate.choose_installation(run_id, 4) for run_id in runs}
    after = {run_id: simulate.choose_installation(run_id, 5) for run_id in runs}

    moved = [run_id for run_id in runs if before[run_id] != after[run_id]]
    assert {after[run_id] for run_id in moved} == {4}
    assert {before[run_id] for run_id in moved} == {0, 1, 2, 3}
    assert 300 < len(moved) < 500
