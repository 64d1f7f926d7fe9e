import hashlib
import json
import tracemalloc
from collections.abc import Callable
from random import Random
from typing import Any

import orjson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.encode import encode
from holdfast.jsontext.flaws import MAX_DEPTH, find_flaw, format_place
from holdfast.jsontext.members import (
    canonical,
    find_members,
    join_members,
    parse_document,
    sha256_hex,
    split_items,
)
from holdfast.jsontext.parse import parse_value

repeatable = settings(derandomize=True, deadline=None, database=None, max_examples=80)

leaves = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.integers(min_value=-(10**4300) + 1, max_value=10**4300 - 1)
    | st.sampled_from([2**63, 2**64 - 1, 2**64, -(2**63) - 1, 0, -1])
    | st.floats(allow_nan=False, allow_infinity=False)
    | st.sampled_from([-0.0, 5e-324, 1e16, 1e22, 1.7976931348623157e308])
    | st.text()
    | st.sampled_from(["null", "\\", '"', "\x00\x1f\x7f", "\u2028", "\ufeff", "😀", "\uffff\U00010000"])
)
values = st.recursive(
    leaves, lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(), inner, max_size=4)
)
objects = st.dictionaries(st.text(), values, max_size=5)


def spell(value: Any, random: Random) -> str:
    """Write `value` in a random one of its spellings: space, escapes and the order of names vary."""

    def space() -> str:
        return "".join(random.choices(" \t\n\r", k=random.choice([0, 0, 1, 3])))

    def string(text: str) -> str:
        units = [f"\\u{unit:04{random.choice('xX')}}" for unit in _utf16_units(text)]
        return random.choice([json.dumps(text), json.dumps(text, ensure_ascii=False), f'"{"".join(units)}"'])

    if isinstance(value, dict):
        members = [f"{space()}{string(name)}{space()}:{spell(part, random)}" for name, part in value.items()]
        random.shuffle(members)
        written = "{" + (",".join(members) or space()) + "}"
    elif isinstance(value, list):
        written = "[" + (",".join(spell(part, random) for part in value) or space()) + "]"
    else:
        written = string(value) if isinstance(value, str) else encode(value).decode()
    return space() + written + space()


def _utf16_units(text: str) -> list[int]:
    coded = text.encode("utf-16-be")
    return [int.from_bytes(coded[start : start + 2]) for start in range(0, len(coded), 2)]


def nest_text(levels: int, opener: str, leaf: str) -> bytes:
    closer = {"[": "]", '{"a":': "}"}[opener]
    return (opener * levels + leaf + closer * levels).encode()


@pytest.mark.slow
@repeatable
@given(objects)
def test_encoded_value_parses_to_the_same_value(value: dict[str, Any]) -> None:
    text = encode(value)

    document = parse_document(text)

    assert document.value == value
    assert encode(document.value) == text
    assert list(document.value) == list(document.members) == list(value)
    assert join_members(document.members) == text


@pytest.mark.slow
@repeatable
@given(values)
def test_encoded_value_reads_the_same_with_the_standard_library(value: Any) -> None:
    assert json.loads(encode(value)) == parse_value(encode(value)) == value


@pytest.mark.slow
@repeatable
@given(objects, st.randoms(use_true_random=False))
def test_members_are_the_text_as_it_was_written(value: dict[str, Any], random: Random) -> None:
    written = {name: spell(part, random).strip(" \t\n\r") for name, part in value.items()}
    members = (f" {json.dumps(name)} :\n{text}\t" for name, text in written.items())

    document = parse_document(f"\r{{{','.join(members)} }}\n".encode())

    assert document.value == value
    assert document.members == {name: text.encode() for name, text in written.items()}


@pytest.mark.slow
@repeatable
@given(st.lists(values, max_size=5), st.randoms(use_true_random=False))
def test_items_are_the_text_as_it_was_written(value: list[Any], random: Random) -> None:
    written = [spell(part, random).strip(" \t\n\r").encode() for part in value]

    assert split_items(b"[\n" + b" ,\t".join(written) + b" ]") == written
    assert split_items(encode(value)) == [encode(part) for part in value]


@pytest.mark.parametrize("text", [b"{}", b"1", b' {"a":[]}'])
def test_items_of_what_is_no_array_are_refused(text: bytes) -> None:
    with pytest.raises(InvalidCheckpoint, match="must be a JSON array"):
        split_items(text)


@pytest.mark.slow
@repeatable
@given(objects)
def test_fast_and_exact_path_give_the_same_document(value: dict[str, Any]) -> None:
    text = encode(value)
    plain, spaced = parse_document(text), parse_document(b" " + text)

    assert plain.value == spaced.value == value
    assert plain.members == spaced.members


@pytest.mark.parametrize("spell", [encode, lambda value: json.dumps(value, indent=1).encode()])
def test_large_members_are_found_where_they_stand(spell: Callable[[object], bytes]) -> None:
    text = spell({"é": "é" * 20, "small": [1], "list": [1] * 30, "": {}})

    found = find_members(text, lambda _, size_bytes: size_bytes >= 40)

    assert [name for name, _, _ in found] == ["é", "list"]
    assert [json.loads(text[start:end]) for _, start, end in found] == ["é" * 20, [1] * 30]


