"""Handing in, looking, resuming and comparing, over HTTP."""

from pathlib import Path
from uuid import uuid4

import pytest

from tests.fakes.sidecar import RunningSidecar, running_sidecar


def test_a_checkpoint_is_answered_once_it_is_spooled(sidecar: RunningSidecar) -> None:
    answer = sidecar.submit("first")

    assert answer.status_code == 202
    receipt = answer.json()
    assert receipt.pop("checkpoint_id")
    assert receipt == {
        "run_id": "first",
        "sequence_number": 1,
        "status": "spooled",
        "persistence": "normal",
        "file_path": "checkpoints/first/cp_001_manual.json",
    }


def test_waiting_for_it_answers_with_the_verified_receipt(sidecar: RunningSidecar) -> None:
    answer = sidecar.client.post(
        "/v1/runs/awaited/checkpoints?wait=verified&timeout=60", json={"trigger": "manual", "state": 1}
    )

    assert answer.status_code == 201
    assert answer.json()["status"] == "verified"
    assert len(answer.json()["commit_sha"]) == 40


@pytest.mark.slow
def test_waiting_ends_with_the_time_that_was_given(tmp_path: Path) -> None:
    # No GitHub, as one that answers might be faster than we are.
    with running_sidecar(tmp_path, repo="acme/none", api_url="http://127.0.0.1:9") as sidecar:
        answer = sidecar.client.post(
            "/v1/runs/hasty/checkpoints?wait=verified&timeout=0", json={"trigger": "manual", "state": 1}
        )

    assert answer.status_code == 202


def test_the_bytes_are_kept_as_they_came(sidecar: RunningSidecar) -> None:
    state = b'{"big":123456789012345678901234567890, "price": 1.10,"\\u00fc":"\\u00e9"}'
    answer = sidecar.post(b'{"trigger": "manual", "state": ' + state + b"}", "exact")

    stored = sidecar.client.get(f"/v1/runs/exact/checkpoints/{answer.json()['sequence_number']}")

    assert stored.headers["content-type"] == "application/json"
    assert b'"state_snapshot":' + state in stored.content


def test_the_same_checkpoint_again_is_stored_once(sidecar: RunningSidecar) -> None:
    checkpoint_id = str(uuid4())

    answers = [sidecar.submit("twice", checkpoint_id=checkpoint_id) for _ in range(3)]

    assert {answer.status_code for answer in answers} == {202}
    assert {answer.json()["sequence_number"] for answer in answers} == {1}
    assert len(sidecar.client.get("/v1/runs/twice/checkpoints").json()["checkpoints"]) == 1


def test_the_same_id_with_other_content_is_a_conflict(sidecar: RunningSidecar) -> None:
    checkpoint_id = str(uuid4())
    sidecar.submit("changed", checkpoint_id=checkpoint_id)

    answer = sidecar.submit("changed", checkpoint_id=checkpoint_id, state={"answer": 43})

    assert answer.status_code == 409
    assert answer.json()["field"] == "checkpoint_id"


def test_an_idempotency_key_stands_for_an_id_within_its_run(sidecar: RunningSidecar) -> None:
    body = b'{"trigger":"manual","state":{"a":1}}'
    key = {"Idempotency-Key": "order-17"}

    first, again = (sidecar.post(body, "keyed", **key) for _ in range(2))
    other_run = sidecar.post(body, "keyed-2", **key)
    changed = sidecar.post(b'{"trigger":"manual","state":{"a":2}}', "keyed", **key)

    assert first.json()["checkpoint_id"] == again.json()["checkpoint_id"]
    assert first.json()["sequence_number"] == again.json()["sequence_number"] == 1
    assert other_run.json()["checkpoint_id"] != first.json()["checkpoint_id"]
    assert (changed.status_code, changed.json()["field"]) == (409, "Idempotency-Key")


def test_a_checkpoint_that_names_its_id_needs_no_key(sidecar: RunningSidecar) -> None:
    checkpoint_id = str(uuid4())
    body = b'{"trigger":"manual","state":1,"checkpoint_id":"%s"}' % checkpoint_id.encode()

    answer = sidecar.post(body, "named", **{"Idempotency-Key": "any"})

    assert answer.json()["checkpoint_id"] == checkpoint_id


@pytest.mark.parametrize("key", ["", "a b", "x" * 256])
def test_a_key_that_cannot_be_one_is_refused(sidecar: RunningSidecar, key: str) -> None:
    answer = sidecar.post(b'{"trigger":"manual","state":1}', "keyless", **{"Idempotency-Key": key})

    assert (answer.status_code, answer.json()["field"]) == (422, "Idempotency-Key")


def test_spooled_and_stored_are_shown_together(sidecar: RunningSidecar) -> None:
    sidecar.submit("shown", trigger="phase_complete", workflow="nightly")
    sidecar.submit("shown", status="failed")

    run = sidecar.client.get("/v1/runs/shown").json()
    runs = sidecar.client.get("/v1/runs?resumable=true").json()["runs"]
    listed = sidecar.client.get("/v1/runs/shown/checkpoints").json()

    assert (run["status"], run["resumable"], run["checkpoint_count"]) == ("failed", True, 2)
    assert "shown" in [each["run_id"] for each in runs]
    assert [each["trigger"] for each in listed["checkpoints"]] == ["phase_complete", "manual"]


