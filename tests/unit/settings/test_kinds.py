"""What each kind of setting takes, and what it refuses with which advice."""

from collections.abc import Callable
from dataclasses import Field
from pathlib import Path
from typing import Any, cast

import pytest

from holdfast.settings import kinds
from holdfast.settings.kinds import MEGABYTE, Secret


def read(setting: object, value: object) -> Any:
    """Check and convert a value as settings do."""
    return cast("Field[Any]", setting).metadata["check"](value)


@pytest.mark.parametrize(
    ("check", "good", "bad", "advice"),
    [
        (kinds.repository, "you/check.points", ["you", "you/", "-you/x", "you/x/y", "you/x y"], "owner/name"),
        (kinds.base_path, "state/checkpoints", ["", "/state", "state/", "a//b", "../a", ".git"], "a folder"),
        (kinds.branch, "feature/x", ["", "a..b", "a b", "-a", "a.lock", "/a", "a/", "a@{1}", "a~1"], "git"),
        (
            kinds.url,
            "https://x.example/api/v3",
            ["x.example", "ftp://x", "https://u@x", "https://x?q"],
            "URL",
        ),
        (kinds.app, "Iv1.8a61f9b3a7aba766", ["", "a b", "a/b"], "GitHub App"),
    ],
)
def test_names_are_taken_as_they_are_or_refused_with_what_to_write(
    check: Callable[[str], str], good: str, bad: list[str], advice: str
) -> None:
    assert check(good) == good
    for text in bad:
        with pytest.raises(ValueError, match=advice):
            check(text)


def test_a_url_loses_the_slash_at_its_end() -> None:
    assert kinds.url("https://x.example/") == "https://x.example"


@pytest.mark.parametrize("text", ["postgresql://h/d", "postgres://h/d"])
def test_a_database_is_one_of_postgresql(text: str) -> None:
    kinds.database_url(text)
    with pytest.raises(ValueError, match="postgresql://"):
        kinds.database_url(f"my{text}")


def test_names_between_commas_may_have_blanks_and_are_compared_without_case() -> None:
    assert kinds.hosts(" A.example, b.example ,") == ("a.example", "b.example")
    assert kinds.hosts(["A"]) == ("a",)
    assert kinds.shards("you/a, you/b") == ("you/a", "you/b")
    with pytest.raises(ValueError, match="it names you/a twice"):
        kinds.shards("you/a,You/A")
    with pytest.raises(ValueError, match="between commas"):
        kinds.hosts(7)


@pytest.mark.parametrize(
    ("text", "seconds"), [("90", 90), ("1.5s", 1.5), ("15m", 900), ("6 h", 21_600), ("1d", 86_400), (60, 60)]
)
def test_a_length_of_time_has_a_unit_or_is_in_seconds(text: object, seconds: float) -> None:
    assert read(kinds.duration(None, least=0), text) == seconds


@pytest.mark.parametrize("text", ["", "h", "1w", "1h30m", "-1h", "soon"])
def test_what_is_no_length_of_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="a length of time"):
        read(kinds.duration(None, least=0), text)


def test_a_length_of_time_may_be_too_short() -> None:
    with pytest.raises(ValueError, match="60"):
        read(kinds.duration(None, least=60), "59s")


@pytest.mark.parametrize(
    ("text", "size"), [("off", None), ("OFF", None), ("4096", 4096), ("256KB", 262_144), ("1 mb", MEGABYTE)]
)
def test_a_size_has_a_unit_or_is_in_bytes_or_off(text: str, size: int | None) -> None:
    assert read(kinds.size(None, least=1), text) == size


@pytest.mark.parametrize("text", ["", "1GB", "1.5MB", "-1"])
def test_what_is_no_size_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="256KB or 1MB"):
        read(kinds.size(None, least=1), text)


def test_a_secret_is_seen_only_by_who_asks_for_it() -> None:
    secret = read(kinds.secret(), "hunter2")

    assert (secret.get_secret_value(), secret) == ("hunter2", Secret("hunter2"))
    assert "hunter2" not in f"{secret} {secret!r}"
    assert read(kinds.secret(), secret) is secret
    assert len({secret, Secret("hunter2"), Secret("")}) == 2
    assert not Secret("")


@pytest.mark.parametrize("check", [kinds.encryption_keys, kinds.signing_keys])
def test_what_is_no_key_is_refused_without_showing_it(check: Callable[[str], None]) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011 the sentence is that of the keys
        check("hunter2")

    assert "hunter2" not in str(caught.value)


def test_a_path_may_be_text() -> None:
    assert read(kinds.path(), "~/x") == read(kinds.path(), Path("~/x")) == Path("~/x")