def test_members_of_what_is_no_object_are_refused() -> None:
    with pytest.raises(InvalidCheckpoint, match="must be a JSON object"):
        find_members(b"[1]", lambda *_: True)


@pytest.mark.slow
@pytest.mark.parametrize("difference_at", [1, 2**20 - 1, 2**20, 2**21 + 5])
def test_long_text_is_compared_to_its_end(difference_at: int) -> None:
    plain = "x" * (2**21 + 10)
    escaped = f"{plain[:difference_at]}\u0078{plain[difference_at + 1 :]}"

    assert parse_document(f'{{"a":["{escaped}"]}}'.encode()).members == {"a": f'["{escaped}"]'.encode()}
    assert parse_value(f'["{escaped}"]'.encode()) == [plain]


@pytest.mark.slow
def test_many_small_members_take_hardly_more_memory_than_to_read_and_write_them() -> None:
    text = orjson.dumps({f"item-{number:05}": number for number in range(20_000)})

    needed, _ = measure_peak(lambda: orjson.dumps(orjson.loads(text)))
    peak, found = measure_peak(lambda: find_members(text, lambda _, size_bytes: size_bytes > 1000))

    assert found == []
    assert peak < 1.1 * needed


def measure_peak(work: Callable[[], Any]) -> tuple[int, Any]:
    tracemalloc.start()
    try:
        outcome = work()
        return tracemalloc.get_traced_memory()[1], outcome
    finally:
        tracemalloc.stop()


@pytest.mark.slow
@repeatable
@given(values)
def test_canonical_form_is_the_same_by_the_fast_and_the_exact_path(value: Any) -> None:
    text = encode(value)

    assert canonical(text) == canonical(b" " + text)


@pytest.mark.slow
@repeatable
@given(values)
def test_canonical_form_of_a_canonical_form_is_itself(value: Any) -> None:
    once = canonical(encode(value))

    assert canonical(once) == once
    assert canonical(once + b"\n") == once


@pytest.mark.slow
@repeatable
@given(values, st.randoms(use_true_random=False))
def test_all_spellings_of_a_value_have_one_canonical_form(value: Any, random: Random) -> None:
    assert canonical(spell(value, random).encode()) == canonical(encode(value))


@pytest.mark.slow
@repeatable
@given(values)
def test_canonical_names_are_sorted_by_code_point_at_every_level(value: Any) -> None:
    def check(pairs: list[tuple[str, Any]]) -> None:
        names = [name for name, _ in pairs]
        assert names == sorted(names)

    json.loads(canonical(encode(value)), object_pairs_hook=check)


@pytest.mark.slow
@repeatable
@given(
    st.lists(st.from_regex(r"[a-e]{1,3}", fullmatch=True) | st.integers(0, 4), max_size=12),
    st.sampled_from(['{"x":1,"x":1}', '{"x":1,"y":0,"\\u0078":{}}']),
)
def test_duplicate_name_is_refused_with_its_path_at_any_nesting(path: list[str | int], culprit: str) -> None:
    text = culprit
    for step in reversed(path):
        text = f'{{"before":{{}},"{step}":{text}}}' if isinstance(step, str) else f"[{'0,' * step}{text}]"

    with pytest.raises(InvalidCheckpoint, match="occurs twice") as refusal:
        parse_value(text.encode(), "state")

    assert refusal.value.place == format_place("state", [*path, "x"])


NUMBERS = [
    "1.10",
    "1e400",
    "-1e400",
    "-0",
    "-0.0",
    "1E5",
    "1e+05",
    "0.1e-999",
    str(2**64 + 1),
    str(-(2**63) - 1),
]


@pytest.mark.parametrize("number", [*NUMBERS, "9" * 4300, "-" + "9" * 4300, "1" * 5000 + ".5"])
def test_number_is_preserved_as_written(number: str) -> None:
    text = f'{{"n":{number},"list":[{number}]}}'.encode()

    document = parse_document(text)

    assert document.members == {"n": number.encode(), "list": f"[{number}]".encode()}
    assert canonical(text) == f'{{"list":[{number}],"n":{number}}}'.encode()


def test_integer_beyond_64_bits_is_parsed_exactly() -> None:
    assert parse_document(b'{"n":18446744073709551617}').value == {"n": 2**64 + 1}


@pytest.mark.parametrize("sign", ["", "-"])
def test_integer_of_more_than_4300_digits_is_refused(sign: str) -> None:
    with pytest.raises(InvalidCheckpoint, match=r"at byte 6: .* 4,300 digits") as refusal:
        parse_document(f'{{"n":[{sign}{"9" * 4301}]}}'.encode())

    assert refusal.value.place == "n[0]"


