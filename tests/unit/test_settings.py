from dataclasses import asdict
from pathlib import Path

import pytest

from holdfast.errors import InvalidSettings
from holdfast.settings import Settings, unknown_variables, variables_of
from holdfast.settings.kinds import Secret


def test_nothing_set_means_the_embedded_github_without_limits() -> None:
    settings = Settings.from_environment({})

    assert settings.is_embedded
    assert (settings.write_interval_s, settings.content_per_minute, settings.content_per_hour) == (0, 0, 0)
    assert settings.branch == settings.base_path == "checkpoints"


def test_a_repository_brings_githubs_limits() -> None:
    settings = Settings.from_environment({"HOLDFAST_REPO": "you/checkpoints"})

    assert not settings.is_embedded
    assert (settings.write_interval_s, settings.content_per_minute, settings.content_per_hour) == (
        1.0,
        80,
        500,
    )


def test_own_names_win_over_the_usual_ones_and_empty_ones_do_not_count() -> None:
    environment = {
        "HOLDFAST_TOKEN": "ours",
        "GITHUB_TOKEN": "theirs",
        "HOLDFAST_API_URL": "",
        "GITHUB_API_URL": "https://github.example.com/api/v3/",
    }

    settings = Settings.from_environment(environment)

    assert settings.token is not None
    assert settings.token.get_secret_value() == "ours"
    assert settings.api_url == "https://github.example.com/api/v3"
    assert settings.sources["token"] == "HOLDFAST_TOKEN"
    assert settings.sources["api_url"] == "GITHUB_API_URL"


def test_command_line_wins_over_the_environment() -> None:
    settings = Settings.from_environment({"HOLDFAST_BRANCH": "a"}, {"branch": "b"})

    assert settings.branch == "b"
    assert settings.sources["branch"] == "command line"


def test_every_problem_is_told_at_once_under_the_name_it_was_given_by() -> None:
    environment = {
        "HOLDFAST_REPO": "no-slash",
        "HOLDFAST_LOW_BUDGET": "many",
        "GITHUB_API_URL": "ftp://x",
        "HOLDFAST_WRITE_MODE": "fast",
    }

    with pytest.raises(InvalidSettings) as refusal:
        Settings.from_environment(environment, {"branch": "a..b"})

    told = "\n".join(refusal.value.problems)
    for name in ("HOLDFAST_REPO", "HOLDFAST_LOW_BUDGET", "GITHUB_API_URL", "HOLDFAST_WRITE_MODE"):
        assert name in told
    assert "HOLDFAST_BRANCH (from the command line)" in told


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("HOLDFAST_REPO", "a/b/c"),
        ("HOLDFAST_REPO", "../x"),
        ("HOLDFAST_BASE_PATH", "/abs"),
        ("HOLDFAST_BASE_PATH", "a/../b"),
        ("HOLDFAST_BASE_PATH", "a//b"),
        ("HOLDFAST_BASE_PATH", ".git"),
        ("HOLDFAST_BRANCH", "with space"),
        ("HOLDFAST_BRANCH", "-x"),
        ("HOLDFAST_BRANCH", "a.lock"),
        ("HOLDFAST_BRANCH", "a~1"),
        ("HOLDFAST_API_URL", "https://user:secret@host"),
        ("HOLDFAST_API_URL", "localhost:1"),
        ("HOLDFAST_WRITE_INTERVAL_S", "-1"),
        ("HOLDFAST_MAX_CHECKPOINT_BYTES", "1"),
    ],
)
def test_wrong_value_is_refused(name: str, value: str) -> None:
    with pytest.raises(InvalidSettings, match=name):
        Settings.from_environment({"HOLDFAST_REPO": "you/x", name: value})


def test_secrets_do_not_show() -> None:
    settings = Settings.from_environment(
        {"HOLDFAST_TOKEN": "canary-token", "HOLDFAST_API_TOKEN": "canary-api"}
    )

    assert "canary" not in repr(settings)
    assert "canary" not in str(asdict(settings))


def test_variables_are_named_after_the_fields() -> None:
    assert variables_of("data_dir") == ["HOLDFAST_DATA_DIR"]
    assert Settings.from_environment({"HOLDFAST_DATA_DIR": "x"}).data_dir == Path("x")


def test_where_values_come_from_cannot_be_set() -> None:
    environment = {"HOLDFAST_SOURCES": "elsewhere"}

    assert list(unknown_variables(environment)) == ["HOLDFAST_SOURCES"]
    assert "sources" not in Settings.from_environment(environment).sources


def test_shards_are_taken_instead_of_a_repository() -> None:
    settings = Settings.from_environment({"HOLDFAST_SHARDS": "acme/one, umbrella/Two ,"})

    assert settings.shards == ("acme/one", "umbrella/Two")
    assert not settings.is_embedded
    assert settings.write_interval_s == 1.0


@pytest.mark.parametrize(
    ("variables", "problem"),
    [
        ({"HOLDFAST_SHARDS": "acme/one,two"}, "HOLDFAST_SHARDS: use owner/name"),
        ({"HOLDFAST_SHARDS": "acme/one,Acme/ONE"}, "HOLDFAST_SHARDS: it names acme/one twice"),
        (
            {"HOLDFAST_SHARDS": "acme/one,acme/two", "HOLDFAST_REPO": "acme/three"},
            "HOLDFAST_SHARDS: set this or HOLDFAST_REPO, not both",
        ),
    ],
)
def test_a_list_of_shards_that_makes_no_sense_is_refused(variables: dict[str, str], problem: str) -> None:
    with pytest.raises(InvalidSettings, match=problem):
        Settings.from_environment(variables)


def test_a_secret_without_a_text_is_none() -> None:
    assert not Secret("")
    assert Secret("x")
