"""Claims over HTTP, as a program in any language asks for them."""

import pytest

from holdfast.claims.known import KnownClaims
from holdfast.drain.fencing import FenceGate
from holdfast.format.moments import epoch
from tests.fakes.sidecar import RunningSidecar


@pytest.mark.slow
def test_a_run_is_claimed_renewed_and_released_with_its_token(sidecar: RunningSidecar) -> None:
    url = "/v1/runs/claimed-1/claim"
    taken = sidecar.client.post(url, json={"owner": "worker-1", "ttl_s": 60})
    claim = taken.json()
    assert taken.status_code == 201
    assert claim.keys() == {"token", "fence", "owner", "expires_at"}
    assert (claim["fence"], claim["owner"]) == (1, "worker-1")

    held = sidecar.client.post(url, json={"owner": "worker-2"})
    assert (held.status_code, held.json()["code"], held.json()["owner"]) == (409, "claimed", "worker-1")
    assert held.json()["expires_at"] == claim["expires_at"]
    assert int(held.headers["Retry-After"]) > 0

    renewed = sidecar.client.put(url, json={"token": claim["token"], "ttl_s": 600})
    assert renewed.status_code == 200
    assert renewed.json()["fence"] == 1
    assert epoch(renewed.json()["expires_at"]) - epoch(claim["expires_at"]) >= 539

    foreign = sidecar.client.request("DELETE", url, json={"token": "guessed"})
    assert (foreign.status_code, foreign.json()["code"]) == (409, "fenced")
    released = sidecar.client.request("DELETE", url, json={"token": claim["token"]})
    assert (released.status_code, released.json()["released"]) == (200, True)
    assert sidecar.client.put(url, json={"token": claim["token"]}).status_code == 409
    again = sidecar.client.post(url, json={"owner": "worker-2"})
    assert (again.status_code, again.json()["fence"]) == (201, 2)


def test_a_checkpoint_with_an_older_fence_is_refused(sidecar: RunningSidecar) -> None:
    url = "/v1/runs/claimed-2/claim"
    first = sidecar.client.post(url, json={"owner": "a"}).json()
    saved = sidecar.submit("claimed-2", fence=first["fence"])
    sidecar.client.request("DELETE", url, json={"token": first["token"]})
    released = sidecar.submit("claimed-2", fence=first["fence"])
    second = sidecar.client.post(url, json={"owner": "b"}).json()
    older = sidecar.submit("claimed-2", fence=first["fence"])
    newer = sidecar.submit("claimed-2", fence=second["fence"])
    unfenced = sidecar.submit("claimed-2")

    assert saved.status_code == 202
    assert (released.status_code, released.json()["code"]) == (409, "fenced")
    assert (older.status_code, older.json()["code"], older.json()["fence"]) == (409, "fenced", 2)
    assert (newer.status_code, unfenced.status_code) == (202, 202)


@pytest.mark.slow
def test_what_cannot_be_claimed_is_refused_with_the_place(sidecar: RunningSidecar) -> None:
    url = "/v1/runs/claimed-3/claim"
    wrong: list[object] = [{}, {"owner": ""}, {"owner": 3}, {"owner": "a", "ttl_s": 1}, []]
    for body in [*wrong, {"owner": "a", "ttl_s": "x"}, {"owner": "a", "more": 1}]:
        assert sidecar.client.post(url, json=body).status_code == 422, body
    assert sidecar.client.put(url, json={"ttl_s": 60}).status_code == 422
    assert sidecar.client.put(url, json={"token": "x"}).status_code == 409
    assert sidecar.client.request("DELETE", url, json={"token": "x"}).status_code == 409
    assert sidecar.client.post("/v1/runs/..x/claim", json={"owner": "a"}).status_code == 422
    assert sidecar.submit("claimed-3", fence="1").status_code == 422
    assert sidecar.submit("claimed-3", fence=0).status_code == 422


@pytest.mark.slow
def test_what_came_after_its_run_was_taken_over_is_marked_in_lists_and_on_the_dashboard(
    sidecar: RunningSidecar, monkeypatch: pytest.MonkeyPatch
) -> None:
    # As if it had been between the check and the write when the run was taken over.
    monkeypatch.setattr(KnownClaims, "admit", lambda *_: None)
    monkeypatch.setattr(FenceGate, "__call__", lambda _gate, _view, stamped: stamped)
    run = "/v1/runs/taken-over/checkpoints"
    for fence in (1, 2):
        assert sidecar.submit("taken-over", fence=fence).status_code == 202
    before = sidecar.client.get(run).json()["checkpoints"]
    assert "fenced" not in sidecar.client.get("/ui/runs/taken-over").text
    assert sidecar.submit("taken-over", fence=1).status_code == 202

    after = sidecar.client.get(run).json()["checkpoints"]

    assert [line.keys() - {"fenced"} for line in after] == [before[0].keys()] * 3
    assert [line.get("fenced") for line in after] == [None, None, True]
    assert sidecar.client.get(f"{run}?limit=1").json()["checkpoints"][0]["fenced"] is True
    page = sidecar.client.get("/ui/runs/taken-over").text
    assert page.count("nobody resumes from it") == 1