@pytest.mark.parametrize("opener", ["[", '{"a":'])
@pytest.mark.parametrize("leaf", ["1", "[]", "{}"])
def test_exactly_200_levels_are_parsed_and_201_are_refused(opener: str, leaf: str) -> None:
    levels = MAX_DEPTH if leaf == "1" else MAX_DEPTH - 1
    fitting, too_deep = nest_text(levels, opener, leaf), nest_text(levels + 1, opener, leaf)

    assert encode(parse_value(fitting)) == fitting
    assert canonical(fitting) == fitting
    for text in (too_deep, b" " + too_deep):
        with pytest.raises(InvalidCheckpoint, match="beyond 200 levels"):
            parse_value(text)


@pytest.mark.parametrize("leaf", ["1", "[]", "{}"])
def test_levels_of_a_document_count_from_its_outermost_object(leaf: str) -> None:
    levels = MAX_DEPTH - 1 if leaf == "1" else MAX_DEPTH - 2
    fitting = b'{"a":' + nest_text(levels, "[", leaf) + b"}"

    assert join_members(parse_document(fitting).members) == fitting
    with pytest.raises(InvalidCheckpoint, match="beyond 200 levels"):
        parse_document(b'{"a":' + nest_text(levels + 1, "[", leaf) + b"}")


@pytest.mark.parametrize("text", [b"[]", b"1", b'"a"', b"null", b" [ ]"])
def test_document_that_is_no_object_is_refused(text: bytes) -> None:
    with pytest.raises(InvalidCheckpoint, match="must be a JSON object"):
        parse_document(text)


def test_empty_object_is_a_document_without_members() -> None:
    assert parse_document(b"{}").members == parse_document(b" { } ").members == {}


def test_refusal_of_a_value_begins_with_the_given_place() -> None:
    with pytest.raises(InvalidCheckpoint) as refusal:
        parse_value(b'{"tasks":[0,{"score":NaN}]}', "state")

    assert refusal.value.place == "state.tasks[1].score"
    assert refusal.value.reason == "at byte 21: NaN is not JSON; store null or text"


def test_canonical_form_keeps_numbers_and_drops_needless_escapes_and_space() -> None:
    text = '{ "\\u0062" : [1.10, 1E5, "\\/\\u00e9\\u0000\\ud83d\\ude00"],\n"a":{"\U00010000":1,"\uffff":2} }'

    assert (
        canonical(text.encode()).decode() == '{"a":{"\uffff":2,"\U00010000":1},"b":[1.10,1E5,"/é\\u0000😀"]}'
    )


def test_members_are_joined_without_touching_their_text() -> None:
    assert join_members({'a"b': b"1.10", "é": b"[ 1 ]"}).decode() == '{"a\\"b":1.10,"é":[ 1 ]}'


@pytest.mark.slow
@repeatable
@given(st.binary(max_size=200), values, st.randoms(use_true_random=False))
def test_mutated_text_is_accepted_exactly_if_the_standard_library_accepts_it(
    noise: bytes, value: Any, random: Random
) -> None:
    text = bytearray(spell(value, random).encode())
    for byte in noise[:3]:
        start = random.randrange(len(text) + 1)
        text[start : start + random.choice([0, 1, 2])] = random.choice(
            [bytes([byte]), b"", b",", b'"', b"0", b"\\"]
        )

    expected = accept_with_standard_library(bytes(text))

    assert _outcome(parse_value, bytes(text)) == expected
    assert (_outcome(find_flaw, bytes(text)) == "refused") is (expected == "refused")


def _outcome(accept: Any, text: bytes) -> str:
    try:
        return repr(accept(text))
    except InvalidCheckpoint as refusal:
        return "refused" if "at byte " in refusal.reason else refusal.reason


def accept_with_standard_library(text: bytes) -> str:
    """Return what the json module, made strict, reads in `text`."""

    def refuse_constant(name: str) -> None:
        raise ValueError(name)

    def refuse_duplicates(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        if len(dict(pairs)) < len(pairs):
            raise ValueError(pairs)
        return dict(pairs)

    try:
        value = json.loads(text.decode(), parse_constant=refuse_constant, object_pairs_hook=refuse_duplicates)
        json.dumps(value, ensure_ascii=False).encode()
    except ValueError:
        return "refused"
    return repr(value)


def test_sha256_is_lower_case_hexadecimal() -> None:
    assert sha256_hex(b"abc") == hashlib.sha256(b"abc").hexdigest()


def test_plain_document_is_parsed_without_a_second_look(monkeypatch: pytest.MonkeyPatch) -> None:
    def fail(*_: object) -> None:
        raise AssertionError("a plain text takes the slow path")

    monkeypatch.setattr("holdfast.jsontext.large.read", fail)
    monkeypatch.setattr("holdfast.jsontext.parse.read", fail)
    text = orjson.dumps({"b": [1, 2.5, None, "é\n"], "a": {"z": {}, "y": []}})

    assert join_members(parse_document(text).members) == text
    assert parse_value(text) == orjson.loads(text)
    assert canonical(text) == orjson.dumps(orjson.loads(text), option=orjson.OPT_SORT_KEYS)
