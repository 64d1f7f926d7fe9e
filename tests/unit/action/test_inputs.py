"""What the step was told, and what is refused with the reason."""

import json
from pathlib import Path

import pytest

from holdfast.action.inputs import Command, Inputs, must_fail, read_inputs, read_secrets, read_settings
from holdfast.action.job import Job
from holdfast.errors import InvalidSettings
from holdfast.presentation.exits import WrongUse
from holdfast.settings import MOST_BYTES

JOB = Job("CI", "1", "1", "build", "owner/name", "", "", "https://github.com", Path("/runner/temp"))


def variables(**inputs: str) -> dict[str, str]:
    return {f"HOLDFAST_INPUT_{name.upper()}": value for name, value in inputs.items()}


def read(command: str = "save", **inputs: str) -> Inputs:
    return read_inputs(variables(command=command, **inputs), JOB)


def test_a_bare_save_has_the_defaults_that_the_readme_promises() -> None:
    assert read() == Inputs(
        command=Command.SAVE,
        run_id="CI-1-build",
        trigger="manual",
        phase="",
        status="",
        state=b"{}",
        is_waiting=True,
        timeout_s=60.0,
        is_dry_run=False,
        spool_dir=Path("/runner/temp/holdfast-spool"),
        is_claiming=False,
        owner=JOB.owner(),
        ttl_s=3600.0,
    )


def test_empty_inputs_count_as_left_out() -> None:
    assert read(run_id="", trigger=" ", wait="", timeout="", spool_dir="", state="\n") == read()


def test_a_state_keeps_its_bytes() -> None:
    assert read(state=' {"a": 1.10} ').state == b'{"a": 1.10}'


def test_a_state_comes_from_a_file(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_bytes(b'{"a": 1.10}\n')

    assert read(state_file=str(file)).state == b'{"a": 1.10}'


def test_only_save_reads_a_state(tmp_path: Path) -> None:
    assert read("resume", state_file=str(tmp_path / "missing")).state == b""


@pytest.mark.parametrize(
    ("inputs", "reason"),
    [
        (
            {"command": "explode"},
            "command: 'explode' is none; use one of save, resume, drain, complete, cleanup, release",
        ),
        ({"command": ""}, "command: '' is none"),
        ({"run_id": "a/b"}, "names no run"),
        ({"wait": "maybe"}, "wait: use true or false, not 'maybe'"),
        ({"dry_run": "1"}, "dry-run: use true or false"),
        ({"timeout": "soon"}, "timeout: use a number of seconds"),
        ({"timeout": "-1"}, "timeout: use a number of seconds"),
        ({"timeout": "nan"}, "timeout: use a number of seconds"),
        ({"state": "{}", "state_file": "x"}, "state and state-file: give one of them"),
        ({"state_file": "no/such/file"}, "state-file: no/such/file cannot be read: No such file"),
        ({"state_file": "a\0b"}, "state-file: a\0b cannot be read"),
    ],
)
def test_a_wrong_input_is_refused_with_what_to_change(inputs: dict[str, str], reason: str) -> None:
    with pytest.raises(WrongUse) as refusal:
        read(**{"command": "save", **inputs})

    assert reason in str(refusal.value)


def test_an_empty_file_is_no_state(tmp_path: Path) -> None:
    file = tmp_path / "state.json"
    file.write_text(" \n")

    with pytest.raises(WrongUse, match="is empty"):
        read(state_file=str(file))


def test_a_file_without_end_is_read_only_as_far_as_a_checkpoint_may_go() -> None:
    with pytest.raises(WrongUse, match=f"has more than {MOST_BYTES:,} bytes"):
        read(state_file="/dev/zero")


@pytest.mark.parametrize(
    ("given", "saved", "completed"),
    [
        ("", "", "completed"),
        ("success", "completed", "completed"),
        ("failure", "failed", "failed"),
        ("cancelled", "interrupted", "failed"),
        ("in_progress", "in_progress", "in_progress"),
    ],
)
def test_a_status_may_be_the_jobs_own_word(given: str, saved: str, completed: str) -> None:
    assert read("save", status=given).status == saved
    assert read("complete", status=given).status == completed


@pytest.mark.parametrize(
    ("text", "is_fatal"), [("true", True), ("TRUE", True), ("false", False), ("yes", False)]
)
def test_only_a_clear_yes_lets_a_failure_fail_the_step(text: str, is_fatal: bool) -> None:
    assert must_fail(variables(fail_on_error=text)) is is_fatal


def test_settings_come_from_the_job_when_nothing_is_said() -> None:
    settings = read_settings(
        {**variables(token="ghs_x"), "GITHUB_API_URL": "https://github.example.com/api/v3"}, JOB
    )

    assert settings.repo == "owner/name"
    assert settings.branch == "checkpoints"
    assert settings.write_mode == "commit"
    assert settings.api_url == "https://github.example.com/api/v3"
    assert settings.data_dir == Path("/runner/temp/holdfast")


def test_inputs_win_over_variables_and_variables_over_the_job() -> None:
    environment = {
        **variables(token="input", branch="input-branch"),
        "HOLDFAST_BRANCH": "variable-branch",
        "HOLDFAST_REPO": "other/place",
        "HOLDFAST_WRITE_MODE": "contents",
        "HOLDFAST_DATA_DIR": "/data",
        "HOLDFAST_TOKEN": "variable",
        "HOLDFAST_TOKEN_FILE": "/token",
        "GITHUB_TOKEN": "job",
    }

    settings = read_settings(environment, JOB)

    assert (settings.branch, settings.repo, settings.write_mode) == (
        "input-branch",
        "other/place",
        "contents",
    )
    assert settings.data_dir == Path("/data")
    assert settings.token is not None
    assert settings.token.get_secret_value() == "input"
    assert settings.token_file is None


def test_a_token_goes_by_the_name_that_tells_the_budget_of_the_jobs_limit() -> None:
    assert read_settings(variables(token="ghs_x"), JOB).sources["token"] == "GITHUB_TOKEN"


def test_the_runners_debug_switch_is_ours_too() -> None:
    assert read_settings({"RUNNER_DEBUG": "1"}, JOB).log_level == "debug"
    assert read_settings({}, JOB).log_level == "info"


def test_a_wrong_setting_is_refused() -> None:
    with pytest.raises(InvalidSettings):
        read_settings(variables(branch="a..b", write_mode="quickly"), JOB)


def test_only_a_settings_file_that_is_named_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_text('base_path = "state"\n')
    monkeypatch.chdir(tmp_path)

    assert read_settings({}, JOB).base_path == "checkpoints"
    assert read_settings({"HOLDFAST_CONFIG": str(path)}, JOB).base_path == "state"


def test_keys_are_settings_and_shown_nowhere() -> None:
    key = {"kty": "oct", "k": "A" * 43}
    text = json.dumps(key)
    given = {"HOLDFAST_INPUT_ENCRYPTION_KEY": text, "HOLDFAST_SIGNING_KEY": text, "GITHUB_TOKEN": "t"}
    assert read_secrets(given) == ["t", text, key["k"], text, key["k"]]
    assert read_secrets({}) == []
    settings = read_settings(given, JOB)
    assert settings.encryption_key is not None
    assert settings.signing_key is not None
    assert settings.redact == "off"