def test_a_completed_run_is_not_among_the_resumable(sidecar: RunningSidecar) -> None:
    sidecar.submit("done", status="completed")

    resumable = sidecar.client.get("/v1/runs?resumable=true").json()["runs"]
    every = sidecar.client.get("/v1/runs").json()["runs"]

    assert "done" not in [each["run_id"] for each in resumable]
    assert "done" in [each["run_id"] for each in every]


def test_a_plan_has_the_restored_state(sidecar: RunningSidecar) -> None:
    state = {"phase_outputs": {"phase_1_plan": {"steps": 3}}, "cost_accumulated": 0.42}
    sidecar.submit("resumed", trigger="phase_complete", state=state)

    plan = sidecar.client.get("/v1/runs/resumed/resume").json()

    assert plan["resume_at"] == "phase_2"
    assert plan["state"] == state
    assert plan["completed"] == ["phase_1_plan"]


def test_a_plan_can_be_had_for_an_earlier_checkpoint(sidecar: RunningSidecar) -> None:
    sidecar.submit("earlier", phase="phase_1_plan")
    sidecar.submit("earlier", phase="phase_2_build")

    plan = sidecar.client.get("/v1/runs/earlier/resume?at=1").json()

    assert (plan["sequence_number"], plan["resume_at"]) == (1, "phase_1_plan")


def test_two_checkpoints_are_compared(sidecar: RunningSidecar) -> None:
    sidecar.submit("compared", state={"a": 1})
    sidecar.submit("compared", state={"a": 2})

    patch = sidecar.client.get("/v1/runs/compared/diff?from=1&to=2").json()

    assert {"op": "replace", "path": "/state_snapshot/a", "value": 2} in patch


@pytest.mark.parametrize("path", ["", "/checkpoints", "/checkpoints/1", "/resume", "/diff?from=1&to=2"])
def test_an_unknown_run_is_not_found(sidecar: RunningSidecar, path: str) -> None:
    answer = sidecar.client.get(f"/v1/runs/nobody{path}")

    assert answer.status_code == 404
    assert answer.headers["content-type"] == "application/problem+json"
    assert "nobody" in answer.json()["detail"]


def test_a_run_is_completed_and_can_be_kept(sidecar: RunningSidecar) -> None:
    sidecar.submit("ending", state={"a": 1})

    answer = sidecar.client.post("/v1/runs/ending/complete", json={"status": "failed"})
    kept = sidecar.client.put("/v1/preserved/ending").json()
    again = sidecar.client.put("/v1/preserved/ending").json()
    released = sidecar.client.delete("/v1/preserved/ending").json()

    assert answer.status_code == 202
    assert answer.json()["sequence_number"] == 2
    assert sidecar.client.get("/v1/runs/ending").json()["status"] == "failed"
    assert (kept["changed"], again["changed"], released) == (
        True,
        False,
        {"run_id": "ending", "preserved": False, "changed": True},
    )


def test_completing_needs_no_body(sidecar: RunningSidecar) -> None:
    sidecar.submit("bodiless")

    assert sidecar.client.post("/v1/runs/bodiless/complete").status_code == 202
    assert sidecar.client.get("/v1/runs/bodiless").json()["status"] == "completed"


@pytest.mark.slow
@pytest.mark.parametrize("body", [{"status": "fine"}, {"keep": 1}, {"other": 1}, 5])
def test_a_completion_that_says_something_else_is_refused(sidecar: RunningSidecar, body: object) -> None:
    sidecar.submit("unended")

    answer = sidecar.client.post("/v1/runs/unended/complete", json=body)

    assert answer.status_code == 422
    assert answer.json()["field"]


@pytest.mark.slow
def test_a_clean_up_can_be_looked_at_first(tmp_path: Path) -> None:
    # A sidecar of its own: where runs are completed, it may be cleaning up by itself at this moment.
    with running_sidecar(tmp_path) as sidecar:
        address = "/v1/runs/looked-at/checkpoints?wait=verified&timeout=60"
        stored = sidecar.client.post(address, json={"trigger": "manual", "state": 1})
        planned = sidecar.client.post("/v1/cleanup?dry_run=true").json()
        done = sidecar.client.post("/v1/cleanup").json()

    assert stored.status_code == 201
    assert (planned["dry_run"], planned["commits"]) == (True, [])
    assert (done["dry_run"], bool(done["commits"])) == (False, bool(done["delete"]))
    assert planned["runs"] == done["runs"]


@pytest.mark.slow
def test_a_checkpoint_is_found_by_its_id(sidecar: RunningSidecar) -> None:
    first = sidecar.submit("by-id", state=1).json()["checkpoint_id"]
    sidecar.submit("by-id", state=2)

    assert sidecar.client.get(f"/v1/checkpoints/{first}").json()["state_snapshot"] == 1
    assert sidecar.client.get(f"/v1/runs/by-id/checkpoints/{first}").json()["state_snapshot"] == 1
    assert sidecar.client.get(f"/v1/runs/by-id/resume?at={first}").json()["state"] == 1
    assert sidecar.client.get(f"/v1/runs/by-id/diff?from={first}&to=2").status_code == 200
    assert sidecar.client.get(f"/v1/checkpoints/{uuid4()}").status_code == 404
    assert sidecar.client.get("/v1/checkpoints/1").status_code == 422
