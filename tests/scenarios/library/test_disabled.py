"""With HOLDFAST_ENABLED=false every door takes checkpoints, says so, and stores none."""

from collections.abc import Iterator
from pathlib import Path

import pytest
from structlog.testing import capture_logs

from holdfast import Holdfast
from holdfast.cli import main
from holdfast.errors import InvalidCheckpoint, UnknownRun
from holdfast.settings import Settings
from tests.fakes.sidecar import running_sidecar


@pytest.fixture
def hf(tmp_path: Path) -> Iterator[Holdfast]:
    variables = {"HOLDFAST_DATA_DIR": str(tmp_path), "HOLDFAST_ENABLED": "false"}
    with Holdfast(Settings.from_environment(variables)) as holdfast:
        yield holdfast


def test_a_save_is_answered_and_nothing_is_stored(hf: Holdfast) -> None:
    receipt = hf.save("a", {"answer": 42})

    assert (receipt.status, receipt.run_id, receipt.sequence_number) == ("disabled", "a", 0)
    assert hf.status()["spool"]["depth"] == 0
    assert hf.wait(receipt.checkpoint_id, timeout_s=60) is None
    with pytest.raises(UnknownRun):
        hf.checkpoint("a")


def test_it_is_said_once(hf: Holdfast) -> None:
    with capture_logs() as logs:
        for number in range(3):
            hf.save("a", {"answer": number})

    assert [event["event"] for event in logs] == ["saves_disabled"]


def test_what_is_wrong_is_still_refused(hf: Holdfast) -> None:
    with pytest.raises(InvalidCheckpoint):
        hf.save("../a", {})


def test_a_recorder_runs_through(hf: Holdfast) -> None:
    with hf.run("a", style="steps") as run:
        run.resume()
        with run.step("build"):
            pass

    assert hf.runs() == []


def test_a_run_that_is_nowhere_can_be_completed(hf: Holdfast) -> None:
    assert hf.complete("a").status == "disabled"


def test_commands_end_well(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv("HOLDFAST_DATA_DIR", str(tmp_path))
    monkeypatch.setenv("HOLDFAST_ENABLED", "false")
    file = tmp_path / "state.json"
    file.write_text("{}")

    assert main(["submit", str(file), "--run-id", "a", "--wait"]) == 0
    assert main(["complete", "a"]) == 0

    printed = capsys.readouterr().out
    assert "disabled" in printed
    assert "HOLDFAST_ENABLED is false" in printed


def test_the_sidecar_answers_at_once_also_those_who_would_wait(tmp_path: Path) -> None:
    with running_sidecar(tmp_path, enabled=False) as sidecar:
        body = {"trigger": "manual", "state": {}}
        answer = sidecar.client.post("/v1/runs/a/checkpoints?wait=verified", json=body)

        assert (answer.status_code, answer.json()["status"]) == (202, "disabled")
        assert sidecar.depth() == 0
