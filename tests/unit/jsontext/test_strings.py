"""Strings where they stand: pointers and escapes."""

import itertools
import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jsontext.strings import unescape, walk_strings

VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=20,
)


def resolve(value: object, pointer: str) -> object:
    for step in pointer.split("/")[1:]:
        name = step.replace("~1", "/").replace("~0", "~")
        value = value[int(name)] if isinstance(value, list) else value[name]  # type: ignore[index]
    return value


@pytest.mark.slow
@given(VALUES, st.booleans())
def test_every_string_and_number_is_found_under_its_pointer(value: object, is_ascii: bool) -> None:
    text = json.dumps(value, ensure_ascii=is_ascii).encode("utf-8", "surrogatepass")
    for cursor in walk_strings(text):
        if not cursor.is_name:
            assert json.loads(cursor.raw) == resolve(value, cursor.pointer())


@given(st.text(st.characters(exclude_categories=["Cs"])), st.booleans())
def test_escapes_are_undone_and_every_part_is_found_again(text: str, is_ascii: bool) -> None:
    raw = json.dumps(text, ensure_ascii=is_ascii).encode()
    plain = unescape(raw)
    assert plain.content == text.encode()
    places = [0, *(len(text[:end].encode()) for end in range(1, len(text) + 1))]
    for start, end in itertools.pairwise(places):
        first, last = plain.span_in_text(start, end)
        assert json.loads(b'"' + raw[first:last] + b'"').encode() == plain.content[start:end]


def test_member_can_be_called_otherwise() -> None:
    pointers = []
    for cursor in walk_strings(b'{"a": {"b": 1}, "c": 2}'):
        if cursor.is_name and cursor.raw == b'"a"':
            cursor.rename(b'"x/y"')
        pointers.append(cursor.pointer())
    assert pointers == ["/x~1y", "/x~1y/b", "/x~1y/b", "/c", "/c"]
