"""The sidecar as a process: starting, being killed, ending; and what it promised before."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from uuid import uuid4

import httpx
import pytest

LONGEST_S = 60


class Process:
    """`holdfast serve` in a process of its own; started again it finds its data."""

    def __init__(self, folder: Path, **variables: str) -> None:
        prefixes = ("HOLDFAST_", "GITHUB_")
        outside = {name: value for name, value in os.environ.items() if not name.startswith(prefixes)}
        given = {"HOLDFAST_DATA_DIR": str(folder / "data"), "HOLDFAST_LOG_FORMAT": "json", **variables}
        self.environment = {**outside, **given}
        self.log = folder / "sidecar.log"

    @contextmanager
    def serve(self, *words: str) -> Iterator[tuple["subprocess.Popen[str]", httpx.Client]]:
        command = [sys.executable, "-m", "holdfast", "serve", "--port", "0", "--json", *words]
        with (
            self.log.open("ab") as log,
            subprocess.Popen(
                command, env=self.environment, stdout=subprocess.PIPE, stderr=log, text=True
            ) as process,
        ):
            try:
                assert process.stdout is not None
                url = json.loads(process.stdout.readline())["url"]
                with httpx.Client(base_url=url, timeout=LONGEST_S) as client:
                    yield process, client
            finally:
                process.kill()

    def run(self, *words: str) -> "subprocess.CompletedProcess[str]":
        return subprocess.run(
            [sys.executable, "-m", "holdfast", *words],
            env=self.environment,
            capture_output=True,
            text=True,
            timeout=LONGEST_S,
            check=False,
        )


def checkpoint(**fields: Any) -> dict[str, Any]:
    return {"checkpoint_id": str(uuid4()), "trigger": "manual", "state": {"answer": 42}, **fields}


@contextmanager
def events(client: httpx.Client) -> Iterator[Iterator[str]]:
    """Give the kinds of the events that have happened so far, and of others as they happen."""
    with client.stream("GET", "/v1/events", headers={"Last-Event-ID": "0"}) as stream:
        lines = stream.iter_lines()
        yield (line.removeprefix("event: ") for line in lines if line.startswith("event: "))


def wait_until_drained(client: httpx.Client) -> None:
    with events(client) as kinds:
        while client.get("/v1/status").json()["spool"]["depth"]:
            assert "drained" in kinds  # reads on until one comes


def stored_ids(client: httpx.Client, run_id: str) -> list[str]:
    listed = client.get(f"/v1/runs/{run_id}/checkpoints").json()["checkpoints"]
    return [entry["checkpoint_id"] for entry in listed]


def test_many_clients_are_answered_and_nothing_is_lost(tmp_path: Path) -> None:
    with Process(tmp_path).serve("--write-mode", "commit") as (process, client):

        def hand_in(number: int) -> tuple[int, str]:
            sent = checkpoint(state={"number": number})
            answer = client.post(f"/v1/runs/run-{number % 3}/checkpoints", json=sent)
            return answer.status_code, sent["checkpoint_id"]

        with ThreadPoolExecutor(16) as clients:
            answers = list(clients.map(hand_in, range(120)))
        wait_until_drained(client)
        found = [checkpoint_id for run in range(3) for checkpoint_id in stored_ids(client, f"run-{run}")]
        process.send_signal(signal.SIGTERM)

        assert process.wait(LONGEST_S) == 0
    assert {status for status, _ in answers} == {202}
    assert sorted(found) == sorted(checkpoint_id for _, checkpoint_id in answers)


def test_what_was_acknowledged_survives_a_kill_and_a_repeat_is_stored_once(tmp_path: Path) -> None:
    sidecar = Process(tmp_path)
    sent = [checkpoint(state={"number": number}) for number in range(30)]
    with sidecar.serve() as (process, client):
        for each in sent:
            assert client.post("/v1/runs/killed/checkpoints", json=each).status_code == 202
        process.kill()
        process.wait(LONGEST_S)

    with sidecar.serve() as (_, client):
        # The client never saw the last answer, and sends it again.
        again = client.post("/v1/runs/killed/checkpoints", json=sent[-1])
        wait_until_drained(client)
        found = stored_ids(client, "killed")

    assert again.status_code == 202
    assert again.json()["sequence_number"] == len(sent)
    assert found == [each["checkpoint_id"] for each in sent]


def test_a_stop_ends_in_good_order_while_github_is_away(tmp_path: Path) -> None:
    sidecar = Process(tmp_path, HOLDFAST_REPO="acme/state", HOLDFAST_API_URL="http://127.0.0.1:9")
    with sidecar.serve() as (process, client):
        answer = client.post("/v1/runs/a/checkpoints", json=checkpoint())
        process.send_signal(signal.SIGTERM)

        assert process.wait(LONGEST_S) == 0
    assert answer.status_code == 202
    assert json.loads(sidecar.run("status", "--json").stdout)["spool"]["depth"] == 1


def test_a_second_signal_ends_it_at_once_and_loses_nothing(tmp_path: Path) -> None:
    sidecar = Process(tmp_path, HOLDFAST_REPO="acme/state", HOLDFAST_API_URL="http://127.0.0.1:9")
    with sidecar.serve() as (process, client):
        client.post("/v1/runs/a/checkpoints", json=checkpoint())
        process.send_signal(signal.SIGTERM)
        process.send_signal(signal.SIGTERM)

        assert process.wait(LONGEST_S) in (0, -signal.SIGTERM)
    assert json.loads(sidecar.run("status", "--json").stdout)["spool"]["depth"] == 1


def test_an_outage_is_told_as_delayed_persistence(tmp_path: Path) -> None:
    sidecar = Process(tmp_path, HOLDFAST_REPO="acme/state", HOLDFAST_API_URL="http://127.0.0.1:9")
    with sidecar.serve() as (_, client), events(client) as kinds:
        first = client.post("/v1/runs/a/checkpoints", json=checkpoint())
        assert "outage" in kinds  # reads on until one comes
    with sidecar.serve() as (_, client):  # nothing is remembered from before
        second = client.post("/v1/runs/a/checkpoints", json=checkpoint())

    assert (first.json()["persistence"], second.json()["persistence"]) == ("normal", "delayed")


@pytest.mark.parametrize(
    ("words", "variables", "sentence"),
    [
        (("--host", "0.0.0.0"), {}, "HOLDFAST_API_TOKEN"),
        (("--host", "::"), {}, "HOLDFAST_API_TOKEN"),
        (("--host", "example.org"), {}, "HOLDFAST_API_TOKEN"),
        ((), {"HOLDFAST_API_TOKEN_FILE": "/nonexistent/token"}, "HOLDFAST_API_TOKEN_FILE"),
        (("--port", "70000"), {}, "HOLDFAST_PORT"),
    ],
)
def test_it_refuses_to_start_where_others_could_reach_it(
    tmp_path: Path, words: tuple[str, ...], variables: dict[str, str], sentence: str
) -> None:
    ended = Process(tmp_path, **variables).run("serve", *words)

    assert ended.returncode == 2
    assert sentence in ended.stderr
    assert "Traceback" not in ended.stderr


def test_with_a_token_it_listens_elsewhere_and_never_logs_it(tmp_path: Path) -> None:
    token = "canary-4711-token"
    sidecar = Process(tmp_path, HOLDFAST_API_TOKEN=token, HOLDFAST_LOG_LEVEL="debug")
    with sidecar.serve("--host", "0.0.0.0") as (_, client):
        port = client.base_url.port
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=LONGEST_S) as local:
            answer = local.get("/v1/status", headers={"Authorization": f"Bearer {token}"})
            refused = local.get(f"/v1/runs/{token}", headers={"Authorization": f"Bearer {token}x"})

    assert (answer.status_code, refused.status_code) == (200, 401)
    assert token not in sidecar.log.read_text()


def test_a_taken_port_is_told(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        ended = Process(tmp_path).run("serve", "--port", str(port))

    assert ended.returncode == 1
    assert f"cannot listen on 127.0.0.1:{port}" in ended.stderr


def test_silent_connections_do_not_keep_others_out(tmp_path: Path) -> None:
    with Process(tmp_path).serve() as (_, client):
        address = ("127.0.0.1", client.base_url.port or 0)
        silent = [socket.create_connection(address, timeout=60) for _ in range(300)]
        try:
            for number, connection in enumerate(silent):
                connection.sendall(b"GET /healthz HTTP/1.1\r\nHost: loc"[: number % 30])

            assert client.get("/healthz").status_code == 200
        finally:
            for connection in silent:
                connection.close()
