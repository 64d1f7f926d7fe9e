"""Replicas over one PostgreSQL: one queue, one drainer, one budget, the same picture everywhere."""

import os
from collections.abc import Iterator
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from queue import SimpleQueue
from typing import Any

import pytest

from holdfast.assembly import open_assembly
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.library import Holdfast
from holdfast.sidecar.drainer import Drainers
from tests.fakes.postgres import own_server, postgres_url
from tests.fakes.sidecar import LONGEST_S, RunningSidecar, running_sidecar

REPOSITORY = "acme/state"


@pytest.fixture
def github(tmp_path: Path) -> Iterator[str]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", repo=REPOSITORY))
    with EmulatorServer(emulator) as server:
        yield server.url
    emulator.close()


def settings(github: str, database: str) -> dict[str, Any]:
    return {
        "repo": REPOSITORY,
        "token": "t",
        "api_url": github,
        "database_url": database,
        "write_interval_s": 0,
        "content_per_minute": 0,
        "content_per_hour": 0,
        "write_mode": "commit",
    }


@pytest.fixture
def replicas(tmp_path: Path, github: str) -> Iterator[list[RunningSidecar]]:
    given = settings(github, postgres_url(tmp_path))
    with ExitStack() as stack:
        yield [stack.enter_context(running_sidecar(tmp_path / str(number), **given)) for number in range(3)]


def test_what_any_replica_accepts_is_stored_once_and_seen_by_all(replicas: list[RunningSidecar]) -> None:
    receipts = [replicas[number % 3].submit(state={"number": number}).json() for number in range(12)]
    last = replicas[0].client.post(
        "/v1/runs/build-1/checkpoints?wait=verified",
        json={"trigger": "run_complete", "phase": "phase_1_plan", "state": {}, "status": "completed"},
    )

    assert last.status_code == 201
    assert [receipt["sequence_number"] for receipt in receipts] == list(range(1, 13))
    for replica in replicas:
        listed = replica.client.get("/v1/runs/build-1/checkpoints").json()["checkpoints"]
        assert [each["sequence"] for each in listed] == list(range(1, 14))
    statuses = [replica.client.get("/v1/status").json() for replica in replicas]
    assert {status["spool"]["depth"] for status in statuses} == {0}
    calls = {status["budget"]["last_remaining"] for status in statuses}
    assert len(calls) == 1
    assert None not in calls


def test_every_replica_tells_the_same_and_who_drains(replicas: list[RunningSidecar]) -> None:
    with replicas[1].assembly.spool.drainer():
        for number, replica in enumerate(replicas):
            assert replica.submit(f"build-{number}").status_code == 202
        statuses = [replica.client.get("/v1/status").json() for replica in replicas]
        scrapes = [replica.client.get("/metrics").text for replica in replicas]
        pages = [replica.client.get("/").text for replica in replicas]

    (drainer,) = {status["drained_by"] for status in statuses}
    assert drainer.startswith(f"process {os.getpid()} on ")
    assert {status["spool"]["depth"] for status in statuses} == {3}
    assert len({(status["spool"]["bytes"], status["budget"]["last_remaining"]) for status in statuses}) == 1
    for scrape, page in zip(scrapes, pages, strict=True):
        assert "holdfast_spool_depth 3.0" in scrape
        assert f'holdfast_drainer{{drainer="{drainer}"}} 1.0' in scrape
        assert f"Drained by {drainer}" in page


def test_every_dashboard_tells_how_much_is_verified_whoever_drains(replicas: list[RunningSidecar]) -> None:
    body = {"trigger": "manual", "phase": "p", "state": {}}
    for number, replica in enumerate(replicas):
        replica.client.post(f"/v1/runs/build-{number}/checkpoints?wait=verified", json=body)

    pages = [replica.client.get("/").text for replica in replicas]

    for page in pages:
        assert "<dt>verified a minute</dt><dd>0.6</dd>" in page, "three in five minutes"


def test_every_replica_tells_its_followers_what_is_verified(replicas: list[RunningSidecar]) -> None:
    with ExitStack() as stack:
        followed = [
            stack.enter_context(replica.client.stream("GET", "/v1/events")).iter_lines()
            for replica in replicas
        ]
        for lines in followed:
            next(lines)
        checkpoint_id = replicas[0].submit("build-1").json()["checkpoint_id"]

        for lines in followed:
            while next(lines) != "event: verified":
                pass
            assert checkpoint_id in next(lines)


def test_a_critical_checkpoint_ends_a_pause_of_the_drainer_on_another_machine(
    tmp_path: Path, github: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    woken: SimpleQueue[bool] = SimpleQueue()
    monkeypatch.setattr(Drainers, "wake", lambda _, is_urgent: woken.put(is_urgent))
    given = settings(github, postgres_url(tmp_path))
    with running_sidecar(tmp_path / "one", **given) as sidecar:
        assert woken.get(timeout=LONGEST_S), "it listens"
        other = open_assembly(replace(sidecar.assembly.settings, data_dir=tmp_path / "other"))
        with Holdfast(other.settings, assembly=other) as hf:
            hf.save("build-1", {})
            hf.save("build-1", {}, trigger="circuit_breaker")

        assert not woken.get(timeout=LONGEST_S)
        assert woken.get(timeout=LONGEST_S)


def test_sidecar_accepts_while_the_database_is_away_and_says_so(tmp_path: Path, github: str) -> None:
    server = own_server()
    try:
        with running_sidecar(tmp_path / "one", **settings(github, server.url)) as sidecar:
            assert sidecar.submit().json()["persistence"] == "normal"
            server.stop()
            delayed = sidecar.submit()
            readiness = sidecar.client.get("/readyz").json()
            status = sidecar.client.get("/v1/status").json()
            plan = sidecar.client.get("/v1/runs/build-1/resume")
            page = sidecar.client.get("/").text
            server.start()
            body = {"trigger": "manual", "phase": "p", "state": {}}
            verified = sidecar.client.post("/v1/runs/build-1/checkpoints?wait=verified", json=body)

            assert delayed.status_code == 202
            assert delayed.json()["persistence"] == "delayed"
            assert readiness["status"] == "ready"
            assert "kept on the local disk until it is back" in readiness["trouble"]
            assert readiness["trouble"] == status["last_error"]
            assert (plan.status_code, plan.json()["code"]) == (503, "database_away")
            assert plan.headers["Retry-After"]
            assert "<dt>verified a minute</dt><dd>\N{EN DASH}</dd>" in page
            assert verified.status_code == 201
            listed = sidecar.client.get("/v1/runs/build-1/checkpoints").json()["checkpoints"]
            ids = [delayed.json()["checkpoint_id"], verified.json()["checkpoint_id"]]
            assert [each["checkpoint_id"] for each in listed][1:] == ids
            assert [each["sequence"] for each in listed] == [1, 2, 3]
    finally:
        server.close()
