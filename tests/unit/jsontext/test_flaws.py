import sys
from typing import Any

import pytest

from holdfast.errors import InvalidCheckpoint
from holdfast.jsontext.encode import encode_exact
from holdfast.jsontext.flaws import format_place
from holdfast.jsontext.members import parse_document
from holdfast.jsontext.parse import parse_exact, parse_value

ACCEPTED: list[tuple[bytes, Any]] = [
    (b"[]", []),
    (b" [ ] ", []),
    (b"{}", {}),
    (b"\t{\r\n}\n", {}),
    (b'""', ""),
    (b"0", 0),
    (b"-0", 0),
    (b"-0.0", -0.0),
    (b"123", 123),
    (b"0e1", 0.0),
    (b"0E+1", 0.0),
    (b"1e-2", 0.01),
    (b"123.456e78", 123.456e78),
    (b"1e400", float("inf")),
    (b"18446744073709551616", 2**64),
    (b"true", True),
    (b"false", False),
    (b"null", None),
    (b"[null,true,false]", [None, True, False]),
    (b'{"":0}', {"": 0}),
    (b'{"a":{"a":{"a":1}}}', {"a": {"a": {"a": 1}}}),
    (b'[{"a":1},{"a":2}]', [{"a": 1}, {"a": 2}]),
    (b'{"a":[],"b":{},"c":[[],{}]}', {"a": [], "b": {}, "c": [[], {}]}),
    (b'"\\"\\\\\\/\\b\\f\\n\\r\\t"', '"\\/\b\f\n\r\t'),
    (b'"\\u0000\\u001F\\u00e9"', "\x00\x1f\u00e9"),
    (b'"\\uD83D\\uDE00"', "\U0001f600"),
    (b'"\\\\ud800"', "\\ud800"),
    (b'"\x7f\xe2\x80\xa8\xef\xbb\xbf"', "\x7f\u2028\ufeff"),
    ('"\U0010ffff"'.encode(), "\U0010ffff"),
    (b'{"\\u0061\\n":"[,]{:}"}', {"a\n": "[,]{:}"}),
]


@pytest.mark.parametrize(("text", "value"), ACCEPTED)
def test_valid_text_is_read(text: bytes, value: Any) -> None:
    scanned = parse_value(text)

    assert repr(scanned) == repr(value)


