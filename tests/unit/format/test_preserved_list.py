"""Changing the list of preserved runs changes nothing else in it."""

import json
from typing import Any

import pytest

from holdfast.errors import NewerFormat
from holdfast.format.preserved_list import change_preserved, parse_preserved

PATH = "checkpoints/preserved_runs.json"


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ([], ["b"]),
        (["c", {"run_id": "a", "why": "audit"}], [{"run_id": "a", "why": "audit"}, "b", "c"]),
        ({"owner": "me", "runs": ["a"]}, {"owner": "me", "runs": ["a", "b"]}),
        ({"a": {"why": "audit"}}, {"a": {"why": "audit"}, "b": None}),
    ],
)
def test_run_is_added_and_taken_out_without_touching_the_rest(before: Any, after: Any) -> None:
    content = json.dumps(before).encode()

    added = change_preserved(content, PATH, "b", is_wanted=True)

    assert json.loads(added) == after
    removed = change_preserved(added, PATH, "b", is_wanted=False)
    assert parse_preserved(removed, PATH) == parse_preserved(content, PATH)


def test_number_of_the_format_is_no_run() -> None:
    assert parse_preserved(b'{"format_version": 1, "a": null}', PATH) == {"a"}


def test_newer_list_is_not_changed() -> None:
    with pytest.raises(NewerFormat, match="format 2 is newer"):
        change_preserved(b'{"format_version": 2, "runs": []}', PATH, "a", is_wanted=True)
