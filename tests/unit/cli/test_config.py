from pathlib import Path

import pytest

from .conftest import Holdfast


def test_every_setting_has_its_value_and_its_source(
    holdfast: Holdfast, data_dir: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("GITHUB_API_URL", "https://github.example.com/api/v3")

    settings = holdfast("config", "--json", "--branch", "state").document["settings"]

    assert settings["data_dir"]["value"] == str(data_dir)
    assert settings["data_dir"]["source"] == "HOLDFAST_DATA_DIR"
    assert (settings["branch"]["value"], settings["branch"]["source"]) == ("state", "command line")
    assert settings["api_url"]["source"] == "GITHUB_API_URL"
    assert (settings["low_budget"]["value"], settings["low_budget"]["source"]) == (100, "default")
    assert settings["low_budget"]["variable"] == "HOLDFAST_LOW_BUDGET"
    assert settings["write_interval_s"]["source"] == "embedded GitHub"
    assert settings["repo"]["value"] is None


def test_names_are_shown_as_they_are_set(holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch) -> None:
    assert holdfast("config", "--json").document["settings"]["shards"]["value"] is None
    monkeypatch.setenv("HOLDFAST_SHARDS", "me/one, me/two")

    assert holdfast("config", "--json").document["settings"]["shards"]["value"] == "me/one,me/two"


def test_a_variable_that_is_no_setting_is_told_with_what_was_likely_meant(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HOLDFAST_REOP", "me/state")
    monkeypatch.setenv("HOLDFAST_ZZZ", "1")

    ended = holdfast("config", "--json")

    assert ended.code == 0
    assert ended.err == (
        "holdfast: HOLDFAST_REOP is not a setting; did you mean HOLDFAST_REPO?\n"
        "holdfast: HOLDFAST_ZZZ is not a setting; see holdfast config\n"
    )


def test_commands_log_warnings_unless_told_otherwise(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch
) -> None:
    def level(*options: str) -> object:
        return holdfast("config", "--json", *options).document["settings"]["log_level"]["value"]

    assert level() == "warning"
    assert level("--log-level", "debug") == "debug"
    monkeypatch.setenv("HOLDFAST_LOG_LEVEL", "info")
    assert level() == "info"


@pytest.mark.parametrize("options", [(), ("--json",)])
def test_secrets_are_never_shown(
    holdfast: Holdfast, monkeypatch: pytest.MonkeyPatch, options: tuple[str, ...]
) -> None:
    monkeypatch.setenv("GITHUB_TOKEN", "ghp_canary")
    monkeypatch.setenv("HOLDFAST_API_TOKEN", "another-canary")

    ended = holdfast("config", *options)

    assert "canary" not in ended.out + ended.err
    assert "set (GITHUB_TOKEN)" in ended.out
    assert "set (HOLDFAST_API_TOKEN)" in ended.out


def test_config_makes_nothing(holdfast: Holdfast, data_dir: Path) -> None:
    assert holdfast("config").code == 0
    assert not data_dir.exists()


def test_a_settings_file_in_order_is_said_to_be(holdfast: Holdfast, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text('repo = "you/checkpoints"\nport = 1\n')

    assert holdfast("config", "--check", str(path)).out == f"{path} is in order: 2 settings.\n"
    assert holdfast("config", "--check", str(path), "--json").document["settings"] == ["repo", "port"]


def test_a_settings_file_out_of_order_is_wrong_use_with_the_line(holdfast: Holdfast, tmp_path: Path) -> None:
    path = tmp_path / "mine.toml"
    path.write_text("\nport = 70000\n")

    result = holdfast("config", "--check", str(path))

    assert result.code == 2
    assert f"{path}, line 2: port: " in result.err


def test_the_settings_file_of_the_working_folder_is_in_force(
    holdfast: Holdfast, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "holdfast.toml").write_text('branch = "mine"\n')
    monkeypatch.chdir(tmp_path)

    branch = holdfast("config", "--json").document["settings"]["branch"]

    assert (branch["value"], branch["source"]) == ("mine", "holdfast.toml, line 1")
