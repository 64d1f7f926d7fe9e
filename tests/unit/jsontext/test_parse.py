import pytest
from hypothesis import given
from hypothesis import strategies as st

from holdfast.jsontext.encode import encode, encode_exact
from holdfast.jsontext.parse import Number, parse_exact

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4),
    max_leaves=20,
)


@pytest.mark.parametrize(
    "text", [b"1.10", b"-0", b"1E5", b"123456789012345678901234567890", b'[1.0,{"a":1e-400}]']
)
def test_numbers_come_back_as_they_were_written(text: bytes) -> None:
    assert encode_exact(parse_exact(text)) == text


@given(value=JSON)
def test_compact_text_comes_back_as_it_was(value: object) -> None:
    text = encode(value)

    assert encode_exact(parse_exact(text)) == text


def test_number_is_neither_its_text_nor_another_spelling() -> None:
    assert Number("1") != "1"
    assert Number("1.0") != Number("1.00")
    assert len({Number("1"), Number("1")}) == 1


def test_what_is_not_json_is_not_written() -> None:
    with pytest.raises(TypeError):
        encode_exact({"a": object()})
