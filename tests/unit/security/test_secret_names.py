"""Names that tell of a secret, in any spelling."""

import pytest

from holdfast.security.secret_names import is_telling


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
        "passwords",
        "DB_PASS",
        "smtpPass",
        "api-tokens",
        "refreshTokens",
        "id_token",
        "session_token",
    ],
)
def test_telling(name: str) -> None:
    assert is_telling(name)


@pytest.mark.parametrize(
    "name",
    [
        "max_tokens",
        "tokens",
        "valid_tokens",
        "max_id_tokens",
        "paid_tokens",
        "total_session_tokens",
        "token_count",
        "secret_name",
        "keys",
        "passed",
        "tests_pass",
        "PWD",
        "OLDPWD",
        "",
    ],
)
def test_not_telling(name: str) -> None:
    assert not is_telling(name)
