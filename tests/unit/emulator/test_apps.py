"""The emulator checks an App as GitHub does: signature, issuer, times; tokens end after an hour."""

import json
from collections.abc import Iterator
from dataclasses import replace
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


def say(emulator: Emulator, account: str, method: str, path: str, body: Any = None) -> Answer:
    """Ask with a token of an account's installation."""
    app = emulator.options.app
    assert app is not None
    token = app.make_token(app.installations[account], int(Clock.now) + 3600)
    headers = {"user-agent": "test", "authorization": f"token {token}"}
    return emulator.handle(Request(method, path, headers=headers, body=json.dumps(body).encode()))


@pytest.fixture
def two(emulator: Emulator) -> Emulator:
    emulator.change_options(app=replace(registration(acme=77, umbrella=78), limits={78: 12_500}))
    emulator.create_repository("umbrella/state")
    return emulator


def test_a_token_is_good_for_the_repositories_of_its_installation_alone(two: Emulator) -> None:
    body = {"message": "m", "content": ""}
    number = json.loads(say(two, "acme", "GET", "/repos/acme/state").body)["id"]

    assert say(two, "umbrella", "PUT", "/repos/umbrella/state/contents/a", body).status == 201
    assert say(two, "umbrella", "PUT", "/repos/Umbrella/State/contents/b", body).status == 201
    assert say(two, "umbrella", "PUT", "/repos/acme/state/contents/a", body).status == 404
    assert say(two, "umbrella", "GET", "/repos/acme/state").status == 404
    assert say(two, "umbrella", "GET", f"/repositories/{number}").status == 404
    assert say(two, "umbrella", "GET", "/api/v3/repos/acme/state").status == 404


NOBODY = "0" * 40
FIND = 'query { repository(owner: "acme", name: "state") { id ref(qualifiedName: "main") { id } } }'


def test_no_query_and_no_mutation_reaches_further(two: Emulator) -> None:
    say(two, "acme", "PUT", "/repos/acme/state/contents/a", {"message": "m", "content": ""})
    found = json.loads(say(two, "acme", "POST", "/graphql", {"query": FIND}).body)["data"]["repository"]
    inputs = [
        f'createCommitOnBranch(input: {{branch: {branch}, message: {{headline: "m"}}, '
        f'expectedHeadOid: "{NOBODY}"}})'
        for branch in (
            f'{{id: "{found["ref"]["id"]}"}}',
            '{repositoryNameWithOwner: "acme/state", branchName: "main"}',
        )
    ]
    inputs.append(
        f'updateRefs(input: {{repositoryId: "{found["id"]}", refUpdates: '
        f'[{{name: "refs/heads/main", afterOid: "{NOBODY}"}}]}})'
    )

    asked = [FIND, *(f"mutation {{ {each} {{ clientMutationId }} }}" for each in inputs)]
    for query in asked:
        (error,) = json.loads(say(two, "umbrella", "POST", "/graphql", {"query": query}).body)["errors"]
        assert error["type"] == "NOT_FOUND", error
        told = json.loads(say(two, "acme", "POST", "/graphql", {"query": query}).body)
        assert "NOT_FOUND" not in {each.get("type") for each in told.get("errors", [])}


def test_each_installation_has_limits_of_its_own(two: Emulator) -> None:
    two.change_options(primary_limit=2, content_per_minute=1)
    body = {"message": "m", "content": ""}
    path = "/repos/{}/state/contents/a"

    first = say(two, "acme", "PUT", path.format("acme"), body)
    too_much_content = say(two, "acme", "PUT", path.format("acme"), body)
    say(two, "acme", "GET", "/repos/acme/state")
    too_many = say(two, "acme", "GET", "/repos/acme/state")
    other = say(two, "umbrella", "PUT", path.format("umbrella"), body)

    assert (first.status, other.status) == (201, 201)
    assert too_much_content.status == 403
    assert "secondary rate limit" in too_much_content.json()["message"]
    assert too_many.json()["message"].startswith("API rate limit exceeded for installation ID 77.")
    limits = [answer.headers["x-ratelimit-limit"] for answer in (first, other)]
    left = [answer.headers["x-ratelimit-remaining"] for answer in (too_many, other)]
    assert (limits, left) == (["2", "12500"], ["0", "12499"])
    for account, (limit, remaining) in {"acme": (2, 0), "umbrella": (12_500, 12_499)}.items():
        core = say(two, account, "GET", "/rate_limit").json()["resources"]["core"]
        assert (core["limit"], core["remaining"]) == (limit, remaining)


def test_the_app_by_itself_uses_up_nobodys_limits(two: Emulator) -> None:
    for _ in range(3):
        ask(two, "GET", "/app", sign())

    assert say(two, "acme", "GET", "/repos/acme/state").headers["x-ratelimit-used"] == "1"


def test_a_permission_that_an_installation_lacks_is_named_as_github_names_it(two: Emulator) -> None:
    two.switch(read_only=True)

    answer = say(two, "acme", "PUT", "/repos/acme/state/contents/a", {"message": "m", "content": ""})

    assert (answer.status, answer.json()["message"]) == (403, "Resource not accessible by integration")


def test_what_is_left_can_be_drawn_down_for_all_at_once(two: Emulator) -> None:
    body = json.dumps({"remaining": 3}).encode()
    two.handle(Request("POST", "/_emulator/options", headers={}, body=body))

    for account in ("acme", "umbrella"):
        answer = say(two, account, "GET", f"/repos/{account}/state")
        assert answer.headers["x-ratelimit-remaining"] == "2"
