from typing import Any

import httpx
import pytest

from holdfast.emulator import Emulator

ROOT = "http://emulator/_emulator"


def test_faults_are_added_listed_and_taken_back(client: httpx.Client) -> None:
    made = client.post(f"{ROOT}/faults", json={"faults": ["get:503:times=1", "put:cut"]}).json()
    hit = client.get("branches").status_code
    listed = client.get(f"{ROOT}/faults").json()

    assert made == {"numbers": [1, 2]}
    assert hit == 503
    assert [(rule["number"], rule["fired"]) for rule in listed] == [(1, 1), (2, 0)]
    assert client.delete(f"{ROOT}/faults/2").status_code == 204
    assert client.delete(f"{ROOT}/faults/2").status_code == 404
    assert client.delete(f"{ROOT}/faults").status_code == 204
    assert client.get(f"{ROOT}/faults").json() == []


@pytest.mark.parametrize("body", [{}, {"fault": 1}, {"faults": "put:cut"}, {"fault": "put:explode"}])
def test_wrong_fault_is_422(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post(f"{ROOT}/faults", json=body).status_code == 422


def test_journal_is_shown_and_cleared_and_does_not_list_itself(client: httpx.Client) -> None:
    client.get("branches")
    client.get("contents/none")

    shown = client.get(f"{ROOT}/journal").json()

    assert shown["count"] == 2
    assert shown["by_status"] == {"200": 1, "404": 1}
    assert shown["entries"][0] == {
        "time": 1_750_000_000.0,
        "method": "GET",
        "path": "/repos/holdfast/checkpoints/branches",
        "status": 200,
        "resource": "core",
        "is_content": False,
        "bytes_in": 0,
        "bytes_out": 2,
        "ending": "whole",
        "caller": "user ID 1",
    }
    assert client.delete(f"{ROOT}/journal").status_code == 204
    assert client.get(f"{ROOT}/journal").json()["entries"] == []


def test_options_and_troubles_are_changed(emulator: Emulator, client: httpx.Client) -> None:
    body = {"primary_limit": 7, "protected_branches": ["main"], "token_revoked": True, "clock_offset_s": 60}

    shown = client.post(f"{ROOT}/options", json=body).json()

    assert {name: shown[name] for name in body} == body
    assert shown["now"] == 1_750_000_060.0
    assert emulator.switches.protected_branches == {"main"}
    assert client.get("branches").status_code == 401


def test_budget_can_be_drawn_down(client: httpx.Client) -> None:
    client.patch(f"{ROOT}/options", json={"remaining": 1})

    assert [client.get("branches").status_code for _ in range(2)] == [200, 403]


@pytest.mark.parametrize(
    "body", [{"primary_limit": "many"}, {"renamed": 1}, {"remaining": "x"}, {"protected_branches": "main"}]
)
def test_option_of_another_type_is_refused(client: httpx.Client, body: dict[str, Any]) -> None:
    assert client.post(f"{ROOT}/options", json=body).status_code == 422


def test_unknown_option_and_route_are_refused(client: httpx.Client) -> None:
    answer = client.post(f"{ROOT}/options", json={"colour": "red"})

    assert answer.status_code == 422
    assert "No such option: colour" in answer.json()["message"]
    assert client.get(f"{ROOT}/nonsense").status_code == 404
    assert client.post(f"{ROOT}/options", content=b"{").status_code == 400
