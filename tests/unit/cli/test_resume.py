import json
from pathlib import Path

import pytest

from .conftest import Ended, GitHub, Holdfast

FIXTURES = Path(__file__).parents[3] / "fixtures"
STATE = '{"cost_accumulated":12.50,"big":123456789012345678901234567890,"phase_outputs":{"phase_0":{}}}'


def submit(holdfast: Holdfast, *options: str, state: str = STATE) -> Ended:
    return holdfast("submit", "-", "--run-id", "r", "--json", *options, stdin=state)


@pytest.mark.slow
def test_plan_is_printed_with_the_stored_digits(holdfast: Holdfast) -> None:
    submit(holdfast, "--trigger", "phase_complete", "--phase", "phase_0_idea", "--wait")

    ended = holdfast("resume", "r", "--json")

    assert ended.code == 0
    assert f'"state":{STATE}' in ended.out
    assert ended.out.count('"cost_accumulated":12.50,"warnings":[],"phase":') == 1
    assert ended.document["resume_at"] == "phase_0_5"
    assert ended.document["source"] == "github"


def test_people_are_told_the_message_and_every_warning(holdfast: Holdfast) -> None:
    submit(holdfast, "--trigger", "phase_complete", "--phase", "build")

    out = holdfast("resume", "r").out

    assert out.startswith("RESUME: Continuing run r from checkpoint ")
    assert "Cost so far: $12.50" in out
    assert "from the spool on this machine" in out
    assert "warning: phase 'build' has no number" in out


@pytest.mark.slow
def test_people_are_told_which_phases_were_assumed(holdfast: Holdfast) -> None:
    note = "(of the standard phases 0 to 8; name others in state.progress.phases)"

    submit(holdfast, "--phase", "phase_7_review")
    assert f"phase_7_review, phase_8 {note}" in " ".join(holdfast("resume", "r").out.split())
    submit(holdfast, "--phase", "plan", state='{"progress":{"phases":["plan","build"]}}')
    assert note not in " ".join(holdfast("resume", "r").out.split())


def test_checkpoint_can_be_chosen(holdfast: Holdfast) -> None:
    submit(holdfast, state="1")
    submit(holdfast, state="2")

    assert holdfast("resume", "r", "--json").document["state"] == 2
    assert holdfast("resume", "r", "--at", "1", "--json").document["state"] == 1


def test_lessons_and_dag_of_today_are_compared(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "lessons.json").write_text("[]")
    (tmp_path / "dag.json").write_text('{"layers":[["b"]]}')
    progress = {"style": "layers", "layer_index": 0, "dag_structure": {"layers": [["a"]]}, "tasks": []}
    submit(holdfast, state=json.dumps({"active_lessons": ["x"], "progress": progress}))

    options = ("--lessons", tmp_path / "lessons.json", "--dag", tmp_path / "dag.json")
    document = holdfast("resume", "r", *options, "--json").document

    assert document["remaining"] == ["b"]
    assert [warning.split(" ")[1] for warning in document["warnings"]] == ["DAG", "active"]


@pytest.mark.slow
@pytest.mark.parametrize(
    ("words", "code", "complaint"),
    [
        (("resume", "nobody"), 1, "there is no run 'nobody'"),
        (("resume", "r", "--at", "9"), 1, "has no checkpoint 9"),
        (("resume", "r", "--at", "0"), 2, "counts from 1"),
        (("resume", "../x"), 2, "names no run"),
        (("resume", "r", "--lessons", "missing.json"), 2, "cannot be read"),
        (("diff", "r", "1", "9"), 1, "has no checkpoint 9"),
        (("diff", "r", "1"), 2, "required"),
        (("replay", "nobody"), 1, "there is no run"),
        (("validate", "nobody"), 1, "there is no run"),
        (("validate", "missing.json"), 2, "cannot be read"),
        (("import", "missing.json"), 2, "cannot be read"),
    ],
)
def test_what_cannot_be_done_is_said(
    holdfast: Holdfast, words: tuple[str, ...], code: int, complaint: str
) -> None:
    submit(holdfast)

    ended = holdfast(*words, "--json")

    assert (ended.code, ended.out) == (code, "")
    assert complaint in ended.err


def test_lessons_that_are_no_list_are_wrong_use(holdfast: Holdfast, tmp_path: Path) -> None:
    (tmp_path / "object.json").write_text("{}")
    (tmp_path / "broken.json").write_text("{")

    assert holdfast("resume", "r", "--lessons", tmp_path / "object.json").code == 2
    assert holdfast("resume", "r", "--dag", tmp_path / "broken.json").code == 2


