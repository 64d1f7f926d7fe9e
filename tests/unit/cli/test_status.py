import os
from pathlib import Path

import pytest

from holdfast.emulator import parse_fault

from .conftest import GitHub, Holdfast


def test_with_nothing_there_nothing_is_made(holdfast: Holdfast, data_dir: Path) -> None:
    ended = holdfast("status", "--json")

    assert ended.code == 0
    assert not data_dir.exists()
    assert ended.document["spool"]["depth"] == ended.document["spool"]["bytes"] == 0
    assert ended.document["budget"]["last_remaining"] is None
    assert ended.document["last_error"] is None


@pytest.mark.slow
def test_an_empty_and_a_used_spool_are_told_in_the_same_shape(holdfast: Holdfast) -> None:
    before = holdfast("status", "--json").document
    holdfast("submit", "-", "--run-id", "r", "--wait", stdin="{}")
    after = holdfast("status", "--json").document

    assert before.keys() == after.keys()
    assert before["spool"].keys() == after["spool"].keys()
    assert before["budget"].keys() == after["budget"].keys()


def test_what_waits_is_counted(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", stdin="{}")
    holdfast("submit", "-", "--run-id", "r", stdin="{}")

    spool = holdfast("status", "--json").document["spool"]

    assert spool["depth"] == 2
    assert spool["bytes"] > 400
    assert spool["oldest_age_s"] >= 0
    assert spool["set_aside"] == 0


def test_why_saves_are_refused_is_told(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    holdfast("submit", "-", "--run-id", "r", stdin="{}")
    assert "refuses" not in holdfast("status").out
    monkeypatch.setenv("HOLDFAST_MAX_SPOOL_ITEMS", "1")

    ended = holdfast("status")

    assert ended.code == 0
    assert "refuses     new checkpoints: the spool holds 1" in ended.out


def test_status_does_not_talk_to_github(holdfast: Holdfast, github: GitHub) -> None:
    holdfast("submit", "-", "--run-id", "r", *github.options, stdin="{}")

    ended = holdfast("status", *github.options)

    assert ended.code == 0
    assert len(github.emulator.journal) == 0
    assert "GitHub has not been asked yet" in ended.out


@pytest.mark.slow
def test_the_budget_is_told_after_a_drain(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", stdin="{}")
    calls = holdfast("drain", "--json").document["calls"]

    budget = holdfast("status", "--json").document["budget"]

    assert budget["last_remaining"] < 5000
    assert budget["last_reset"] > 1_700_000_000
    assert budget["calls_this_run"] == calls
    assert f"{budget['last_remaining']:,} of 5,000 calls left until" in holdfast("status").out


def test_people_see_depth_size_and_age(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", stdin="{}")

    out = holdfast("status").out

    assert "spool       1 checkpoint, " in out
    assert "the oldest waits for " in out
    assert "forecast" not in out  # there are no limits to make one from
    assert "(the embedded GitHub)" in out
    assert "last error  none" in out


@pytest.mark.slow
def test_the_reason_of_what_is_set_aside_is_told(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.switch(secret_marker="hunter2")
    holdfast("submit", "-", "--run-id", "r", *github.options, stdin='{"password": "hunter2"}')
    holdfast("drain", *github.options)

    document = holdfast("status", "--json", *github.options).document
    out = holdfast("status", *github.options).out

    assert document["spool"]["set_aside"] == 1
    assert document["set_aside"][0]["run_id"] == "r"
    assert "set aside   1 checkpoint" in out
    assert document["set_aside"][0]["reason"] in out
    assert "holdfast spool restore" in out
    assert ".." not in document["set_aside"][0]["reason"]


@pytest.mark.slow
def test_the_last_error_is_told(holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "a-wrong-token")
    holdfast("submit", "-", "--run-id", "r", *github.options, stdin="{}")
    holdfast("drain", *github.options)

    document = holdfast("status", "--json", *github.options).document

    out = holdfast("status", *github.options).out
    assert "HOLDFAST_TOKEN" in document["last_error"]
    assert document["last_error"] in out
    assert document["budget"]["drain_forecast_s"] is None
    assert document["next_try"]["because"] == document["last_error"]
    assert 0 < document["next_try"]["in_s"] <= 60
    assert "forecast    not known" in out
    assert "next try    in " in out
    assert "holdfast drain makes one at once" in out


@pytest.mark.slow
def test_a_limit_that_github_named_is_told_with_its_end(holdfast: Holdfast, github: GitHub) -> None:
    github.emulator.faults.add(parse_fault("any:secondary=120"))
    holdfast("submit", "-", "--run-id", "r", *github.options, stdin="{}")
    assert holdfast("drain", *github.options).code == 75

    document = holdfast("status", "--json", *github.options).document

    out = holdfast("status", *github.options).out
    assert document["budget"]["blocked_until"] is not None
    assert 0 < document["next_try"]["in_s"] <= 120
    assert document["budget"]["drain_forecast_s"] < 180
    assert "no calls before " in out
    assert document["next_try"]["because"] in out


def test_checkpoints_that_wait_for_another_repository_are_named(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", "--repo", "acme/old-state", stdin="{}")

    document = holdfast("status", "--json", "--repo", "acme/new").document
    out = holdfast("status", "--repo", "acme/new").out

    (other,) = document["other_targets"]
    assert (other["repository"], other["depth"]) == ("acme/old-state", 1)
    assert "elsewhere   1 checkpoint for acme/old-state, in " in out


def test_a_target_that_is_drained_is_not_named(holdfast: Holdfast) -> None:
    holdfast("submit", "-", "--run-id", "r", "--wait", stdin="{}")

    assert holdfast("status", "--json", "--repo", "acme/new").document["other_targets"] == []


def test_a_spool_that_cannot_be_opened_is_named(holdfast: Holdfast, data_dir: Path) -> None:
    broken = data_dir / "targets" / "acme--old-01234567" / "spool"
    broken.mkdir(parents=True)
    (broken / "queue").write_text("not a folder")

    ended = holdfast("status")

    assert ended.code == 0
    assert "the spool for acme/old cannot be opened" in ended.out


def test_a_data_folder_that_cannot_be_used_is_told(holdfast: Holdfast, data_dir: Path) -> None:
    data_dir.write_bytes(b"a file")

    ended = holdfast("status")

    assert (ended.code, ended.out) == (1, "")
    assert f"{data_dir} is not a folder" in ended.err


@pytest.mark.skipif(os.geteuid() == 0, reason="root may write anywhere")
def test_a_data_folder_that_may_not_be_written_to_is_told(holdfast: Holdfast, data_dir: Path) -> None:
    data_dir.mkdir(mode=0o500)

    ended = holdfast("status")

    assert (ended.code, "may not be written to" in ended.err) == (1, True)
