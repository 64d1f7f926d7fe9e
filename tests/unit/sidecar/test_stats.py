"""`GET /v1/stats` tells what the command tells, and has metrics of it."""

import pytest

from tests.fakes.sidecar import RunningSidecar


@pytest.mark.slow
def test_the_statistics_are_the_commands_and_are_metrics_too(sidecar: RunningSidecar) -> None:
    checkpoint = {"trigger": "phase_complete", "state": {"cost_accumulated": 2}}
    sidecar.client.post("/v1/runs/measured/checkpoints?wait=verified&timeout=60", json=checkpoint)
    sidecar.client.get("/v1/runs/measured/resume")

    of_run = sidecar.client.get("/v1/stats", params={"run_id": "measured"}).json()
    of_all = sidecar.client.get("/v1/stats").json()

    assert of_run["checkpoints"]["by_trigger"] == {"phase_complete": 1}
    assert (of_run["cost"], of_run["resumes"]["counted"]) == (2, 1)
    assert (of_all["run_id"], of_all["stored"]["commits"] > 0) == (None, True)
    metrics = sidecar.client.get("/metrics").text
    assert 'holdfast_saved_total{trigger="phase_complete"} 1.0' in metrics
    assert "holdfast_verified_after_seconds_count" in metrics
    assert f"holdfast_repository_commits {of_all['stored']['commits']:.1f}" in metrics
    assert f"holdfast_repository_files {of_all['stored']['files']:.1f}" in metrics
    assert "holdfast_repository_cost 2.0" in metrics
    assert "holdfast_repository_writes_saved 0.0" in metrics
    assert 'holdfast_repository_checkpoints{status="in_progress"} 1.0' in metrics


def test_statistics_of_what_is_no_run_are_refused(sidecar: RunningSidecar) -> None:
    assert sidecar.client.get("/v1/stats", params={"run_id": "nobody"}).status_code == 404
    assert sidecar.client.get("/v1/stats", params={"run_id": "../x"}).status_code == 422