REFUSED: list[tuple[bytes, str, int, str]] = [
    (b"", "state", 0, "expected a value, found the end of the text"),
    (b"  ", "state", 2, "the end of the text"),
    (b"[", "state[0]", 1, "the end of the text"),
    (b"{", "state", 1, "expected a name"),
    (b"]", "state", 0, "expected a value, found ']'"),
    (b'{"a', "state", 3, "expected the end of a string"),
    (b'{"a"', "state.a", 4, "expected ':'"),
    (b'{"a":', "state.a", 5, "expected a value"),
    (b'{"a":1', "state.a", 6, "expected ',' or '}'"),
    (b'{"a":1,', "state", 7, "expected a name"),
    (b'{"a":1,}', "state", 7, "expected a name in double quotes, found '}'"),
    (b'{"a":1 "b":2}', "state.a", 7, "expected ',' or '}'"),
    (b'{"a":[1]]', "state.a", 8, "expected ',' or '}'"),
    (b'{"a" 1}', "state.a", 5, "expected ':'"),
    (b'{"a":,}', "state.a", 5, "expected a value"),
    (b"{a:1}", "state", 1, "expected a name"),
    (b"{'a':1}", "state", 1, "expected a name"),
    (b"{1:1}", "state", 1, "expected a name"),
    (b"[1,]", "state[1]", 3, "expected a value, found ']'"),
    (b"[,1]", "state[0]", 1, "expected a value"),
    (b"[1,,2]", "state[1]", 3, "expected a value"),
    (b"[1 2]", "state[0]", 3, "expected ',' or ']'"),
    (b"[1}", "state[0]", 2, "expected ',' or ']', found '}'"),
    (b"[[1],[2", "state[1][0]", 7, "expected ',' or ']'"),
    (b"{}{}", "state", 2, "expected the end of the text"),
    (b"[] x", "state", 3, "expected the end of the text, found 'x'"),
    (b"1,", "state", 1, "expected the end of the text"),
    (b"[]\x00", "state", 2, "expected the end of the text"),
    (b"[1]//", "state", 3, "expected the end of the text"),
    (b"[\x0b1]", "state[0]", 1, "expected a value"),
    (b"[\xc2\xa01]", "state[0]", 1, "expected a value"),
    (b"[01]", "state[0]", 2, "no JSON number goes on with 1"),
    (b"[-01]", "state[0]", 3, "no JSON number"),
    (b"[1.]", "state[0]", 2, "no JSON number"),
    (b"[1.e5]", "state[0]", 2, "no JSON number"),
    (b"[1e]", "state[0]", 2, "no JSON number"),
    (b"[1e+]", "state[0]", 2, "no JSON number"),
    (b"[1.5.5]", "state[0]", 4, "no JSON number"),
    (b"[0x1]", "state[0]", 2, "no JSON number"),
    (b"[.5]", "state[0]", 1, ".5 is not JSON; write numbers like"),
    (b"[+1]", "state[0]", 1, "+1 is not JSON"),
    (b"[-]", "state[0]", 1, "- is not JSON"),
    ("[\u0661]".encode(), "state[0]", 1, "expected a value"),
    (b"[NaN]", "state[0]", 1, "NaN is not JSON; store null or text"),
    (b'{"a":Infinity}', "state.a", 5, "Infinity is not JSON; store null or text"),
    (b"-Infinity", "state", 0, "-Infinity is not JSON; store null or text"),
    (b"[True]", "state[0]", 1, "True is not JSON; write text in double quotes"),
    (b"[nul]", "state[0]", 1, "nul is not JSON"),
    (b"[truefalse]", "state[0]", 5, "expected ',' or ']'"),
    (b"['a']", "state[0]", 1, "expected a value"),
    (b'["\\x41"]', "state[0]", 2, "begins no escape"),
    (b'["\\u12"]', "state[0]", 2, "begins no escape"),
    (b'["\\u12G4"]', "state[0]", 2, "begins no escape"),
    (b'["ab\\', "state[0]", 4, "begins no escape"),
    (b'{"\\q":1}', "state", 2, "begins no escape"),
    (b'["a\nb"]', "state[0]", 3, "write the control character as \\u000a"),
    (b'{"a":"\x00"}', "state.a", 6, "write the control character as \\u0000"),
    (b'{"a\t":1}', "state", 3, "write the control character as \\u0009"),
    (b'["\\ud800"]', "state[0]", 1, "lone surrogate"),
    (b'["\\udc00\\ud800"]', "state[0]", 1, "lone surrogate"),
    (b'["\\ud800\\u0041"]', "state[0]", 1, "lone surrogate"),
    (b'["\\ud800abc"]', "state[0]", 1, "lone surrogate"),
    (b'{"b":{"\\uDFFF":1}}', 'state.b["\\\\uDFFF"]', 6, "lone surrogate"),
    (b'\xef\xbb\xbf{"a":1}', "state", 0, "byte order mark"),
    (b'["\xed\xa0\x80"]', "state[0]", 2, "this is not UTF-8"),
    (b'{"a":[1,"\xff"]}', "state.a[1]", 9, "this is not UTF-8"),
    (b'{"\xc3":1}', "state", 2, "this is not UTF-8"),
    (b'["\xc0\xaf"]', "state[0]", 2, "this is not UTF-8"),
    (b'["\xf4\x90\x80\x80"]', "state[0]", 2, "this is not UTF-8"),
    (b"[]\xff", "state", 2, "this is not UTF-8"),
    (b"[nul,\xff]", "state[0]", 1, "nul is not JSON"),
    (b"{\x00}", "state", 1, "expected a name"),
    ('["\u00e9",\U0001f600]'.encode(), "state[1]", 6, "expected a value"),
    (b'{"a":1,"b":[{"c":1,"d":2,"c":3}]}', "state.b[0].c", 25, "occurs twice"),
    (b'{"a":1,"\\u0061":2}', "state.a", 7, "occurs twice"),
    (b'{"":1,"":2}', 'state[""]', 6, "occurs twice"),
    (b'{"":NaN}', 'state[""]', 4, "NaN"),
]


