import pickle
from base64 import b64encode
from datetime import UTC, datetime
from enum import IntEnum, StrEnum
from typing import Any, NamedTuple

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st
from langchain_core.messages import HumanMessage
from langgraph.checkpoint.serde.jsonplus import JsonPlusSerializer

from holdfast.langgraph.values import MARK, decode_value, encode_members, encode_value

SERDE = JsonPlusSerializer(allowed_msgpack_modules=None)


class Colour(StrEnum):
    RED = "red"


class Level(IntEnum):
    HIGH = 1


class Pair(NamedTuple):
    first: int
    second: int


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.text(),
    lambda inner: (
        st.lists(inner)
        | st.dictionaries(st.text(st.characters(exclude_characters="$", exclude_categories=["Cs"])), inner)
    ),
    max_leaves=10,
)


def through_json(value: Any) -> Any:
    return decode_value(orjson.loads(orjson.dumps(encode_value(value, SERDE))), SERDE)


def stored(value: Any) -> Any:
    return orjson.loads(orjson.dumps(encode_value(value, SERDE)))


@given(JSON)
def test_json_is_stored_as_it_is(value: Any) -> None:
    assert stored(value) == value
    assert through_json(value) == value


def test_text_with_a_dollar_sign_is_stored_as_it_is() -> None:
    value = {"price": "$5", "said": '"$a": 1', "a$": 1}
    assert through_json(value) == value
    assert stored({"price": "$5"}) == {"price": "$5"}


@pytest.mark.parametrize(
    "value",
    [{1, 2}, b"\x00\xff", datetime(2026, 11, 17, tzinfo=UTC), {"a": {1}}, {1: "one"}, {MARK: 1}],
)
def test_everything_else_comes_back_equal_and_is_marked(value: Any) -> None:
    assert stored(value).keys() == {MARK}
    assert through_json(value) == value
    assert type(through_json(value)) is type(value)


@pytest.mark.parametrize("value", [Colour.RED, Level.HIGH, Pair(1, 2), float("nan"), {"$part": 1}])
def test_what_json_would_change_is_marked(value: Any) -> None:
    assert stored([value]).keys() == {MARK}


def test_pickle_is_refused_unless_a_serializer_for_it_is_given() -> None:
    pickled = JsonPlusSerializer(pickle_fallback=True)
    pickle_of_one = {MARK: ["pickle", b64encode(pickle.dumps(1)).decode()]}

    with pytest.raises(NotImplementedError, match="pickle"):
        decode_value(pickle_of_one, SERDE)
    assert decode_value(pickle_of_one, pickled) == 1


def test_what_holds_objects_is_not_tried_as_json_first(monkeypatch: pytest.MonkeyPatch) -> None:
    tried: list[object] = []
    monkeypatch.setattr("holdfast.langgraph.values.dump_plain", tried.append)

    encode_members({"messages": [HumanMessage("a")], "at": datetime.now(UTC)}, SERDE)
    assert tried == []

    encode_members({"n": 1, "pair": (1, "b")}, SERDE)
    assert tried[0] == {"n": 1, "pair": (1, "b")}
