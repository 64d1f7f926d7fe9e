from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.settings import Settings
from holdfast.settings.file import find_settings_file, load_settings, read_settings_file


def write(folder: Path, text: str, name: str = "holdfast.toml") -> Path:
    path = folder / name
    path.write_text(text, "utf-8")
    return path


def test_the_file_of_the_working_folder_is_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(
        tmp_path,
        '# ours\nrepo = "you/checkpoints"\nallowed_hosts = ["a", "b"]\ncleanup_every = "6h"\nport = 1\n',
    )
    monkeypatch.chdir(tmp_path)

    settings = load_settings({})

    assert settings.repo == "you/checkpoints"
    assert settings.allowed_hosts == ("a", "b")
    assert (settings.cleanup_every, settings.port) == (6 * 3600, 1)
    assert settings.content_per_hour == 500  # with a repository, GitHub's limits hold
    assert settings.sources["repo"] == "holdfast.toml, line 2"
    assert settings.config == Path("holdfast.toml")


def test_the_file_that_is_named_is_read_instead(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    write(tmp_path, 'repo = "you/lying-there"\n')
    named = write(tmp_path, 'repo = "you/named"\n', "other.toml")
    monkeypatch.chdir(tmp_path)

    settings = load_settings({"HOLDFAST_CONFIG": str(named)})

    assert settings.repo == "you/named"
    assert settings.sources["config"] == "HOLDFAST_CONFIG"


def test_without_a_file_there_is_none(tmp_path: Path) -> None:
    assert find_settings_file({"HOLDFAST_CONFIG": ""}, tmp_path) is None


def test_command_line_and_environment_win_over_the_file(tmp_path: Path) -> None:
    file = read_settings_file(write(tmp_path, 'repo = "a/file"\nbranch = "file"\nbase_path = "file"\n'))

    settings = Settings.from_environment(
        {"HOLDFAST_REPO": "a/env", "HOLDFAST_BRANCH": "env"}, {"repo": "a/line"}, file
    )

    assert (settings.repo, settings.branch, settings.base_path) == ("a/line", "env", "file")


def test_the_file_wins_over_what_others_have_set_for_github(tmp_path: Path) -> None:
    file = read_settings_file(write(tmp_path, 'token = "ours"\n'))

    settings = Settings.from_environment({"GITHUB_TOKEN": "theirs"}, file=file)

    assert settings.secrets() == ["ours"]
    assert "ours" not in repr(settings)


def test_every_wrong_name_is_refused_with_its_line(tmp_path: Path) -> None:
    path = write(
        tmp_path,
        'repo = "you/x"\nreop = "you/y"\n\nHOLDFAST_PORT = 1\nconfig = "x"\nzzz = 1\n[server]\nport = 1\n',
    )

    with pytest.raises(InvalidSettings) as refusal:
        read_settings_file(path)

    assert refusal.value.problems == [
        f"{path}, line 2: reop is not a setting; did you mean repo?",
        f"{path}, line 4: HOLDFAST_PORT is not a setting; did you mean port?",
        f"{path}, line 5: config is not a setting; see holdfast config",
        f"{path}, line 6: zzz is not a setting; see holdfast config",
        f"{path}, line 7: [server] begins a table; settings are names and values without tables",
    ]


@pytest.mark.parametrize(
    "line",
    [
        'port = "high"',
        'port = "8723"',
        "port = true",
        "port = [1]",
        "repo = 5",
        'write_mode = "fast"',
        "keep_days = 0",
        'keep_days = "7"',
        "enabled = 1",
        'enabled = "no"',
        "compress = 5",
    ],
)
def test_a_wrong_value_is_refused_with_its_line(tmp_path: Path, line: str) -> None:
    path = write(tmp_path, f"# first\n{line}\n")
    name = line.partition(" ")[0]

    with pytest.raises(InvalidSettings, match=rf"holdfast\.toml, line 2: {name}: "):
        Settings.from_environment({}, file=read_settings_file(path))


def test_sizes_durations_and_lists_may_be_text(tmp_path: Path) -> None:
    text = 'compress = "256KB"\nwarn_age = "2d"\nallowed_hosts = "a,b"\nkeep_days = 7\nenabled = true\n'

    settings = Settings.from_environment({}, file=read_settings_file(write(tmp_path, text)))

    assert (settings.compress, settings.warn_age, settings.allowed_hosts) == (262144, 172800.0, ("a", "b"))


def test_what_is_not_utf_8_is_refused_with_its_line(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_bytes(b'branch = "a"\nrepo = "a/\xff"\n')

    with pytest.raises(InvalidSettings, match="line 2: this is not UTF-8; save it as UTF-8"):
        read_settings_file(path)


def test_the_mark_that_some_editors_begin_a_file_with_is_no_trouble(tmp_path: Path) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_bytes(b'\xef\xbb\xbfbranch = "a"\n')

    assert read_settings_file(path).values == {"branch": "a"}


@pytest.mark.parametrize("text", [b"port = \n", b"= 1", b"port = 1\nport = 2"])
def test_what_is_not_toml_is_refused(tmp_path: Path, text: bytes) -> None:
    path = tmp_path / "holdfast.toml"
    path.write_bytes(text)

    with pytest.raises(InvalidSettings, match="is not TOML"):
        read_settings_file(path)


def test_a_named_file_that_is_not_there_is_refused(tmp_path: Path) -> None:
    with pytest.raises(InvalidSettings, match=r"HOLDFAST_CONFIG: .*gone\.toml cannot be read: No such file"):
        find_settings_file({"HOLDFAST_CONFIG": str(tmp_path / "gone.toml")}, tmp_path)


def test_paths_in_it_begin_at_its_own_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HOME", str(tmp_path / "me"))
    path = write(tmp_path, 'data_dir = "data"\ntoken_file = "~/token"\napi_token_file = "/run/token"\n')

    settings = Settings.from_environment({}, file=read_settings_file(path))

    assert settings.data_dir == tmp_path / "data"
    assert settings.token_file == tmp_path / "me" / "token"
    assert settings.api_token_file == Path("/run/token")


@pytest.mark.parametrize("variable", ["HOLDFAST_TOKEN", "GITHUB_TOKEN", "HOLDFAST_TOKEN_FILE"])
def test_a_file_that_lies_there_does_not_choose_who_gets_the_token(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    path = write(tmp_path, 'repo = "you/x"\napi_url = "https://elsewhere.example"\n')
    monkeypatch.chdir(tmp_path)

    with pytest.raises(InvalidSettings, match="line 2: api_url would send your token there"):
        load_settings({variable: "secret"})

    assert load_settings({variable: "secret", "HOLDFAST_CONFIG": str(path)}).api_url.endswith(
        "elsewhere.example"
    )
    assert load_settings({}).api_url.endswith("elsewhere.example")
    assert load_settings({variable: "secret", "HOLDFAST_API_URL": "https://mine.example"}).api_url.endswith(
        "mine.example"
    )