@pytest.mark.parametrize(("text", "place", "offset", "reason"), REFUSED)
def test_invalid_text_is_refused_with_place_and_byte(
    text: bytes, place: str, offset: int, reason: str
) -> None:
    with pytest.raises(InvalidCheckpoint) as refusal:
        parse_value(text, "state")

    assert refusal.value.place == place
    assert refusal.value.reason.startswith(f"at byte {offset}: ")
    assert reason in refusal.value.reason


@pytest.mark.parametrize(("text", "place", "offset", "reason"), REFUSED)
def test_members_of_invalid_text_are_refused_alike(text: bytes, place: str, offset: int, reason: str) -> None:
    with pytest.raises(InvalidCheckpoint) as refusal:
        parse_document(text)

    assert refusal.value.place == place.removeprefix("state").removeprefix(".")
    assert reason in refusal.value.reason


def test_members_are_cut_out_as_written() -> None:
    text = '{ "a" : 1.10 ,"b":[ 1 , {"c":"}"} ] , "\\u00e9":"\u00e9 " , "d":{ } }'.encode()

    document = parse_document(text)

    assert document.value == {"a": 1.1, "b": [1, {"c": "}"}], "\u00e9": "\u00e9 ", "d": {}}
    assert [member.decode() for member in document.members.values()] == [
        "1.10",
        '[ 1 , {"c":"}"} ]',
        '"\u00e9 "',
        "{ }",
    ]


def test_exact_numbers_have_the_text_that_was_written() -> None:
    assert repr(parse_exact(b"[1,-0,1.0,1e5]")) == "[1, -0, 1.0, 1e5]"


HOSTILE: dict[str, tuple[bytes, int]] = {
    "lists": (b"[" * 10_000_000, 200),
    "objects": (b'{"a":' * 2_000_000, 1000),
    "unclosed string": (b'"' + b"a" * 10_000_000, 10_000_001),
    "unclosed escapes": (b'"' + b"\\n" * 2_000_000, 4_000_001),
    "space": (b" " * 10_000_000, 10_000_000),
    "signs": (b"-" * 10_000_000, 0),
    "digits": (b"1" * 10_000_000, 0),
    "late invalid byte": (b'"' + b"a" * 10_000_000 + b"\xff", 10_000_001),
}


@pytest.mark.slow
@pytest.mark.parametrize(("text", "offset"), HOSTILE.values(), ids=HOSTILE.keys())
def test_hostile_text_is_refused_without_recursion(text: bytes, offset: int) -> None:
    with pytest.raises(InvalidCheckpoint, match=f"at byte {offset}: ") as refusal:
        parse_value(text)

    assert len(str(refusal.value)) < 1000


def test_long_string_of_escapes_is_read() -> None:
    assert parse_value(b'"' + b"\\n" * 1_000_000 + b'"') == "\n" * 1_000_000


def test_integer_beyond_a_lowered_limit_of_python_is_refused() -> None:
    usual = sys.get_int_max_str_digits()
    sys.set_int_max_str_digits(640)
    try:
        with pytest.raises(InvalidCheckpoint, match=r"at byte 1: .*640 digits"):
            parse_value(b"[" + b"1" * 641 + b"]")
        assert encode_exact(parse_exact(b"1" * 641)) == b"1" * 641
    finally:
        sys.set_int_max_str_digits(usual)


def test_place_quotes_odd_names_and_cuts_long_ones() -> None:
    assert format_place("", ["a", 0, "b-c_1", "d.e", "", "\u00e9", "\ud800"]) == (
        'a[0].b-c_1["d.e"][""].\u00e9["\\\\ud800"]'
    )
    assert format_place("", ["x" * 100]) == '["' + "x" * 80 + '\u2026"]'
    assert len(format_place("", ["name"] * 200)) == 401
