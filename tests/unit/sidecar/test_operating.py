"""Health, readiness, metrics, logs and the end, for those who operate the sidecar."""

import sqlite3
import threading
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.assembly.ground import Ground
from holdfast.doctor import Diagnosis, examine
from holdfast.drain.notes import OUTAGE_NOTE
from holdfast.drain.outage import Outage
from holdfast.errors import DiskFailed, SpoolUnwritable, Unavailable
from holdfast.format.receipt import Delivery
from holdfast.sidecar.service import READING_THREADS, Service
from tests.fakes.heard import heard_events
from tests.fakes.sidecar import LONGEST_S, RunningSidecar, running_sidecar


@pytest.mark.slow
def test_it_is_healthy_and_ready(sidecar: RunningSidecar) -> None:
    assert sidecar.client.get("/healthz").json() == {"status": "ok"}
    assert sidecar.client.get("/readyz").json() == {"status": "ready", "trouble": None}


@pytest.mark.slow
def test_a_trouble_with_github_is_named_by_a_sidecar_that_is_ready(tmp_path: Path) -> None:
    outage = Outage("auth", "GitHub answered 401", "Give it a valid token.", since=0.0, retry_at=0.0)
    with running_sidecar(tmp_path) as troubled:
        troubled.assembly.spool.note(OUTAGE_NOTE, outage.to_bytes())
        answer = troubled.client.get("/readyz")

    assert (answer.status_code, answer.json()["trouble"]) == (200, outage.sentence)


@pytest.mark.usefixtures("on_a_disk")
def test_the_diagnosis_is_the_commands(sidecar: RunningSidecar) -> None:
    diagnosis = sidecar.client.get("/v1/doctor").json()

    assert diagnosis["ok"]
    assert {"data folder", "spool", "github", "format"} <= {check["name"] for check in diagnosis["checks"]}


