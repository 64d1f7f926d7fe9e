"""What the sidecar takes in and gives out where states are sealed and credentials taken out."""

import json
from pathlib import Path

import pytest

from holdfast.format.redacted import MARK
from holdfast.security.jose import make_shared_key
from tests.fakes.credentials import MAKERS, Forger, make_all
from tests.fakes.sidecar import RunningSidecar, running_sidecar
from tests.fakes.traces import find_traces

CANARY = "the canary that must not sing 4711"


@pytest.mark.slow
def test_receipt_names_what_was_taken_out(sidecar: RunningSidecar) -> None:
    token = MAKERS["npm-token"][0](Forger())
    body = {"trigger": "manual", "state": {"key": token}}

    answer = sidecar.client.post("/v1/runs/redacted/checkpoints", json=body)

    assert answer.status_code == 202
    assert answer.json()["redacted"] == [{"path": "/state_snapshot/key", "kind": "npm-token"}]
    plan = sidecar.client.get("/v1/runs/redacted/resume").json()
    assert plan["state"] == {"key": MARK}
    assert any("give it anew" in warning for warning in plan["warnings"])
    assert token not in sidecar.client.get("/metrics").text


@pytest.mark.slow
def test_no_credential_of_the_corpus_reaches_the_metrics_or_the_log(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    corpus = make_all(seed=29, number=200)
    with running_sidecar(tmp_path, log_level="debug") as sidecar:
        for number, (_, text, _) in enumerate(corpus):
            body = {"trigger": "manual", "context_fields": {"log": text}, "state": {text: [text]}}
            answer = sidecar.client.post(f"/v1/runs/run-{number % 3}/checkpoints", json=body)
            assert answer.status_code == 202
        told = sidecar.client.get("/metrics").text + sidecar.client.get("/v1/status").text
    told += "".join(capfd.readouterr())
    assert [secret for _, _, secret in corpus if secret in told] == []


@pytest.mark.slow
@pytest.mark.parametrize("key", [None, json.dumps(make_shared_key())])
def test_credential_that_is_given_as_a_name_is_neither_logged_nor_stored(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], key: str | None
) -> None:
    token = MAKERS["github-token"][0](Forger())
    with running_sidecar(tmp_path, log_level="debug", encryption_key=key) as sidecar:
        body = {"trigger": "manual", "state": {}}
        assert sidecar.client.post(f"/v1/runs/{token}/checkpoints", json=body).status_code == 422
        assert sidecar.client.put(f"/v1/preserved/{token}").status_code == 422
        assert sidecar.client.post(f"/v1/runs/{token}/claim", json={"owner": "me"}).status_code == 422
        assert sidecar.client.get(f"/v1/runs/{token}/resume").status_code == 404
        assert sidecar.client.get(f"/v1/checkpoints/{token}").status_code == 422
        assert sidecar.client.get("/v1/runs/no-such-run/resume").status_code == 404
        metrics = sidecar.client.get("/metrics").text
    said = "".join(capfd.readouterr())
    assert "no-such-run" in said
    assert token not in metrics + said
    assert find_traces(tmp_path, token) == []


@pytest.mark.slow
def test_sealed_state_is_read_with_the_key_and_409_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    key = make_shared_key()
    with running_sidecar(tmp_path, encryption_key=json.dumps(key), log_level="debug") as sidecar:
        body = {"trigger": "manual", "state": {"text": CANARY}, "mine": CANARY}
        assert sidecar.client.post("/v1/runs/r/checkpoints?wait=verified", json=body).status_code == 201
        assert sidecar.client.get("/v1/runs/r/resume").json()["state"] == {"text": CANARY}
        metrics = sidecar.client.get("/metrics").text
    assert find_traces(tmp_path, CANARY) == []
    assert CANARY not in metrics + "".join(capfd.readouterr())
    with running_sidecar(tmp_path) as sidecar:
        for path in ("resume", "checkpoints/1", "diff?from=1&to=1"):
            answer = sidecar.client.get(f"/v1/runs/r/{path}")
            assert answer.status_code == 409
            assert f"sealed with key {key['kid']}" in answer.json()["detail"]
        assert len(sidecar.client.get("/v1/runs/r/checkpoints").json()["checkpoints"]) == 1
        assert sidecar.client.get("/v1/runs").json()["runs"][0]["checkpoint_count"] == 1
