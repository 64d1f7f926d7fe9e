import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.mcp.answers import MOST_CHARACTERS, answer, cut, follow, read_document

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-1000, 1000) | st.text(max_size=200),
    lambda inner: st.lists(inner, max_size=60) | st.dictionaries(st.text(max_size=5), inner, max_size=60),
    max_leaves=80,
)


def find_cuts(value: Any) -> list[dict[str, Any]]:
    if isinstance(value, dict) and "$cut" in value:
        return [value]
    inner = value.values() if isinstance(value, dict) else value if isinstance(value, list) else ()
    return [found for each in inner for found in find_cuts(each)]


def test_small_values_are_as_they_are() -> None:
    assert cut({"a": [1, "b"]}) == {"a": [1, "b"]}


@pytest.mark.slow
@given(JSON)
def test_what_is_cut_can_be_asked_for_by_its_path(value: Any) -> None:
    for found in find_cuts(cut(value, most=300)):
        follow(value, found["path"])


@pytest.mark.parametrize(
    "value",
    [
        "x" * 100_000,
        ["x" * 1000] * 500,
        {str(n): "x" * 1000 for n in range(500)},
        [[["x" * 50] * 50] * 50] * 50,
    ],
)
def test_answers_are_short(value: Any) -> None:
    assert len(answer(value)) < 3 * MOST_CHARACTERS


def test_numbers_stay_as_they_are_written() -> None:
    document, place = read_document(b'{"a": {"b": 1.10}}', "a")
    assert (answer(document), place) == ('{"b":1.10}', "/a")


@pytest.mark.parametrize("path", ["/b", "/a/2", "/a/x", "/a/0/c"])
def test_wrong_path_says_what_is_there(path: str) -> None:
    with pytest.raises(ValueError, match="there is nothing at"):
        follow({"a": [1, 2]}, path)


def test_names_with_slashes_are_followed() -> None:
    assert follow({"a/b": {"~": 1}}, "/a~1b/~0") == 1
    assert json.loads(answer({"a/b": "x" * 9000}))["a/b"]["path"] == "/a~1b"