@pytest.mark.slow
def test_who_asks_during_a_diagnosis_gets_its_answer(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_end, asked, examined = threading.Event(), threading.Semaphore(0), threading.Semaphore(0)
    diagnose = Service.diagnose

    async def tell_and_diagnose(service: Service) -> Diagnosis:
        asked.release()
        return await diagnose(service)

    def wait_and_examine(assembly: Ground) -> Diagnosis:
        examined.release()
        assert may_end.wait(LONGEST_S)
        return examine(assembly)

    monkeypatch.setattr(Service, "diagnose", tell_and_diagnose)
    monkeypatch.setattr("holdfast.sidecar.service.examine", wait_and_examine)
    with running_sidecar(tmp_path) as sidecar, ThreadPoolExecutor(3) as pool:
        answers = [pool.submit(sidecar.client.get, "/v1/doctor") for _ in range(3)]
        for _ in answers:
            assert asked.acquire(timeout=LONGEST_S)
        may_end.set()
        assert all(answer.result().json()["ok"] for answer in answers)

    assert examined.acquire(blocking=False)
    assert not examined.acquire(blocking=False)


def test_the_status_is_the_commands(sidecar: RunningSidecar) -> None:
    status = sidecar.client.get("/v1/status").json()

    assert set(status["spool"]) >= {"depth", "bytes", "oldest_age_s", "set_aside"}
    assert set(status["budget"]) >= {"last_remaining", "last_reset", "calls_this_run"}


def test_the_metrics_count_what_happened(sidecar: RunningSidecar) -> None:
    checkpoint = {"trigger": "manual", "state": 1}
    sidecar.client.post("/v1/runs/counted/checkpoints?wait=verified&timeout=60", json=checkpoint)
    sidecar.client.post("/v1/runs/counted/checkpoints", json={"trigger": "lunch", "state": 1})
    sidecar.client.get("/v1/runs/counted/resume")
    sidecar.client.get("/v1/runs/uncounted/resume")

    answer = sidecar.client.get("/metrics")
    lines = [line for line in answer.text.splitlines() if not line.startswith("#")]
    values = {name: float(value) for name, _, value in (line.rpartition(" ") for line in lines)}

    assert answer.headers["content-type"].startswith("text/plain; version=")
    assert values['holdfast_submits_total{outcome="accepted"}'] == 1
    assert values['holdfast_submits_total{outcome="refused"}'] == 1
    assert values["holdfast_acknowledgement_seconds_count"] == 1
    assert values["holdfast_checkpoint_bytes_sum"] > 20
    assert values["holdfast_verified_total"] == 1
    assert values["holdfast_spool_depth"] == values["holdfast_spool_bytes"] == 0
    assert values["holdfast_spool_oldest_age_seconds"] == 0
    assert values['holdfast_resumes_total{outcome="resumable"}'] == 1
    assert values['holdfast_resumes_total{outcome="unknown"}'] == 1
    assert values['holdfast_budget_left{limit="requests"}'] > 0
    assert values['holdfast_github_requests_total{endpoint="WriteFile",status="201"}'] >= 1
    assert values["holdfast_github_write_seconds_count"] >= 1
    assert values["holdfast_conflicts_total"] == values["holdfast_retries_total"] == 0
    route = 'method="POST",route="/v1/runs/{run_id}/checkpoints"'
    assert values[f'holdfast_http_requests_total{{{route},status="201"}}'] == 1


def test_a_request_id_is_taken_over_or_made(sidecar: RunningSidecar) -> None:
    given = sidecar.client.get("/healthz", headers={"X-Request-Id": "n8n-17"})
    forged = sidecar.client.get("/healthz", headers={"X-Request-Id": "a b\tc"})
    refused = sidecar.client.get("/nowhere", headers={"X-Request-Id": "n8n-18"})

    assert given.headers["x-request-id"] == "n8n-17"
    assert len(forged.headers["x-request-id"]) == 32
    assert refused.json()["request_id"] == "n8n-18"


def test_a_request_is_logged_with_its_id(sidecar: RunningSidecar) -> None:
    with heard_events() as heard:
        sidecar.client.get("/v1/runs/logged", headers={"X-Request-Id": "n8n-19"})
        event = heard.wait_for("request_answered", request_id="n8n-19")

    assert (event["status"], event["route"]) == (404, "/v1/runs/{run_id}")
    assert event["run_id"] == "logged"


@pytest.mark.slow
def test_a_request_is_logged_with_its_run_and_number(sidecar: RunningSidecar) -> None:
    with heard_events() as heard:
        sidecar.client.get("/v1/runs/logged/checkpoints/7", headers={"X-Request-Id": "n8n-20"})
        read = heard.wait_for("request_answered", request_id="n8n-20")

    assert (read["run_id"], read["at"]) == ("logged", "7")


@pytest.mark.slow
def test_a_spool_that_takes_nothing_is_not_ready_but_alive(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path) as broken:

        def refuse(*_: object) -> None:
            raise SpoolUnwritable("the disk is read-only")

        monkeypatch.setattr(broken.assembly.spool, "note", refuse)
        answer = broken.client.get("/readyz")

        assert (answer.status_code, answer.json()["code"]) == (503, "spool_unwritable")
        assert "retry-after" in answer.headers
        assert broken.client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_full_disk_is_told_and_the_sidecar_recovers(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path) as crowded:
        monkeypatch.setattr(
            crowded.assembly.spool, "put_all", _raise(SpoolUnwritable("free some space on this disk"))
        )
        answer = crowded.submit()
        monkeypatch.undo()

        assert (answer.status_code, answer.json()["code"]) == (507, "spool_unwritable")
        assert crowded.submit().status_code == 202


@pytest.mark.slow
def test_a_failed_sync_ends_the_sidecar(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with running_sidecar(tmp_path) as doomed:
        monkeypatch.setattr(doomed.assembly.spool, "put_all", _raise(DiskFailed("the disk failed")))
        answer = doomed.submit()
        assert doomed.assembly.stop.wait(LONGEST_S)

    assert answer.status_code == 507
    (ending,) = doomed.endings
    assert isinstance(ending.failure, DiskFailed)


@pytest.mark.slow
def test_an_error_that_nobody_foresaw_is_told_without_its_inside(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path) as flawed:
        monkeypatch.setattr(flawed.holdfast, "runs", _raise(KeyError("inside")))

        with heard_events() as heard:
            answer = flawed.client.get("/v1/runs")
            heard.wait_for("request_failed")

        assert answer.status_code == 500
        assert "inside" not in answer.text
        assert flawed.client.get("/healthz").status_code == 200


@pytest.mark.slow
def test_a_commit_that_fails_in_an_unforeseen_way_harms_nobody_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path) as flawed:
        monkeypatch.setattr(flawed.assembly.spool, "put_all", _raise(sqlite3.ProgrammingError("inside")))
        with heard_events() as heard:
            answer = flawed.submit()
            heard.wait_for("commit_failed")
        monkeypatch.undo()

        assert answer.status_code == 500
        assert flawed.submit().status_code == 202


@pytest.mark.slow
def test_stopping_refuses_new_checkpoints_and_finishes_what_waits(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path, repo="acme/none", api_url="http://127.0.0.1:9") as stopping:
        answers: list[httpx.Response] = []
        is_spooled = threading.Event()
        put_all = stopping.assembly.spool.put_all

        def put_and_tell(*drafts: Any, **how: Any) -> object:
            try:
                return put_all(*drafts, **how)
            finally:
                is_spooled.set()

        monkeypatch.setattr(stopping.assembly.spool, "put_all", put_and_tell)

        def wait_for_it() -> None:
            answers.append(
                stopping.client.post(
                    "/v1/runs/a/checkpoints?wait=verified&timeout=60", json={"trigger": "manual", "state": 1}
                )
            )

        waiting = threading.Thread(target=wait_for_it)
        waiting.start()
        assert is_spooled.wait(LONGEST_S)
        stopping.assembly.stop.set()
        waiting.join(LONGEST_S)

    assert [answer.status_code for answer in answers] == [202]
    (ending,) = stopping.endings
    assert ending.failure is None


@pytest.mark.slow
def test_while_it_stops_a_checkpoint_is_refused_with_a_time(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    with running_sidecar(tmp_path) as stopping:
        is_held, is_free = threading.Event(), threading.Event()
        acknowledge = stopping.assembly.spool.acknowledge

        def hold(outcomes: Mapping[str, Delivery]) -> None:
            is_held.set()
            is_free.wait(LONGEST_S)
            acknowledge(outcomes)

        # The write under way is held, so that the end waits for it.
        monkeypatch.setattr(stopping.assembly.spool, "acknowledge", hold)
        stopping.submit()
        assert is_held.wait(LONGEST_S)
        stopping.assembly.stop.set()
        answer = stopping.submit()
        ready = stopping.client.get("/readyz")
        is_free.set()

    assert (answer.status_code, answer.json()["code"]) == (503, "stopping")
    assert answer.headers["retry-after"] == "5"
    assert ready.status_code == 503


def _raise(error: Exception) -> object:
    def fail(*_: object, **__: object) -> None:
        raise error

    return fail


@pytest.mark.slow
def test_nothing_local_waits_for_reads_of_a_github_that_hangs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    readers = 20
    answers: list[httpx.Response] = []
    with running_sidecar(tmp_path) as hanging:
        may_answer, begun = threading.Event(), threading.Semaphore(0)

        def hang(*_: object, **__: object) -> None:
            begun.release()
            assert may_answer.wait(LONGEST_S)
            raise Unavailable("runs/a", "no answer")

        monkeypatch.setattr(hanging.holdfast, "resume", hang)
        waiting = [
            threading.Thread(target=lambda: answers.append(hanging.client.get("/v1/runs/a/resume")))
            for _ in range(readers)
        ]
        for thread in waiting:
            thread.start()
        for _ in range(READING_THREADS):
            assert begun.acquire(timeout=LONGEST_S)
        saved = hanging.submit(state={"text": "x" * 60_000}).status_code
        paths = ("/readyz", "/metrics", "/v1/status", "/v1/doctor")
        local = [hanging.client.get(path).status_code for path in paths]
        ended = hanging.client.post("/v1/runs/build-1/complete").status_code
        may_answer.set()
        for thread in waiting:
            thread.join(LONGEST_S)

    assert (saved, ended) == (202, 202)
    assert local == [200, 200, 200, 200]
    assert {answer.status_code for answer in answers} == {503}
    assert len(answers) == readers


@pytest.mark.slow
def test_it_ends_while_a_read_hangs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    may_answer, is_begun = threading.Event(), threading.Event()

    def hang(*_: object, **__: object) -> None:
        is_begun.set()
        may_answer.wait(LONGEST_S)

    with running_sidecar(tmp_path, answers_grace_s=0) as stopping:
        monkeypatch.setattr(stopping.holdfast, "resume", hang)

        def read() -> None:
            with suppress(httpx.HTTPError):
                stopping.client.get("/v1/runs/a/resume")

        reading = threading.Thread(target=read)
        reading.start()
        assert is_begun.wait(LONGEST_S)
        stopping.assembly.stop.set()
        reading.join(LONGEST_S)
    may_answer.set()

    (ending,) = stopping.endings
    assert not ending.is_all_done
