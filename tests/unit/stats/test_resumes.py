"""Resumes are counted by any process, for a while, and never in anyone's way."""

from pathlib import Path

import pytest

from holdfast.stats import resumes
from holdfast.stats.resumes import count_resume, read_resumes


def test_resumes_are_counted_by_run_and_in_all(tmp_path: Path) -> None:
    for run_id in ("a", "b", "a"):
        count_resume(tmp_path, run_id, 60.0)

    assert read_resumes(tmp_path, "a").counted == 2
    assert read_resumes(tmp_path).counted == 3
    assert read_resumes(tmp_path).since == "1970-01-01T00:01:00.000Z"


def test_nothing_is_counted_where_nothing_can_be_written(tmp_path: Path) -> None:
    count_resume(tmp_path / "missing", "a", 0.0)

    assert read_resumes(tmp_path / "missing") == read_resumes(tmp_path)
    assert read_resumes(tmp_path).counted == 0


def test_the_file_does_not_grow_for_ever(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resumes, "MOST_BYTES", 100)
    for number in range(100):
        count_resume(tmp_path, "a", float(number))

    assert sum(file.stat().st_size for file in tmp_path.iterdir()) < 300
    counted = read_resumes(tmp_path)
    assert 0 < counted.counted < 100
    assert counted.since is not None
    assert counted.since > "1970-01-01T00:01:20"


def test_a_line_that_was_cut_is_passed_over(tmp_path: Path) -> None:
    count_resume(tmp_path, "a", 0.0)
    with (tmp_path / "resumes.log").open("a") as file:
        file.write("1970-01-01T00:")

    assert read_resumes(tmp_path).counted == 1
