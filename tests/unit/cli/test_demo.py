from pathlib import Path

import pytest

from holdfast.cli.demo import processes, show

from .conftest import Holdfast


@pytest.fixture
def no_crash(monkeypatch: pytest.MonkeyPatch) -> None:
    """The child process is left out: it costs seconds, and tests/acceptance has it."""
    monkeypatch.setattr(show, "CRASH_CHECKPOINTS", 2)
    monkeypatch.setattr(show, "kill_while_draining", lambda *_, **__: True)


@pytest.mark.slow
@pytest.mark.usefixtures("no_crash")
def test_every_promise_is_checked_and_summed_up(holdfast: Holdfast, tmp_path: Path) -> None:
    ended = holdfast("demo", "--json", "--data-dir", tmp_path / "demo")

    assert ended.code == 0
    assert ended.document["ok"] is True
    assert ended.document["data_dir"] == str(tmp_path / "demo")
    assert ended.document["saved"] == ended.document["drained"] == 5
    assert ended.document["requests"] > 0
    assert len(ended.document["promises"]) == 8
    assert all(promise["ok"] for promise in ended.document["promises"])


@pytest.mark.slow
@pytest.mark.usefixtures("no_crash")
def test_people_can_follow_it_and_try_the_commands(holdfast: Holdfast, tmp_path: Path) -> None:
    ended = holdfast("demo", "--data-dir", tmp_path / "demo")

    assert ended.code == 0
    assert "\x1b" not in ended.out
    assert "circuit_breaker" in ended.out
    assert f"git --git-dir {tmp_path}/demo/github/holdfast/checkpoints.git log" in ended.out
    assert " ms\n" in ended.out
    assert "All 8 promises were checked and kept" in ended.out
    assert f"holdfast show mine --data-dir {tmp_path / 'demo'}" in ended.out


@pytest.mark.slow
@pytest.mark.usefixtures("no_crash")
def test_it_can_run_twice_in_one_folder(holdfast: Holdfast, tmp_path: Path) -> None:
    codes = [holdfast("demo", "--json", "--data-dir", tmp_path / "demo").code for _ in range(2)]

    assert codes == [0, 0]


@pytest.mark.slow
@pytest.mark.usefixtures("no_crash")
def test_the_environment_does_not_reach_it(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_REPO", "acme/precious")
    monkeypatch.setenv("HOLDFAST_TOKEN", "a-real-token")

    ended = holdfast("demo", "--json", "--data-dir", tmp_path / "demo")

    assert ended.code == 0
    assert [path.name[:9] for path in (tmp_path / "demo" / "targets").iterdir()] == ["embedded-"]


@pytest.mark.slow
@pytest.mark.usefixtures("no_crash")
def test_a_broken_promise_fails_it(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(show, "_all_read_back", lambda *_: False)

    ended = holdfast("demo", "--data-dir", tmp_path / "demo")

    assert ended.code == 1
    assert "✗ what is read back is what was saved" in ended.out
    assert "NOT as promised: what is read back is what was saved" in ended.out


@pytest.mark.parametrize("option", ["--repo=acme/state", "--api-url=https://github.example.com"])
def test_it_refuses_a_real_repository(holdfast: Holdfast, option: str) -> None:
    ended = holdfast("demo", option)

    assert ended.code == 2
    assert "the embedded GitHub alone" in ended.err


@pytest.mark.slow
def test_without_git_it_says_so(holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))

    ended = holdfast("demo", "--data-dir", tmp_path / "demo")

    assert ended.code == 1
    assert "git, which is not installed" in ended.err


@pytest.mark.slow
def test_a_child_that_ends_by_itself_was_not_killed(tmp_path: Path) -> None:
    """With an empty spool there is nothing to drain, so that the child is done before any commit."""
    is_killed = processes.kill_while_draining(
        tmp_path / "data", tmp_path / "no-branch", write_mode="contents"
    )

    assert is_killed is False
