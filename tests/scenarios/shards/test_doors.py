"""Runs divided among repositories, through the command line and the sidecar."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import httpx
import pytest

from holdfast.cli import main
from tests.fakes.shards import ONE, SHARDS, THREE, TWO, ShardedGitHub, run_of, sharded_github
from tests.fakes.sidecar import running_sidecar


@pytest.fixture
def github(tmp_path: Path) -> Iterator[ShardedGitHub]:
    with sharded_github(tmp_path / "github") as served:
        yield served


class CommandLine:
    """Calls commands in this process, and parses what they print."""

    def __init__(self, capsys: pytest.CaptureFixture[str]) -> None:
        self._capsys = capsys

    def __call__(self, *arguments: str, code: int = 0) -> Any:
        assert main([*arguments, "--json"]) == code
        return json.loads(self._capsys.readouterr().out)


@pytest.fixture
def holdfast(
    github: ShardedGitHub, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> CommandLine:
    for name, value in github.variables(tmp_path / "data").items():
        monkeypatch.setenv(name, value)
    return CommandLine(capsys)


def test_commands_work_over_all_shards(holdfast: CommandLine, github: ShardedGitHub, tmp_path: Path) -> None:
    state = tmp_path / "state.json"
    state.write_text('{"answer": 42}')
    runs = [run_of(shard) for shard in SHARDS]
    saved = {
        run_id: holdfast("submit", str(state), "--run-id", run_id, "--trigger", "manual", "--phase", "p")
        for run_id in runs
    }

    status = holdfast("status")
    drained = holdfast("drain")

    assert status["repository"] == ", ".join(SHARDS)
    assert [shard["spool"]["depth"] for shard in status["shards"]] == [1, 1, 1]
    assert (drained["verified"], drained["left"]) == (3, 0)
    assert {run["run_id"] for run in holdfast("runs")["runs"]} == set(runs)
    for run_id, receipt in saved.items():
        assert holdfast("list", run_id)["checkpoints"][0]["checkpoint_id"] == receipt["checkpoint_id"]
        assert holdfast("show", receipt["checkpoint_id"])["state_snapshot"] == {"answer": 42}
        assert holdfast("resume", run_id)["state"] == {"answer": 42}
    assert {github.runs(shard).pop() for shard in SHARDS} == set(runs)
    checks = holdfast("doctor")["checks"]
    assert {f"github ({shard})" for shard in SHARDS} <= {check["name"] for check in checks}
    assert all(check["ok"] for check in checks)
    assert holdfast("preserve", runs[0])["changed"]
    assert holdfast("delete", runs[1], "--yes")
    assert {run["run_id"] for run in holdfast("cleanup", "--dry-run")["runs"]} == {runs[0], runs[2]}
    assert holdfast("config")


def test_exec_records_its_steps_in_the_shard_of_the_run(holdfast: CommandLine, github: ShardedGitHub) -> None:
    run_id = run_of(THREE)

    assert main(["exec", run_id, "--step", "first", "--", "true"]) == 0
    holdfast("drain")

    assert github.runs(THREE) == {run_id}
    assert main(["exec", run_id, "--step", "first", "--", "false"]) == 0


def test_sidecar_serves_all_shards_with_a_drainer_each(github: ShardedGitHub, tmp_path: Path) -> None:
    given: dict[str, Any] = {
        name.removeprefix("HOLDFAST_").lower(): value
        for name, value in github.variables(tmp_path / "data").items()
        if name not in ("HOLDFAST_DATA_DIR", "HOLDFAST_MIN_FREE_BYTES")
    }
    runs = [run_of(shard) for shard in SHARDS]
    with running_sidecar(tmp_path / "data", **given) as sidecar:
        answers = [_save_and_wait(sidecar.client, run_id) for run_id in runs]
        listed = sidecar.client.get("/v1/runs").json()["runs"]
        plans = [sidecar.client.get(f"/v1/runs/{run_id}/resume").json() for run_id in runs]
        status = sidecar.client.get("/v1/status").json()
        ready = sidecar.client.get("/readyz")
        metrics = sidecar.client.get("/metrics").text
        pages = [sidecar.client.get(path) for path in ("/", "/ui/runs", f"/ui/runs/{runs[2]}")]
        shown = sidecar.client.get(f"/ui/runs/{runs[1]}/checkpoints/1")
        document = sidecar.client.get("/openapi.json")
        diagnosis = sidecar.client.get("/v1/doctor").json()

    assert [answer.status_code for answer in answers] == [201, 201, 201]
    assert {run["run_id"] for run in listed} == set(runs)
    assert [plan["state"] for plan in plans] == [{"answer": 42}] * 3
    assert [shard["repository"] for shard in status["shards"]] == list(SHARDS)
    assert ready.json() == {"status": "ready", "trouble": None}
    assert "holdfast_verified_total 3.0" in metrics
    assert [page.status_code for page in pages] == [200, 200, 200]
    assert f"{TWO}/commit/" in shown.text
    assert document.status_code == 200
    assert diagnosis["ok"]
    assert [github.runs(shard) for shard in (ONE, TWO, THREE)] == [{run_id} for run_id in runs]


def _save_and_wait(client: httpx.Client, run_id: str) -> httpx.Response:
    body = {"trigger": "manual", "phase": "p", "state": {"answer": 42}}
    return client.post(f"/v1/runs/{run_id}/checkpoints?wait=verified", json=body)
