import json
import re

import pytest

from holdfast.emulator import (
    AnswerWith,
    Cut,
    Delay,
    HeadMoves,
    LateWrite,
    Malform,
    Rule,
    Stale,
    Truncate,
    WrongLength,
    parse_fault,
)


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        ("put:503:times=3", Rule(AnswerWith(503), target="put", times=3)),
        ("put:cut-after:nth=2", Rule(Cut(after_write=True), target="put", nth=2)),
        ("any:cut", Rule(Cut())),
        ("get:stale=5", Rule(Stale(5), target="get")),
        ("read:stale", Rule(Stale(1), target="read")),
        ("read:stale-hidden=2", Rule(Stale(2, hidden=True), target="read")),
        ("any:delay=0.2", Rule(Delay(0.2))),
        ("any:status=502:p=0.5:seed=7", Rule(AnswerWith(502), probability=0.5, seed=7)),
        ("PUT:status-after=504", Rule(AnswerWith(504, after_write=True), target="put")),
        ("mutation:late=30", Rule(LateWrite(30), target="mutation")),
        ("get:truncate", Rule(Truncate(), target="get")),
        ("get:length=4", Rule(WrongLength(4), target="get")),
        ("get:malformed", Rule(Malform(), target="get")),
        ("write:head-moves", Rule(HeadMoves(), target="write")),
        (r"any:500:path=a\:b.*json$", Rule(AnswerWith(500), path="a:b.*json$")),
    ],
)
def test_text_describes_a_rule(text: str, rule: Rule) -> None:
    assert parse_fault(text) == rule


def test_secondary_limit_has_its_message_and_waiting_time() -> None:
    with_time, without = parse_fault("put:secondary=60").effect, parse_fault("put:secondary").effect

    assert isinstance(with_time, AnswerWith)
    assert isinstance(without, AnswerWith)
    assert with_time.headers == {"retry-after": "60"}
    assert without.headers == {}
    assert "secondary rate limit" in json.loads(with_time.body or "")["message"]


@pytest.mark.parametrize(
    ("text", "problem"),
    [
        ("", "needs a target and an effect"),
        ("put", "needs a target and an effect"),
        ("push:503", "unknown target 'push'; use one of any"),
        ("put:explode", "unknown effect 'explode'; use one of STATUS"),
        ("put:cut=3", "unknown effect"),
        ("put:999", "no HTTP status"),
        ("put:status=x", "not a whole number"),
        ("put:delay=-1", "not a number of seconds"),
        ("put:delay=soon", "not a number of seconds"),
        ("put:503:times=0", "must be 1 or more"),
        ("put:503:p=2", "between 0 and 1"),
        ("put:503:p=often", "between 0 and 1"),
        ("put:503:path=(", "no regular expression"),
        ("put:503:when=now", "unknown part 'when=now'; write it as TARGET"),
    ],
)
def test_wrong_text_is_refused_with_what_to_do(text: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        parse_fault(text)
