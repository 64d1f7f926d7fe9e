import re

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from holdfast.format.ids import parse_at, parse_checkpoint_id, parse_run_id, parse_timestamp
from holdfast.format.paths import Layout

SAFE = re.compile(r"checkpoints/[A-Za-z0-9][A-Za-z0-9._-]{0,127}/index\.json")


@pytest.mark.parametrize(
    "name", ["build-42", "550e8400-e29b-41d4-a716-446655440000", "1", "a" * 128, "n8n_17.2", "v1.0", "x.git"]
)
def test_names_that_others_use_are_taken_as_they_are(name: str) -> None:
    assert parse_run_id(name) == name


@pytest.mark.parametrize(
    "name",
    ["", ".", "..", "../up", "a/b", "a\\b", "a%2e%2e", ".git", "-x", "_x", "a b", "a\n", "a\x00", "ü",
     "\u0430", "a" * 129, "a..b", "end.", "CON", "con.txt", "Lpt1", "NUL",
     "preserved_runs.json", "retention_log.json"],
)  # fmt: skip
def test_names_that_could_lead_astray_are_refused(name: str) -> None:
    with pytest.raises(ValueError, match=r"use 1 to 128|no '\.\.'|something else"):
        parse_run_id(name)


@pytest.mark.slow
@settings(max_examples=20 * settings().max_examples)
@given(st.text(alphabet=st.sampled_from("aZ09._-/\\% \x00\n~ü") | st.characters(), max_size=140))
@example("a/../../b")
def test_no_name_ever_leads_outside_of_the_run_folder(name: str) -> None:
    try:
        run_id = parse_run_id(name)
    except ValueError:
        return
    path = Layout().path(run_id, "index.json")
    assert SAFE.fullmatch(path)
    assert ".." not in path


def test_checkpoint_id_is_a_uuid_in_one_spelling() -> None:
    assert parse_checkpoint_id("{550E8400E29B41D4A716446655440000}") == "550e8400-e29b-41d4-a716-446655440000"
    with pytest.raises(ValueError, match="use a UUID"):
        parse_checkpoint_id("550e8400")


@pytest.mark.parametrize(
    "text", ["2026-11-16T10:00:00Z", "2026-11-16T10:00:00.123456+01:00", "20261116T100000Z"]
)
def test_moment_is_kept_as_it_was_written(text: str) -> None:
    assert parse_timestamp(text) == text


@pytest.mark.parametrize("text", ["", "now", "2026-13-01T00:00:00Z", "1763287200"])
def test_what_is_no_moment_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="ISO 8601"):
        parse_timestamp(text)


def test_a_place_is_a_number_or_an_id() -> None:
    assert parse_at("7") == 7
    assert parse_at("12345678901234567890123456789012") == "12345678-9012-3456-7890-123456789012"


@pytest.mark.parametrize("text", ["", "0", "-1", "x", "9" * 40])
def test_what_is_no_place_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="counts from 1, or its id"):
        parse_at(text)
