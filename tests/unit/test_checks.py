"""Each check lets through what is meant, and says what is wrong with the rest."""

from enum import StrEnum
from typing import Any

import pytest

from holdfast import checks


class Colour(StrEnum):
    RED = "red"
    BLUE = "blue"


@pytest.mark.parametrize(
    ("check", "value", "meant"),
    [
        (checks.text(), "", ""),
        (checks.text(least=1, most=2), "äö", "äö"),
        (checks.whole_number(least=1, most=3), 3, 3),
        (checks.number, 1.5, 1.5),
        (checks.number, -2, -2),
        (checks.written_whole_number(least=0), " 12 ", 12),
        (checks.written_whole_number(least=0), "3.0", 3),
        (checks.written_whole_number(least=0), "9007199254740993", 9007199254740993),
        (checks.written_whole_number(least=0), "+9007199254740993", 9007199254740993),
        (checks.written_whole_number(least=0), 9007199254740993, 9007199254740993),
        (checks.written_number(least=0), "1.5", 1.5),
        (checks.written_number(least=0, above=True), 1, 1.0),
        (checks.written_flag, "Yes", True),
        (checks.written_flag, "0", False),
        (checks.written_flag, False, False),
        (checks.one_of("on", "off"), "on", "on"),
        (checks.member_of(Colour), "red", Colour.RED),
    ],
)
def test_what_is_meant_passes(check: checks.Check, value: Any, meant: Any) -> None:
    checked = check(value)

    assert checked == meant
    assert type(checked) is type(meant)


@pytest.mark.parametrize(
    ("check", "value", "reason"),
    [
        (checks.text(), 5, "a valid string"),
        (checks.text(), b"x", "a valid string"),
        (checks.text(), "\ud800", "half a character"),
        (checks.text(least=1), "", "at least 1 character"),
        (checks.text(most=2), "abc", "at most 2 characters"),
        (checks.whole_number(least=1), True, "a valid integer"),
        (checks.whole_number(least=1), "1", "a valid integer"),
        (checks.whole_number(least=1), 1.0, "a valid integer"),
        (checks.whole_number(least=1), 0, "greater than or equal to 1"),
        (checks.whole_number(least=1, most=5000), 5001, "less than or equal to 5,000"),
        (checks.number, "1", "a valid number"),
        (checks.number, True, "a valid number"),
        (checks.number, float("nan"), "a valid number"),
        (checks.number, 10**400, "a valid number"),
        (checks.written_whole_number(least=0), "many", "a valid number"),
        (checks.written_whole_number(least=0), "1.5", "a valid integer"),
        (checks.written_whole_number(least=0), "-1", "greater than or equal to 0"),
        (checks.written_whole_number(least=0), "9" * 400, "a valid number"),
        (checks.written_number(least=0), True, "a valid number"),
        (checks.written_number(least=0), "nan", "a valid number"),
        (checks.written_number(least=0), "inf", "a valid number"),
        (checks.written_number(least=0, above=True), 0, "greater than 0"),
        (checks.written_number(least=0, most=2), 3, "less than or equal to 2"),
        (checks.written_flag, "maybe", "true or false"),
        (checks.one_of("on", "off"), "On", "'on' or 'off'"),
        (checks.one_of("on", "off"), ["on"], "'on' or 'off'"),
        (checks.member_of(Colour), "green", "'red' or 'blue'"),
        (checks.member_of(Colour), 7, "'red' or 'blue'"),
    ],
)
def test_what_is_not_meant_is_refused_with_the_reason(check: checks.Check, value: Any, reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        check(value)
