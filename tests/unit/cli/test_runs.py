import json
from pathlib import Path

import pytest

from holdfast.claims.known import KnownClaims
from holdfast.cli.runs import indent

from .conftest import Ended, GitHub, Holdfast


def submit(holdfast: Holdfast, run_id: str, *options: str, state: str = "{}") -> Ended:
    return holdfast("submit", "-", "--run-id", run_id, "--json", *options, stdin=state)


@pytest.mark.slow
def test_runs_stored_and_spooled_are_listed_together(holdfast: Holdfast) -> None:
    submit(holdfast, "stored", "--workflow", "ci.yml", "--wait")
    submit(holdfast, "spooled")

    document = holdfast("runs", "--json").document

    assert [run["run_id"] for run in document["runs"]] == ["spooled", "stored"]
    assert set(document["runs"][0]) == {
        "run_id",
        "status",
        "resumable",
        "checkpoint_count",
        "last_updated",
        "workflow",
    }
    assert document["runs"][1]["workflow"] == "ci.yml"


@pytest.mark.slow
def test_runs_can_be_chosen(holdfast: Holdfast) -> None:
    submit(holdfast, "done", "--status", "completed", "--workflow", "ci.yml")
    submit(holdfast, "open", "--workflow", "ci.yml")
    submit(holdfast, "other")

    def names(*options: str) -> set[str]:
        return {run["run_id"] for run in holdfast("runs", "--json", *options).document["runs"]}

    assert names("--resumable") == {"open", "other"}
    assert names("--workflow", "ci.yml") == {"done", "open"}
    assert names("--workflow", "ci.yml", "--resumable") == {"open"}


def test_no_runs_are_told_as_such(holdfast: Holdfast) -> None:
    assert holdfast("runs").out == "There are no runs.\n"
    assert holdfast("runs", "--resumable").out == "No run is like that.\n"
    assert holdfast("runs", "--json").document == {"runs": []}


def test_a_table_in_a_pipe_is_plain_and_unbroken(holdfast: Holdfast) -> None:
    submit(holdfast, "r" * 120, "--workflow", "w" * 200)

    lines = holdfast("runs").out.splitlines()

    assert len(lines) == 2
    assert lines[0].split() == ["run", "status", "resumable", "checkpoints", "last", "updated", "workflow"]
    assert lines[1].endswith("w" * 200)


def test_what_a_table_shows_cannot_command_the_terminal(holdfast: Holdfast) -> None:
    submit(holdfast, "r", "--workflow", "\x1b[2Jgone\nforged")

    assert "\\x1b[2Jgone\\nforged" in holdfast("runs").out


@pytest.mark.slow
def test_the_checkpoints_of_a_run_are_listed(holdfast: Holdfast) -> None:
    submit(holdfast, "r", "--trigger", "iteration", "--wait")
    submit(holdfast, "r", "--status", "completed")

    document = holdfast("list", "r", "--json").document
    out = holdfast("list", "r").out

    assert document["run_id"] == "r"
    first, second = document["checkpoints"]
    assert set(first) == {"sequence", "checkpoint_id", "trigger", "timestamp", "file_path", "status"}
    assert (first["sequence"], first["trigger"], first["status"]) == (1, "iteration", "in_progress")
    assert (second["sequence"], second["status"]) == (2, "completed")
    assert second["file_path"] == "checkpoints/r/cp_002_manual.json"
    assert out.splitlines()[1].split()[:4] == ["1", "iteration", "in_progress", "stored"]
    assert out.splitlines()[2].split()[:4] == ["2", "manual", "completed", "spooled"]


def test_show_prints_the_stored_bytes(holdfast: Holdfast) -> None:
    state = '{"price":1.10,"big":123456789012345678901234567890,"tiny":1e-400,"é":"\\u00e9"}'
    submit(holdfast, "r", "--wait", state=state)

    out = holdfast("show", "r", "--json").out

    assert f'"state_snapshot":{state}' in out
    assert out.endswith("}\n")
    assert json.loads(out)["integrity"]["sha256"]


def test_show_for_people_is_indented_with_exact_numbers(holdfast: Holdfast) -> None:
    submit(holdfast, "r", state='{"price":1.10,"big":123456789012345678901234567890}')

    out = holdfast("show", "r").out

    assert '    "price": 1.10,\n    "big": 123456789012345678901234567890\n' in out


@pytest.mark.slow
def test_show_takes_the_newest_unless_a_number_is_given(holdfast: Holdfast) -> None:
    submit(holdfast, "r", "--wait", state="1")
    submit(holdfast, "r", state="2")

    assert holdfast("show", "r", "--json").document["state_snapshot"] == 2
    assert holdfast("show", "r", "1", "--json").document["state_snapshot"] == 1


