"""The end of a run starts the clean-up, whoever saved it and whoever drains it."""

from pathlib import Path

import pytest

from holdfast import Holdfast
from holdfast.locks import locked
from holdfast.retention.sweep import Sweeper
from holdfast.settings import Settings
from tests.fakes.heard import heard_events
from tests.fakes.sidecar import running_sidecar

TRIGGERS = ["run_complete", "manual"]


def opened(folder: Path, **settings: object) -> Holdfast:
    given = {"data_dir": folder, "min_free_bytes": 0, "delete_completed": True, **settings}
    return Holdfast(Settings.from_environment({}, given))


def archived(holdfast: Holdfast) -> list[str]:
    return [run.run_id for run in holdfast.runs(archived=True)]


@pytest.mark.parametrize("mode", ["contents", "commit"])
@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_drain_in_another_process_cleans_up(tmp_path: Path, trigger: str, mode: str) -> None:
    with opened(tmp_path) as elsewhere:
        elsewhere.save("r", {}, trigger=trigger, status="completed")

    with opened(tmp_path, write_mode=mode) as drains:
        drains.drain()

        assert archived(drains) == ["r"]


def test_who_waits_for_the_end_cleans_up(tmp_path: Path) -> None:
    with opened(tmp_path) as hf:
        receipt = hf.save("r", {}, trigger="run_complete", status="completed")
        waited = hf.wait(receipt.checkpoint_id, timeout_s=60)

        assert waited
        assert (waited.status, archived(hf)) == ("verified", ["r"])


@pytest.mark.parametrize("trigger", TRIGGERS)
def test_a_sidecar_cleans_up_after_what_another_process_saved(tmp_path: Path, trigger: str) -> None:
    with opened(tmp_path) as elsewhere:
        elsewhere.save("r", {}, trigger=trigger, status="completed")

    with heard_events() as heard, running_sidecar(tmp_path, delete_completed=True) as sidecar:
        heard.wait_for("cleaned_up", runs=1)

        assert archived(sidecar.holdfast) == ["r"]


def test_a_sidecar_cleans_up_after_what_it_was_sent(tmp_path: Path) -> None:
    with heard_events() as heard, running_sidecar(tmp_path, delete_completed=True) as sidecar:
        sidecar.submit("sent", trigger="run_complete", status="completed")
        heard.wait_for("cleaned_up", runs=1)

        assert archived(sidecar.holdfast) == ["sent"]


def test_a_run_that_goes_on_starts_no_clean_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    swept: list[Sweeper] = []
    monkeypatch.setattr(Sweeper, "sweep", swept.append)
    with opened(tmp_path) as hf:
        hf.save("r", {}, trigger="step_failed", status="failed")
        hf.drain()

    assert swept == []


def test_who_cleans_up_by_itself_is_not_preceded(tmp_path: Path) -> None:
    with opened(tmp_path) as hf:
        hf.save("r", {}, trigger="run_complete", status="completed")
        hf.drain(tidies=False)

        assert archived(hf) == []
        assert [run.run_id for run in hf.cleanup().done] == ["r"]


def test_a_clean_up_that_is_under_way_is_left_alone(tmp_path: Path) -> None:
    with opened(tmp_path) as hf:
        hf.save("r", {}, trigger="run_complete", status="completed")
        (folder,) = (tmp_path / "targets").iterdir()
        with (
            locked(folder / "sweep.lock", timeout_s=10, busy=str),
            heard_events() as heard,
        ):
            result = hf.drain()
            heard.wait_for("cleanup_postponed")

        assert (result.verified, result.left, archived(hf)) == (1, 0, [])


def test_what_is_left_of_an_archived_run_is_answered(tmp_path: Path) -> None:
    with heard_events() as heard, running_sidecar(tmp_path, delete_completed=True) as sidecar:
        state = {"cost_accumulated": 1.5}
        sidecar.submit("gone", trigger="run_complete", status="completed", state=state)
        heard.wait_for("cleaned_up", runs=1)
        answer = sidecar.client.get("/v1/runs/gone")
        checkpoint = sidecar.client.get("/v1/runs/gone/checkpoints/1")
        unknown = sidecar.client.get("/v1/runs/never")
        described = sidecar.client.get("/openapi.json").json()["components"]["schemas"]["ArchivedRun"]

    run = answer.json()
    assert (answer.status_code, run["status"], run["resumable"]) == (200, "archived", False)
    assert (run["final_status"], run["total_cost_usd"]) == ("completed", 1.5)
    assert set(run) == set(described["required"])
    assert (checkpoint.status_code, unknown.status_code) == (404, 404)
