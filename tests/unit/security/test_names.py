"""Names that tell of a secret, in any spelling."""

import pytest

from holdfast.jsontext.parse import parse_value
from holdfast.security.names import is_telling
from holdfast.security.redaction import _Search


@pytest.mark.parametrize(
    "name",
    [
        "password",
        "dbPassword",
        "DB_PASSWORD",
        "user-password",
        "api_key",
        "apiKey",
        "X-Api-Key",
        "Authorization",
        "Set-Cookie",
        "cookies",
        "client_secret",
        "clientSecret",
        "access_token",
        "TOKEN",
        "private key",
        "passwd2",
    ],
)
def test_telling(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    ["max_tokens", "tokens", "token_count", "secret_name", "keys", "passed", "author", "description", ""],
)
def test_not_telling(name: str) -> None:
    assert not is_telling(name)


@pytest.mark.parametrize("between", ["", "_", " - ", "é", r"\t", r"\u00e9", r"\""])
@pytest.mark.parametrize("end", ["", "Value", "2", "_header", "string "])
def test_every_telling_name_is_worth_a_look(between: str, end: str) -> None:
    search = _Search("strict", ())
    words = ["pass word", "pass wd", "pass phrase", "pwd", "client secrets", "api key", "access keys"]
    words += ["refresh tokens", "Authorization", "bearer", "set cookie", "credentials", "connection string"]
    for word in (*words, "token", "dsn", "otp", "pin code", "my dbPASSWORD"):
        name = f'"{word.replace(" ", between)}{end}"'
        assert is_telling(parse_value(name.encode())), name
        assert search.is_suspect(f'{{{name} : "x"}}'.encode()), name


@pytest.mark.parametrize("name", ["tokens", "max_tokens", "key", "shipping", "keys", "string", "passed"])
def test_a_name_that_tells_nothing_is_worth_no_look(name: str) -> None:
    assert not _Search("strict", ()).is_suspect(f'{{"{name}": "x"}}'.encode())