@pytest.mark.slow
def test_a_checkpoint_is_found_by_its_id_wherever_one_is_named(holdfast: Holdfast) -> None:
    stored = submit(holdfast, "r", "--wait", state="1").document["checkpoint_id"]
    spooled = submit(holdfast, "r", state="2").document["checkpoint_id"]

    assert holdfast("show", stored, "--json").document["state_snapshot"] == 1
    assert holdfast("show", spooled, "--json").document["state_snapshot"] == 2
    assert holdfast("show", "r", stored.upper(), "--json").document["state_snapshot"] == 1
    assert holdfast("resume", "r", "--at", stored, "--json").document["state"] == 1
    changes = holdfast("diff", "r", stored, spooled, "--json").document
    assert {"op": "replace", "path": "/state_snapshot", "value": 2} in changes
    story = holdfast("replay", "r", "--from", spooled, "--json").document
    assert [scene["sequence"] for scene in story["checkpoints"]] == [2]


@pytest.mark.slow
def test_another_machine_finds_a_checkpoint_by_its_id(
    holdfast: Holdfast, github: GitHub, tmp_path: Path
) -> None:
    first = submit(holdfast, "r", "--wait", *github.options, state="1").document["checkpoint_id"]
    submit(holdfast, "r", "--wait", *github.options, state="2")

    ended = holdfast("show", first, "--json", *github.options, "--data-dir", tmp_path / "elsewhere")

    assert ended.document["state_snapshot"] == 1


def test_a_run_that_is_named_like_an_id_is_a_run(holdfast: Holdfast) -> None:
    run_id = "550e8400-e29b-41d4-a716-446655440000"
    submit(holdfast, run_id, state="3")

    assert holdfast("show", run_id, "--json").document["state_snapshot"] == 3


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "complaint"),
    [
        (("show", "550e8400-e29b-41d4-a716-446655440000"), "there is no checkpoint 550e8400"),
        (("show", "r", "550e8400-e29b-41d4-a716-446655440000"), "run 'r' has no checkpoint 550e8400"),
        (("replay", "r", "--from", "9"), "there is no checkpoint 9"),
        (("list", "nobody"), "there is no run 'nobody'"),
        (("show", "nobody"), "there is no run 'nobody'"),
        (("show", "r", "7"), "run 'r' has no checkpoint 7; see holdfast list r"),
    ],
)
def test_what_is_not_there_is_a_failure(holdfast: Holdfast, words: tuple[str, ...], complaint: str) -> None:
    submit(holdfast, "r")

    ended = holdfast(*words, "--json")

    assert (ended.code, ended.out) == (1, "")
    assert complaint in ended.err


@pytest.mark.parametrize("command", ["list", "show"])
def test_a_name_that_no_run_can_have_is_wrong_use(holdfast: Holdfast, command: str) -> None:
    ended = holdfast(command, "../secrets")

    assert ended.code == 2
    assert "'../secrets' names no run" in ended.err


def test_a_refused_token_is_a_failure_with_advice(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_TOKEN", "a-wrong-token")

    ended = holdfast("runs", *github.options)

    assert ended.code == 1
    assert "HOLDFAST_TOKEN" in ended.err
    assert "Traceback" not in ended.err


def test_indenting_spells_out_what_a_terminal_would_obey() -> None:
    text = '{"a":"\x9b31m\x7f"}'

    shown = indent(text.encode()).decode()

    assert "\x9b" not in shown
    assert json.loads(shown) == json.loads(text)


@pytest.mark.slow
def test_archived_runs_are_found_by_their_workflow(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_KEEP_FULL_RUNS", "0")
    monkeypatch.setenv("HOLDFAST_KEEP_LATEST_RUNS", "0")
    for name, workflow in (("old", "flows/ci.yml"), ("older", "flows/other.yml")):
        said = ("--workflow", workflow, "--trigger", "run_complete", "--status", "completed")
        holdfast("submit", "-", "--run-id", name, *said, "--wait", stdin="{}")
    assert holdfast("cleanup").code == 0

    found = holdfast("runs", "--archived", "--workflow", "ci.yml", "--json").document["runs"]

    assert [(run["run_id"], run["workflow"]) for run in found] == [("old", "flows/ci.yml")]
    assert holdfast("runs", "--archived", "--workflow", "none", "--json").document["runs"] == []
    assert len(holdfast("runs", "--archived", "--json").document["runs"]) == 2


@pytest.mark.slow
def test_a_checkpoint_that_came_after_its_run_was_taken_over_is_marked_in_the_list(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it had been between the check and the write when the run was taken over.
    monkeypatch.setattr(KnownClaims, "admit", lambda *_: None)

    def submit_with(fence: int) -> None:
        checkpoint = {"run_id": "r", "trigger": "manual", "state": {}, "fence": fence}
        assert holdfast("submit", "-", stdin=json.dumps(checkpoint)).code == 0

    submit_with(1)
    submit_with(2)
    assert "fenced" not in holdfast("list", "r").out + holdfast("list", "r", "--json").out

    submit_with(1)

    listed = holdfast("list", "r", "--json").document["checkpoints"]
    assert [line.get("fenced") for line in listed] == [None, None, True]
    table = holdfast("list", "r", "--limit", "1").out.splitlines()
    assert table[0].endswith("claim")
    assert table[1].endswith("fenced")
    assert "Nobody resumes from it" in table[2]
