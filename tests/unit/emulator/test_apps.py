"""The emulator checks an App as GitHub does: signature, issuer, times; tokens end after an hour."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from joserfc import jwt
from joserfc.jwk import OctKey, RSAKey

from holdfast.emulator import Answer, Emulator, EmulatorOptions, Request
from tests.fakes.app import APP_ID, key_pair, registration

NOW = 1_800_000_000


class Clock:
    now = float(NOW)


@pytest.fixture
def emulator(tmp_path: Path) -> Iterator[Emulator]:
    Clock.now = float(NOW)
    options = EmulatorOptions(root=tmp_path, repo="acme/state", app=registration(), clock=lambda: Clock.now)
    emulator = Emulator(options)
    yield emulator
    emulator.close()


def ask(emulator: Emulator, method: str, path: str, authorization: str) -> Answer:
    headers = {"user-agent": "test", "authorization": authorization}
    return emulator.handle(Request(method, path, headers=headers))


def sign(key: str = "", algorithm: str = "RS256", **claims: Any) -> str:
    whole = {"iss": str(APP_ID), "iat": NOW - 60, "exp": NOW + 540, **claims}
    used = RSAKey.import_key(key or key_pair()[0]) if algorithm == "RS256" else OctKey.import_key(key)
    return f"Bearer {jwt.encode({'alg': algorithm}, whole, used, algorithms=[algorithm])}"


@pytest.mark.slow
def test_app_finds_its_installation_and_gets_a_token(emulator: Emulator) -> None:
    found = json.loads(ask(emulator, "GET", "/repos/acme/state/installation", sign()).body)
    answer = ask(emulator, "POST", f"/app/installations/{found['id']}/access_tokens", sign())
    token = json.loads(answer.body)

    assert answer.status == 201
    assert token["expires_at"] == "2027-01-15T09:00:00Z"
    assert ask(emulator, "GET", "/repos/acme/state", f"token {token['token']}").status == 200
    assert json.loads(ask(emulator, "GET", "/app", sign()).body)["id"] == APP_ID
    Clock.now += 3600
    assert ask(emulator, "GET", "/repos/acme/state", f"token {token['token']}").status == 401


@pytest.mark.slow
@pytest.mark.parametrize(
    ("authorization", "message"),
    [
        (lambda: sign(key_pair(1)[0]), "could not be decoded"),
        (lambda: sign("k" * 40, "HS256"), "could not be decoded"),
        (lambda: "Bearer nonsense", "could not be decoded"),
        (lambda: "token ghs_1", "could not be decoded"),
        (lambda: sign(iss="1"), "Integration not found"),
        (lambda: sign(exp=NOW - 1), "future time"),
        (lambda: sign(exp=NOW + 700), "too far in the future"),
        (lambda: sign(iat=NOW + 300), "in the past"),
    ],
)
def test_what_is_wrong_with_its_word_is_refused(emulator: Emulator, authorization: Any, message: str) -> None:
    answer = ask(emulator, "GET", "/app", authorization())

    assert answer.status == 401
    assert message in json.loads(answer.body)["message"]


def test_strangers_get_nothing(emulator: Emulator) -> None:
    app = emulator.options.app
    assert app is not None
    forged = app.make_token(77, NOW + 9000)[:-1] + "x"

    assert ask(emulator, "GET", "/repos/acme/state", f"token {forged}").status == 401
    assert ask(emulator, "GET", "/repos/acme/state", "token other").status == 401
    assert ask(emulator, "POST", "/app/installations/5/access_tokens", sign()).status == 404
    emulator.change_options(app=None)
    assert ask(emulator, "GET", "/app", sign()).status == 404
