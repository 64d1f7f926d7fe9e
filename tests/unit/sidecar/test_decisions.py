"""Decisions over HTTP, and the plan that is compared with the present."""

import httpx
import pytest

from tests.fakes.sidecar import RunningSidecar


def post(sidecar: RunningSidecar, path: str, body: object) -> httpx.Response:
    return sidecar.client.post(f"/v1/runs/{path}", json=body)


@pytest.mark.slow
def test_a_review_decides_and_is_refused_where_nothing_waits(sidecar: RunningSidecar) -> None:
    sidecar.submit("waits", trigger="escalation", phase="phase_2")
    waiting = sidecar.client.get("/v1/runs?review=true").json()["runs"]

    first = post(sidecar, "waits/review", {"decision": "continue", "by": "ada"})
    second = post(sidecar, "waits/review", {"decision": "continue"})

    assert "waits" in [run["run_id"] for run in waiting]
    assert (first.status_code, first.json()["sequence_number"]) == (202, 2)
    assert (second.status_code, second.json()["code"]) == (409, "nothing_to_review")
    assert post(sidecar, "waits/review", {"decision": "maybe"}).status_code == 422
    assert post(sidecar, "nobody/review", {"decision": "stop"}).status_code == 404


@pytest.mark.slow
def test_a_refusal_names_calls_and_no_commands(sidecar: RunningSidecar) -> None:
    sidecar.submit("waits", trigger="escalation", phase="phase_2")
    sidecar.submit("stopped", trigger="escalation", phase="phase_2")
    post(sidecar, "stopped/review", {"decision": "stop"})

    answers = [
        (post(sidecar, "waits/complete", {}), "POST /v1/runs/waits/review"),
        (post(sidecar, "stopped/complete", {}), "POST /v1/runs/stopped/fork"),
        (sidecar.client.get("/v1/runs/nobody/resume"), "see GET /v1/runs"),
        (sidecar.client.get("/v1/runs/waits/checkpoints/9"), "see GET /v1/runs/waits/checkpoints"),
    ]

    for answer, call in answers:
        assert call in answer.json()["detail"]
        assert "holdfast" not in answer.json()["detail"]
        assert "--" not in answer.json()["detail"]


@pytest.mark.slow
def test_a_run_is_rolled_back_and_forked(sidecar: RunningSidecar) -> None:
    first = sidecar.submit("old", state=1).json()["checkpoint_id"]
    sidecar.submit("old", state=2)

    back = post(sidecar, "old/rollback", {"at": 1, "note": "again"})
    forked = post(sidecar, "old/fork", {"at": first, "run_id": "new"})

    assert (back.status_code, forked.status_code) == (202, 202)
    assert sidecar.client.get("/v1/runs/old/resume").json()["state"] == 1
    assert sidecar.client.get("/v1/runs/new/checkpoints/1").json()["forked_from"]["checkpoint_id"] == first
    assert post(sidecar, "old/fork", {"at": 1, "run_id": "new"}).status_code == 409
    assert post(sidecar, "old/rollback", {"at": "soon"}).status_code == 422
    assert post(sidecar, "old/rollback", {}).status_code == 422


@pytest.mark.slow
def test_the_plan_is_compared_with_what_is_in_force_now(sidecar: RunningSidecar) -> None:
    progress = {"style": "layers", "layer_index": 0, "dag_structure": {"layers": [["a"]]}, "tasks": []}
    sidecar.submit("compared", state={"active_lessons": ["x"], "progress": progress})

    same = post(sidecar, "compared/resume", {"active_lessons": ["x"], "dag": {"layers": [["a"]]}})
    other = post(sidecar, "compared/resume", {"active_lessons": [], "dag": {"layers": [["b"]]}, "at": 1})
    bare = sidecar.client.post("/v1/runs/compared/resume")

    assert same.json()["warnings"] == bare.json()["warnings"] == []
    warnings = other.json()["warnings"]
    assert any("the active lessons have changed" in warning for warning in warnings)
    assert any("the DAG has changed" in warning for warning in warnings)
    assert post(sidecar, "nobody/resume", {}).status_code == 404


@pytest.mark.slow
def test_a_run_is_deleted_unless_it_is_preserved(sidecar: RunningSidecar) -> None:
    path = "/v1/runs/gone/checkpoints?wait=verified&timeout=60"
    sidecar.client.post(path, json={"trigger": "manual", "state": 1})
    sidecar.client.put("/v1/preserved/gone")

    refused = sidecar.client.delete("/v1/runs/gone")
    deleted = sidecar.client.delete("/v1/runs/gone?force=true")

    assert (refused.status_code, refused.json()["code"]) == (409, "preserved")
    assert refused.json()["detail"].endswith("or delete it by force; ?force=true does that")
    assert (deleted.status_code, deleted.json()["deleted_files"]) == (200, 3)
    assert sidecar.client.get("/v1/runs/gone").status_code == 404
    assert sidecar.client.delete("/v1/runs/gone").status_code == 404
