import httpx
import pytest

from holdfast.emulator import Emulator, Request


def test_request_without_user_agent_is_403(emulator: Emulator) -> None:
    answer = emulator.handle(Request.from_target("GET", "/user"))

    assert answer.status == 403
    assert "User-Agent" in answer.json()["message"]


@pytest.mark.parametrize(
    ("version", "status"), [("2022-11-28", 200), ("2026-03-10", 200), ("2019-01-01", 400)]
)
def test_unknown_api_version_is_400(client: httpx.Client, version: str, status: int) -> None:
    answer = client.get("branches", headers={"x-github-api-version": version})

    assert answer.status_code == status


@pytest.mark.parametrize("credentials", ["token good", "Bearer good", "bearer  good"])
def test_named_token_is_taken(emulator: Emulator, client: httpx.Client, credentials: str) -> None:
    emulator.change_options(token="good")

    assert client.get("branches", headers={"authorization": credentials}).status_code == 200


@pytest.mark.parametrize(
    ("headers", "message"),
    [
        ({"authorization": "token bad"}, "Bad credentials"),
        ({"authorization": "Basic good"}, "Bad credentials"),
        ({}, "Requires authentication"),
    ],
)
def test_any_other_token_is_401(
    emulator: Emulator, client: httpx.Client, headers: dict[str, str], message: str
) -> None:
    emulator.change_options(token="good")

    answer = client.get("branches", headers=headers)

    assert (answer.status_code, answer.json()["message"]) == (401, message)


def test_revoked_token_is_401_until_it_is_good_again(emulator: Emulator, client: httpx.Client) -> None:
    emulator.switch(token_revoked=True)
    refused = client.get("branches")
    emulator.switch(token_revoked=False)

    assert (refused.status_code, refused.json()["message"]) == (401, "Bad credentials")
    assert client.get("branches").status_code == 200


def test_repository_that_is_gone_is_404(emulator: Emulator, client: httpx.Client) -> None:
    emulator.switch(repository_gone=True)

    assert client.get("branches").status_code == 404
    assert client.get("http://emulator/user").status_code == 200


def test_unknown_repository_route_and_method_are_404(client: httpx.Client) -> None:
    assert client.get("http://emulator/repos/holdfast/none").status_code == 404
    assert client.get("http://emulator/nonsense").status_code == 404
    assert client.post("branches").status_code == 404


def test_names_are_compared_without_regard_to_case(client: httpx.Client) -> None:
    assert (
        client.get("http://emulator/repos/Holdfast/CHECKPOINTS").json()["full_name"] == "holdfast/checkpoints"
    )


def test_enterprise_addresses_are_served(client: httpx.Client) -> None:
    assert client.get("http://emulator/api/v3/repos/holdfast/checkpoints").status_code == 200
    assert client.get("http://emulator/api/v3").status_code == 200
    assert client.get("http://emulator/meta").status_code == 200


def test_renamed_repository_redirects_and_is_served_by_number_and_new_name(
    emulator: Emulator, client: httpx.Client
) -> None:
    emulator.switch(renamed={"holdfast/checkpoints": "holdfast/moved"})
    body = {"message": "m", "content": ""}

    read = client.get("contents/a%20b?ref=main")
    written = client.put("contents/a%20b", json=body)
    followed = client.put("contents/a%20b", json=body, follow_redirects=True)

    assert (read.status_code, written.status_code) == (301, 307)
    assert read.headers["location"].endswith("/contents/a%20b?ref=main")
    assert "/repositories/" in written.headers["location"]
    assert followed.status_code == 201
    assert emulator.journal.entries[-1].is_content
    assert client.get("http://emulator/repos/holdfast/moved").json()["full_name"] == "holdfast/moved"
    assert (
        client.get("http://emulator/repos/holdfast/checkpoints", follow_redirects=True).json()["full_name"]
        == "holdfast/moved"
    )


def test_unknown_number_is_404(client: httpx.Client) -> None:
    assert client.get("http://emulator/repositories/1/branches").status_code == 404


def test_several_repositories_live_under_one_root(emulator: Emulator, client: httpx.Client) -> None:
    emulator.create_repository("other/place")

    made = client.put("http://emulator/repos/other/place/contents/a", json={"message": "m", "content": ""})

    assert made.status_code == 201
    assert client.get("branches").json() == []


def test_read_only_token_sees_so_in_the_repository(emulator: Emulator, client: httpx.Client) -> None:
    emulator.switch(read_only=True)

    permissions = client.get("http://emulator/repos/holdfast/checkpoints").json()["permissions"]

    assert (permissions["push"], permissions["pull"]) == (False, True)
