import datetime
import enum
import gc
import sys
from collections import OrderedDict, defaultdict, deque, namedtuple
from dataclasses import dataclass
from decimal import Decimal
from pathlib import PurePosixPath
from types import SimpleNamespace
from typing import Any
from uuid import UUID

import orjson
import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.encode import dump_plain, encode
from holdfast.jsontext.flaws import MAX_DEPTH
from holdfast.jsontext.parse import parse_value

Pair = namedtuple("Pair", "a b")


class Status(enum.StrEnum):
    DONE = "done"


class Level(enum.IntEnum):
    HIGH = 3


class Choice(enum.Enum):
    WORDS = ("a", "b")
    UNKNOWN = float("nan")
    HUGE = 2**70


class Name(str):
    __slots__ = ()


class Count(int):
    pass


class Ratio(float):
    pass


class Items(list[Any]):
    pass


@dataclass
class Task:
    name: str


class Model:
    def model_dump(self) -> dict[str, Any]:
        return {}


class Array:
    def tolist(self) -> list[Any]:
        return []


def nest(levels: int, kind: str, leaf: Any) -> Any:
    for _ in range(levels):
        leaf = {"list": [leaf], "tuple": (leaf,), "dict": {"a": leaf}, "items": Items([leaf])}[kind]
    return leaf


FAITHFUL: list[tuple[Any, str]] = [
    ({"b": 1, "a": [None, True, 1.5, "é\n"]}, '{"b":1,"a":[null,true,1.5,"é\\n"]}'),
    ((1, (2, ())), "[1,[2,[]]]"),
    (2**64, "18446744073709551616"),
    (-(2**63) - 1, "-9223372036854775809"),
    ([2**70, 0.1, -0.0, 5e-324], "[1180591620717411303424,0.1,-0.0,5e-324]"),
    (10**4300 - 1, "9" * 4300),
    (UUID(int=5), '"00000000-0000-0000-0000-000000000005"'),
    ([Status.DONE, Level.HIGH, Choice.WORDS], '["done",3,["a","b"]]'),
    (
        [Choice.HUGE, Choice.WORDS, UUID(int=5)],
        '[1180591620717411303424,["a","b"],"00000000-0000-0000-0000-000000000005"]',
    ),
    ({Status.DONE: 1, Name("n"): Name("v")}, '{"done":1,"n":"v"}'),
    ([Name("a"), Count(7), Ratio(0.1), Count(2**65)], '["a",7,0.1,36893488147419103232]'),
    ([OrderedDict(b=1, a=2), defaultdict(int, x=1), Items([1])], '[{"b":1,"a":2},{"x":1},[1]]'),
    ("null", '"null"'),
]


@pytest.mark.parametrize(("value", "text"), FAITHFUL, ids=[text[:40] for _, text in FAITHFUL])
def test_value_is_written_faithfully(value: Any, text: str) -> None:
    assert encode(value).decode() == text


@pytest.mark.parametrize(("value", "text"), FAITHFUL, ids=[text[:40] for _, text in FAITHFUL])
def test_value_beside_one_that_needs_a_copy_is_written_alike(value: Any, text: str) -> None:
    assert encode([value, 2**70]).decode() == f"[{text},1180591620717411303424]"


def test_fragment_is_believed() -> None:
    assert encode({"a": orjson.Fragment(b"[1.10]"), "b": 2**70}) == b'{"a":[1.10],"b":1180591620717411303424}'


LONE = "\ud800"
REFUSED: list[tuple[Any, str, str]] = [
    (float("nan"), "state", "nan is not JSON; store None or text"),
    ({"error": None, "a": [1, float("inf")]}, "state.a[1]", "inf is not JSON"),
    ([Ratio("-inf")], "state[0]", "-inf is not JSON"),
    ([Choice.UNKNOWN], "state[0]", "nan is not JSON"),
    ({"tasks": [0, 0, 0, {"score": 10**4300}]}, "state.tasks[3].score", "more than 4,300 digits"),
    (-(10**4300), "state", "more than 4,300 digits"),
    ([LONE], "state[0]", "lone surrogate"),
    ({"a": {"x" + LONE: 1}}, 'state.a["x\\\\ud800"]', "lone surrogate"),
    ({"a": {1: 2}}, "state.a[1]", "the key is of type int; keys are text, use str() of it"),
    ({None: 2}, "state.None", "the key is of type NoneType"),
    ({True: 2}, "state.True", "the key is of type bool"),
    ({(1, 2): 2}, 'state["(1, 2)"]', "the key is of type tuple"),
    (
        {"at": datetime.datetime(2026, 1, 1, tzinfo=datetime.UTC)},
        "state.at",
        "datetime is not JSON; store its isoformat() text",
    ),
    (datetime.date(2026, 1, 1), "state", "store its isoformat() text"),
    (datetime.time(1), "state", "store its isoformat() text"),
    (b"a", "state", "bytes is not JSON; store text, for example base64"),
    ([{1, 2}], "state[0]", "set is not JSON; store a sorted list"),
    (Decimal(1), "state", "store str() of it"),
    (PurePosixPath("a"), "state", "store str() of it"),
    (Task("a"), "state", "Task is not JSON; store dataclasses.asdict() of it"),
    (Pair(1, 2), "state", "store its _asdict()"),
    (Model(), "state", "store its model_dump()"),
    (Array(), "state", "store its tolist()"),
    (deque([1]), "state", "deque is not JSON; store text, numbers, lists and dicts instead"),
]


