"""`holdfast stats` tells what was saved, through the command alone."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from holdfast.cli.stats import draw_sparkline

from .conftest import GitHub, Holdfast


def count_commits(folder: Path) -> int:
    repository = folder / "github" / "holdfast" / "checkpoints.git"
    counting = ["git", "-C", str(repository), "rev-list", "--count", "checkpoints"]
    return int(subprocess.run(counting, check=True, capture_output=True, text=True).stdout)


@pytest.fixture
def saved(holdfast: Holdfast, github: GitHub) -> None:
    """Two runs on a GitHub: one with three checkpoints and a cost, one with a single one."""
    for number in range(3):
        state = f'{{"cost_accumulated": {number}.5, "text": "{"x" * 100 * number}"}}'
        submit = ("submit", "-", "--run-id", "a", "--trigger", "phase_complete", *github.options)
        assert holdfast(*submit, stdin=state).code == 0
    assert holdfast("submit", "-", "--run-id", "b", *github.options, stdin="{}").code == 0
    assert holdfast("drain", *github.options).code == 0


@pytest.mark.usefixtures("saved")
def test_one_run_by_its_folder_and_its_index(holdfast: Holdfast, github: GitHub) -> None:
    assert holdfast("resume", "a", *github.options).code == 0

    stats: dict[str, Any] = holdfast("stats", "a", "--json", *github.options).document

    assert stats["run_id"] == "a"
    assert stats["checkpoints"]["by_trigger"] == {"phase_complete": 3}
    assert stats["checkpoints"]["by_status"] == {"in_progress": 3}
    assert stats["checkpoints"]["by_progress"] == {"verified": 3}
    assert stats["sizes"]["counted"] == 3
    assert stats["sizes"]["largest_bytes"] > stats["sizes"]["median_bytes"]
    assert stats["verified_after"]["counted"] == 3
    assert stats["resumes"]["counted"] == 1
    assert stats["cost"] == 2.5
    # Three checkpoints, index.json and latest.json.
    assert stats["stored"]["files"] == 5
    assert stats["stored"]["bytes"] > 1000
    assert stats["savings"]["parts"] == 0


@pytest.mark.usefixtures("saved")
def test_all_runs_by_the_list_of_runs(holdfast: Holdfast, github: GitHub, tmp_path: Path) -> None:
    stats = holdfast("stats", "--json", *github.options).document

    assert (stats["runs"], stats["checkpoints"]["total"]) == (2, 4)
    assert stats["checkpoints"]["by_trigger"] == {"phase_complete": 3, "manual": 1}
    assert stats["stored"]["commits"] == count_commits(tmp_path)
    # Four checkpoints, and index.json and latest.json of both runs.
    assert (stats["stored"]["files"], stats["savings"]["parts"]) == (8, 0)
    assert stats["savings"]["bytes_saved"] is not None
    assert stats["sizes"]["growth"] is not None
    assert stats["cost"] == 2.5
    assert "cost: 1 of 2 runs record one that can be read here" in stats["unknown"]


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
@pytest.mark.parametrize("limit", ["MOST_COSTS", "MOST_COST_BYTES"])
def test_the_cost_of_too_many_runs_is_not_read(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch, limit: str
) -> None:
    monkeypatch.setattr(f"holdfast.stats.collection.{limit}", 1)

    stats = holdfast("stats", "--json", *github.options).document

    assert stats["cost"] is None
    assert any("cost: that of 2 runs takes too long" in sentence for sentence in stats["unknown"])


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
def test_the_cost_is_read_on_a_machine_that_has_seen_nothing(
    holdfast: Holdfast, github: GitHub, tmp_path: Path
) -> None:
    elsewhere = ("--data-dir", tmp_path / "elsewhere", *github.options)

    assert holdfast("stats", "--json", *elsewhere).document["cost"] == 2.5


@pytest.mark.parametrize("mode", ["contents", "commit"])
def test_nothing_stored_yet_is_no_trouble(holdfast: Holdfast, github: GitHub, mode: str) -> None:
    ended = holdfast("stats", "--write-mode", mode, *github.options)

    assert ended.code == 0
    assert "checkpoints     none" in ended.out
    assert "0 files, 0 commits" in ended.out
    assert "branch" not in ended.out


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
def test_a_review_and_a_listing_are_no_resumes(holdfast: Holdfast, github: GitHub) -> None:
    holdfast("list", "a", *github.options)
    holdfast("review", "a", "--decision", "continue", *github.options)

    assert holdfast("stats", "a", "--json", *github.options).document["resumes"]["counted"] == 0


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
def test_requests_are_bounded(holdfast: Holdfast, github: GitHub) -> None:
    before = len(github.emulator.journal)
    holdfast("stats", "a", "--json", *github.options)
    # The head, the folder and its parts; index.json and latest.json are known from the drain.
    assert len(github.emulator.journal) - before <= 5

    before = len(github.emulator.journal)
    holdfast("stats", "--json", *github.options)
    # The head, the list of runs, the repository, the commits, the list of files.
    assert len(github.emulator.journal) - before <= 8


@pytest.mark.slow
def test_what_only_waits_here_is_told_without_github(holdfast: Holdfast) -> None:
    away = ("--repo", "you/there", "--api-url", "http://127.0.0.1:9")
    assert holdfast("submit", "-", "--run-id", "a", *away, stdin='{"cost_accumulated": 3}').code == 0

    stats = holdfast("stats", "a", "--json", *away).document

    assert stats["checkpoints"]["by_progress"] == {"spooled": 1}
    assert stats["cost"] == 3
    assert (stats["stored"]["files"], stats["verified_after"]["median_s"]) == (None, None)
    assert any("GitHub could not be read" in sentence for sentence in stats["unknown"])


def test_a_run_that_nobody_knows_is_refused(holdfast: Holdfast, github: GitHub) -> None:
    ended = holdfast("stats", "nobody", *github.options)

    assert ended.code == 1
    assert "there is no run 'nobody'" in ended.err


def test_a_name_that_no_run_can_have_is_wrong_use(holdfast: Holdfast) -> None:
    assert holdfast("stats", "../x").code == 2


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
def test_people_see_bars_and_reasons(holdfast: Holdfast, github: GitHub) -> None:
    shown = holdfast("stats", *github.options).out

    assert "phase_complete  ████████████████████████ 3" in shown
    assert "manual          ████████ 1" in shown
    assert "0 plans asked for on this machine" in shown
    assert "not known: cost: 1 of 2 runs record one" in shown


@pytest.mark.slow
@pytest.mark.usefixtures("saved")
def test_bars_are_shorter_where_there_is_little_room(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("COLUMNS", "46")

    assert "phase_complete  ██████ 3\n" in holdfast("stats", *github.options).out


def test_a_sparkline_shows_the_smallest_and_the_largest() -> None:
    assert draw_sparkline([0, 1, 8]) == " ▁█"
    assert draw_sparkline([0, 0]) == ""
