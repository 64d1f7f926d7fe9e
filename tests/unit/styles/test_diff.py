import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jsontext.encode import encode
from holdfast.styles.diff import Patch, compare

LEAVES = st.none() | st.booleans() | st.integers(-3, 3) | st.sampled_from(["", "a", "b/c", "d~e"])
VALUES = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=5)
        | st.dictionaries(st.sampled_from(["", "a", "b/c", "d~e"]), inner, max_size=3)
    ),
    max_leaves=25,
)


def apply(document: Any, patch: list[dict[str, Any]]) -> Any:
    """Carry out a JSON Patch as RFC 6902 and RFC 6901 have it, knowing nothing of ours."""
    holder = {"root": json.loads(json.dumps(document))}
    for operation in patch:
        steps = ["root", *operation["path"].split("/")[1:]]
        steps = [step.replace("~1", "/").replace("~0", "~") for step in steps]
        target: Any = holder
        for step in steps[:-1]:
            target = target[int(step)] if isinstance(target, list) else target[step]
        last: Any = int(steps[-1]) if isinstance(target, list) else steps[-1]
        if operation["op"] == "add":
            target.insert(last, operation["value"]) if isinstance(target, list) else target.update(
                {last: operation["value"]}
            )
        elif operation["op"] == "remove":
            del target[last]
        else:
            assert last in (target if isinstance(target, dict) else range(len(target)))
            target[last] = operation["value"]
    return holder["root"]


def patch_of(before: Any, after: Any) -> list[dict[str, Any]]:
    patch: list[dict[str, Any]] = json.loads(compare(encode(before), encode(after)).to_bytes())
    return patch


@given(before=VALUES, after=VALUES)
def test_patch_turns_one_document_into_the_other(before: Any, after: Any) -> None:
    result = apply(before, patch_of(before, after))

    assert json.dumps(result, sort_keys=True) == json.dumps(after, sort_keys=True)


@given(value=VALUES)
def test_same_documents_have_no_differences(value: Any) -> None:
    assert patch_of(value, value) == []


def test_what_was_appended_is_all_that_changed() -> None:
    assert patch_of({"steps": [1, 2]}, {"steps": [1, 2, 3]}) == [
        {"op": "add", "path": "/steps/2", "value": 3}
    ]


def test_what_was_put_in_the_middle_or_taken_out_leaves_the_others_alone() -> None:
    assert patch_of([1, 2, 3], [1, 9, 2, 3]) == [{"op": "add", "path": "/1", "value": 9}]
    assert patch_of([1, 2, 3], [1, 3]) == [{"op": "remove", "path": "/1"}]


def test_change_inside_a_long_list_is_told_at_its_place() -> None:
    before = [{"id": number, "status": "pending"} for number in range(50)]
    after = [dict(task) for task in before]
    after[7]["status"] = "completed"

    assert patch_of(before, after) == [{"op": "replace", "path": "/7/status", "value": "completed"}]


@pytest.mark.parametrize(
    ("before", "after", "text"),
    [
        (b"1.10", b"1.1", b'[{"op":"replace","path":"","value":1.1}]'),
        (
            b'{"a":1}',
            b'{"a":123456789012345678901}',
            b'[{"op":"replace","path":"/a","value":123456789012345678901}]',
        ),
        (b"[1]", b"[true]", b'[{"op":"replace","path":"/0","value":true}]'),
        (b'["1"]', b"[1]", b'[{"op":"replace","path":"/0","value":1}]'),
        (b'{"a":null}', b"{}", b'[{"op":"remove","path":"/a"}]'),
    ],
)
def test_numbers_and_kinds_are_told_exactly(before: bytes, after: bytes, text: bytes) -> None:
    assert compare(before, after).to_bytes() == text


def test_no_change_is_an_empty_patch() -> None:
    assert Patch([]).to_bytes() == b"[]"