@pytest.mark.slow
def test_after_a_write_a_dead_github_does_not_keep_from_resuming(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    submit(holdfast, "--wait", *github.options)
    monkeypatch.setenv("HOLDFAST_TOKEN", "revoked")

    ended = holdfast("resume", "r", "--json", *github.options)

    assert ended.code == 0
    assert ended.document["source"] == "cache"
    assert "GitHub could not be read" in ended.document["warnings"][0]


def test_diff_is_a_patch_or_lines_for_people(holdfast: Holdfast) -> None:
    submit(holdfast, state='{"a":1.10,"b":[1],"c":"x"}')
    submit(holdfast, state='{"a":1.20,"b":[1,2],"d":null}')

    patch = holdfast("diff", "r", "1", "2", "--json").document
    out = holdfast("diff", "r", "1", "2").out

    assert {"op": "add", "path": "/state_snapshot/b/1", "value": 2} in patch
    assert "~ /state_snapshot/a: 1.10 → 1.20" in out
    assert '- /state_snapshot/c: "x"' in out
    assert "+ /state_snapshot/d: null" in out
    assert "integrity" not in out


@pytest.mark.slow
def test_replay_tells_decisions_and_changes(holdfast: Holdfast) -> None:
    gate = {"gate_id": "g1", "decision": "pass"}
    decision = {"agent": "atlas", "description": "go on", "rationale": "enough is known"}
    submit(holdfast, "--wait", state=json.dumps({"gate_history": [gate]}))
    submit(holdfast, state=json.dumps({"gate_history": [gate], "progress": {"decisions": [decision, 3]}}))

    document = holdfast("replay", "r", "--json").document
    out = holdfast("replay", "r").out

    assert [len(each["decisions"]) for each in document["checkpoints"]] == [1, 2]
    assert "decided: gate g1: pass" in out
    assert "decided: atlas: go on (because: enough is known)" in out
    assert "decided: 3" in out
    assert out.index("#1 ") < out.index("#2 ")


def test_replay_of_a_large_change_is_cut_for_people(holdfast: Holdfast) -> None:
    submit(holdfast, state=json.dumps({f"k{number}": "x" * 500 for number in range(20)}))

    out = holdfast("replay", "r").out

    assert "… and 8 more changes" in out
    assert "(502 characters)" in out


@pytest.mark.slow
def test_validate_does_not_call_anything_well_that_it_could_not_read(
    holdfast: Holdfast, github: GitHub, monkeypatch: pytest.MonkeyPatch
) -> None:
    holdfast("submit", "-", "--run-id", "r", "--wait", *github.options, stdin="{}")
    monkeypatch.setenv("HOLDFAST_TOKEN", "another-token")

    ended = holdfast("validate", "r", *github.options)
    document = holdfast("validate", "r", "--json", *github.options).document

    assert ended.code == 1
    assert "r: not known, 1 checkpoint checked and nothing wrong with that" in ended.out
    assert "not checked: GitHub could not be read" in ended.out
    assert (document["valid"], document["checkpoints"], len(document["unchecked"])) == (False, 1, 1)


@pytest.mark.slow
def test_validate_a_run_and_a_file(holdfast: Holdfast, tmp_path: Path) -> None:
    submit(holdfast, "--wait")
    bad = tmp_path / "bad.json"
    bad.write_text('{"trigger":"never","state":{},"run_id":"r"}')

    good = holdfast("validate", "r", "--json")
    found = holdfast("validate", bad, "--json")

    assert (good.code, good.document["valid"], good.document["checkpoints"]) == (0, True, 1)
    assert (found.code, found.document["valid"]) == (1, False)
    assert found.document["findings"][0]["path"] == str(bad)
    assert "1 finding" in holdfast("validate", bad).out
    assert "ok, 1 checkpoint checked" in holdfast("validate", "r").out


def test_import_tells_what_was_migrated_and_what_not(holdfast: Holdfast, tmp_path: Path) -> None:
    odd = tmp_path / "odd.json"
    odd.write_text('{"x":1}')
    samples = sorted((FIXTURES / "importer_formats").iterdir())

    first = holdfast("import", *samples, odd, "--json")
    again = holdfast("import", *samples)
    nothing = holdfast("import", odd)

    assert (first.code, again.code, nothing.code) == (1, 0, 2)
    outcomes = [each["outcome"] for each in first.document["imports"]]
    assert outcomes.count("migrated") == len(samples) + 1
    assert outcomes.count("refused") == 1
    assert "known" in again.out
    assert "none of these" in nothing.out
    assert holdfast("resume", "session-def456", "--json").document["resume_at"] == 2


def test_import_takes_folders_and_json_lines_but_no_bookkeeping(holdfast: Holdfast, tmp_path: Path) -> None:
    old = tmp_path / "old"
    (old / "session-1").mkdir(parents=True)
    line = {"trigger": "manual", "state": {}, "run_id": "lines"}
    (old / "many.jsonl").write_text("".join(f"{json.dumps({**line, 'phase': str(n)})}\n" for n in range(3)))
    (old / "session-1" / "cp_001_manual.json").write_text(json.dumps({**line, "run_id": "single"}))
    for name in ("index.json", "index_1_100.json", "preserved_runs.json", "summary.json"):
        (old / "session-1" / name).write_text("{}")
    (old / "notes.txt").write_text("not for us")
    empty = tmp_path / "empty"
    empty.mkdir()

    taken = holdfast("import", old, "--json")

    assert taken.code == 0
    assert [(each["run_id"], each["outcome"]) for each in taken.document["imports"]] == [
        *[("lines", "migrated")] * 3,
        ("single", "migrated"),
    ]
    assert {each["outcome"] for each in holdfast("import", old, "--json").document["imports"]} == {"known"}
    assert holdfast("import", empty).code == 2


def test_import_takes_a_run_for_those_that_name_none(holdfast: Holdfast, tmp_path: Path) -> None:
    nameless = tmp_path / "nameless.json"
    nameless.write_text('{"trigger":"manual","phase":"phase_1","state_snapshot":{}}')

    assert holdfast("import", nameless).code == 2
    assert holdfast("import", nameless, "--run-id", "mine").code == 0
    assert holdfast("resume", "mine").code == 0


@pytest.mark.parametrize("command", ["resume", "validate", "diff", "replay", "import"])
def test_each_command_has_help_with_an_example(holdfast: Holdfast, command: str) -> None:
    out = holdfast(command, "--help").out

    assert f"example:\n  holdfast {command} " in out