@pytest.mark.parametrize(
    ("value", "place", "reason"), REFUSED, ids=[f"{place} {reason}" for _, place, reason in REFUSED]
)
def test_what_is_not_json_is_refused_with_its_place_and_advice(value: Any, place: str, reason: str) -> None:
    with pytest.raises(InvalidCheckpoint) as refusal:
        encode(value, "state")

    assert refusal.value.place == place
    assert reason in refusal.value.reason


class Twin(str):
    __slots__ = ()

    def __hash__(self) -> int:
        return id(self)

    def __eq__(self, other: object) -> bool:
        return self is other


def test_keys_that_are_the_same_text_are_refused() -> None:
    with pytest.raises(InvalidCheckpoint, match=r"^state.a: the key occurs twice"):
        encode({Twin("a"): 1, Twin("a"): 2}, "state")


@pytest.mark.parametrize("kind", ["list", "tuple", "dict", "items"])
@pytest.mark.parametrize("leaf", [1, 2**70, [], {}, ()])
def test_exactly_200_levels_are_encoded_and_201_are_refused(kind: str, leaf: Any) -> None:
    levels = MAX_DEPTH if isinstance(leaf, int) else MAX_DEPTH - 1

    text = encode(nest(levels, kind, leaf))

    assert encode(parse_value(text)) == text
    with pytest.raises(InvalidCheckpoint, match="beyond 200 levels"):
        encode(nest(levels + 1, kind, leaf), "state")


@pytest.mark.parametrize("kind", ["list", "tuple", "dict"])
def test_extreme_nesting_is_refused_instead_of_ending_the_process(kind: str) -> None:
    with pytest.raises(InvalidCheckpoint, match="beyond 200 levels"):
        encode(nest(20_000, kind, None))


def test_value_that_contains_itself_is_refused_where_it_comes_back() -> None:
    state: dict[str, Any] = {"tasks": [1]}
    state["tasks"].append({"owner": state})

    with pytest.raises(InvalidCheckpoint, match="the value contains itself") as refusal:
        encode(state, "state")

    assert refusal.value.place == "state.tasks[1].owner"


@pytest.mark.slow
@pytest.mark.parametrize("times", [2, 50, 1000])
def test_list_that_contains_itself_many_times_is_refused(times: int) -> None:
    loop: list[Any] = []
    loop += [loop] * times

    with pytest.raises(InvalidCheckpoint, match="the value contains itself"):
        encode(loop)


def test_value_that_occurs_twice_without_a_circle_is_written_twice() -> None:
    shared = {"a": [1]}

    assert encode([shared, shared]) == b'[{"a":[1]},{"a":[1]}]'


def test_plain_value_needs_no_copy() -> None:
    assert dump_plain({"a": [1, (2.5, None)], "b": {}}) == b'{"a":[1,[2.5,null]],"b":{}}'


def test_integer_beyond_a_lowered_limit_of_python_is_refused() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidCheckpoint, match=r"^state\[0\]: .*640 digits"):
            encode([10**640], "state")
    finally:
        sys.set_int_max_str_digits(usual)


def test_tuple_nested_without_end_is_refused_and_does_not_end_the_process() -> None:
    value: tuple[Any, ...] = ()
    for _ in range(100_000):
        value = (value,)

    with pytest.raises(InvalidCheckpoint, match="levels"):
        encode(value, "state")


@pytest.mark.parametrize("beside", [[], [0.5] * 20_000, [Status.DONE], [UUID(int=7)] * 3000])
def test_deep_tuple_is_found_whatever_lies_beside_it(beside: list[object]) -> None:
    value: tuple[Any, ...] = ()
    for _ in range(5000):
        value = (value,)

    with pytest.raises(InvalidCheckpoint, match="levels"):
        encode({"beside": beside, "deep": [value]}, "state")


def test_class_of_a_value_is_not_searched_for_what_lies_behind_it(monkeypatch: pytest.MonkeyPatch) -> None:
    visited: list[int] = []

    def get_referents(*values: object) -> list[Any]:
        visited.append(len(values))
        return gc.get_referents(*values)

    monkeypatch.setattr("holdfast.jsontext.encode.gc", SimpleNamespace(get_referents=get_referents))

    assert encode({"a": [Status.DONE]}) == b'{"a":["done"]}'
    assert sum(visited) < 1000


@pytest.mark.parametrize("beside", [[None], ["null"], [None, "a null in a text", {"deep": None}]])
def test_what_is_no_number_is_found_among_nulls(beside: list[object]) -> None:
    whole = {"few": beside, "many": [0.5] * 50}
    assert orjson.loads(encode(whole)) == whole

    with pytest.raises(InvalidCheckpoint, match="nan is not JSON"):
        encode({**whole, "many": [0.5] * 50 + [float("nan")]})
