import pickle
from base64 import b64encode
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.langgraph.values import MARK, decode_value, encode_value, is_plain_json

SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 1


class Pair(NamedTuple):
    first: int
    second: int


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner) | st.dictionaries(st.text(), inner),
    max_leaves=10,
)


def through_json(value: Any) -> Any:
    return decode_value(orjson.loads(orjson.dumps(encode_value(value, SERDE))), SERDE)


@given(JSON.filter(is_plain_json))
def test_json_is_stored_as_it_is(value: Any) -> None:
    assert encode_value(value, SERDE) is value
    assert through_json(value) == value


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"\x00\xff", datetime(2026, 11, 17, tzinfo=UTC), {"a": {1}}, {1: "one"}, {MARK: 1}],
)
def test_everything_else_comes_back_equal_and_is_marked(value: Any) -> None:
    assert encode_value(value, SERDE).keys() == {MARK}
    assert through_json(value) == value
    assert type(through_json(value)) is type(value)


@pytest.mark.parametrize(
    "value", [Colour.RED, Level.HIGH, Pair(1, 2), 2**64, float("nan"), "\ud800", {"$part": 1}]
)
def test_what_json_would_change_is_not_taken_for_json(value: Any) -> None:
    assert not is_plain_json([value])


def test_what_is_too_deep_is_not_taken_for_json() -> None:
    deep: Any = []
    for _ in range(101):
        deep = [deep]
    assert not is_plain_json(deep)


def test_what_holds_itself_is_not_taken_for_json() -> None:
    value: list[Any] = []
    value.extend([value] * 3)
    assert not is_plain_json(value)


def test_pickle_is_refused_unless_a_serializer_for_it_is_given() -> None:
    pickled = JsonPlusSerializer(pickle_fallback=True)
    stored = {MARK: ["pickle", b64encode(pickle.dumps(1)).decode()]}

    with pytest.raises(NotImplementedError, match="pickle"):
        decode_value(stored, SERDE)
    assert decode_value(stored, pickled) == 1
