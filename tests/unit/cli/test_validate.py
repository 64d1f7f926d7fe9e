"""`holdfast validate`: a file or a run, in order or not, for people and for programs."""

import json
from pathlib import Path

import pytest

from tests.fakes.stored_runs import make_envelope

from .conftest import GitHub, Holdfast

SOUND = make_envelope("r", 1).content


@pytest.fixture
def file(tmp_path: Path) -> Path:
    path = tmp_path / "cp.json"
    path.write_bytes(SOUND)
    return path


def test_a_file_in_order_is_ok(holdfast: Holdfast, file: Path) -> None:
    ended = holdfast("validate", file)

    assert (ended.code, ended.out) == (0, f"{file}: ok, 1 checkpoint checked\n")


def test_a_file_that_was_altered_is_named_with_what_is_wrong(holdfast: Holdfast, file: Path) -> None:
    file.write_bytes(SOUND.replace(b'{"n":1}', b'{"n":2}'))

    ended, document = holdfast("validate", file), holdfast("validate", file, "--json").document

    assert ended.code == 1
    assert f"{file}: 1 finding, 1 checkpoint checked" in ended.out
    assert (document["valid"], document["checkpoints"]) == (False, 1)
    assert "does not match its integrity" in document["findings"][0]["reason"]


@pytest.mark.parametrize("subject", ["missing.json", "no/such", "what is no run"])
def test_what_is_neither_a_file_nor_a_run_is_refused(holdfast: Holdfast, subject: str) -> None:
    assert holdfast("validate", subject).code != 0


def test_a_file_without_an_ending_is_a_file_all_the_same(
    holdfast: Holdfast, file: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(file.parent)
    file.rename(file.with_name("build-42"))

    assert json.loads(holdfast("validate", "build-42", "--json").out)["checkpoints"] == 1


@pytest.mark.slow
def test_a_run_is_checked_where_it_is_stored(holdfast: Holdfast, github: GitHub) -> None:
    holdfast("submit", "-", "--run-id", "r", "--wait", *github.options, stdin="{}")

    ended = holdfast("validate", "r", *github.options)

    assert (ended.code, ended.out) == (0, "r: ok, 1 checkpoint checked\n")


def test_what_could_not_be_checked_is_no_success(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOLDFAST_REPO", "you/checkpoints")
    monkeypatch.setenv("HOLDFAST_API_URL", "http://127.0.0.1:9")
    monkeypatch.setattr("holdfast.github.wrappers.retrying._LONGEST_PAUSE_S", 0.0)
    holdfast("submit", "-", "--run-id", "r", stdin="{}")

    ended = holdfast("validate", "r")

    assert ended.code == 1
    assert "not checked: " in ended.out
