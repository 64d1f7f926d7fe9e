"""What is looked for in a text, and where it is found."""

import json

import pytest

from holdfast.jsontext.parse import parse_value
from holdfast.security.search import TELLING_NAME, Search, make_searches, merge
from holdfast.security.secret_names import is_telling
from tests.fakes.credentials import MAKERS, Forger

TOKEN = MAKERS["github-token"][0](Forger())


@pytest.mark.parametrize("between", ["", "_", " - ", "é", r"\t", r"\u00e9", r"\""])
@pytest.mark.parametrize("end", ["", "Value", "2", "_header", "string "])
def test_every_telling_name_is_worth_a_look(between: str, end: str) -> None:
    search = Search("strict", ())
    words = ["pass word", "pass wd", "pass phrase", "pwd", "client secrets", "api key", "access keys"]
    words += [
        "db pass",
        "pass words",
        "refresh tokens",
        "Authorization",
        "bearer",
        "set cookie",
        "credentials",
        "connection string",
    ]
    for word in (*words, "token", "dsn", "otp", "pin code", "my dbPASSWORD"):
        name = f'"{word.replace(" ", between)}{end}"'
        assert is_telling(parse_value(name.encode())), name
        assert search.is_suspect(f'{{{name} : "x"}}'.encode()), name


@pytest.mark.parametrize("name", ["tokens", "max_tokens", "key", "shipping", "keys", "string", "passed"])
def test_a_name_that_tells_nothing_is_worth_no_look(name: str) -> None:
    assert not Search("strict", ()).is_suspect(f'{{"{name}": "x"}}'.encode())


def test_a_credential_is_found_where_it_stands() -> None:
    (span,) = Search("known", ()).find(f"with {TOKEN} in it".encode())
    assert span == (5, 5 + len(TOKEN), "github-token")
    assert list(Search("off", ()).find(TOKEN.encode())) == []


def test_only_strict_searches_texts_for_names() -> None:
    text = json.dumps({"a": json.dumps({"password": "hunter2"})}).encode()
    assert list(Search("known", ()).find(text)) == []
    ((start, end, kind),) = Search("strict", ()).find(text)
    assert (text[start:end], kind) == (b"hunter2", TELLING_NAME)


def test_names_alone_make_a_text_suspect_but_not_in_itself() -> None:
    search = Search("strict", ())
    text = b'{"password": "hunter2"}'
    assert search.is_suspect(text)
    assert not search.is_suspect_in_itself(text)
    assert search.is_suspect_in_itself(json.dumps(text.decode()).encode())


def test_spans_that_overlap_become_one() -> None:
    assert merge([(5, 9, "b"), (0, 6, "a"), (9, 10, "c")]) == [(0, 9, "a"), (9, 10, "c")]


def test_secrets_that_are_mere_words_are_not_looked_for() -> None:
    assert make_searches("off", "known", ("short", "long enough", "long enough"))[0].secrets == (
        "long enough",
    )
