"""Ages are told by GitHub's clock."""

from collections.abc import Iterator
from pathlib import Path

import pytest

from holdfast.assembly import Assembly
from holdfast.emulator import Emulator, EmulatorOptions, EmulatorServer
from holdfast.settings import Settings
from tests.fakes.clock import VirtualClock
from tests.fakes.stored_runs import DAY_S, NOON, commit_runs_over_time, make_run

AGES_DAYS = {"young": 10, "old": 40}


@pytest.fixture
def url(tmp_path: Path) -> Iterator[str]:
    emulator = Emulator(EmulatorOptions(root=tmp_path / "github", clock=lambda: NOON))
    written_at = {run_id: NOON - age * DAY_S for run_id, age in AGES_DAYS.items()}
    runs = {run_id: make_run(run_id, at=at, status="in_progress") for run_id, at in written_at.items()}
    commit_runs_over_time(tmp_path / "github" / "holdfast" / "checkpoints.git", runs, written_at)
    with EmulatorServer(emulator) as server:
        yield server.url
    emulator.close()


@pytest.mark.parametrize("wrong_by_days", [-5000, 0, 5000])
def test_local_clock_that_is_wrong_makes_no_run_older(url: str, tmp_path: Path, wrong_by_days: int) -> None:
    environment = {
        "HOLDFAST_DATA_DIR": str(tmp_path / "data"),
        "HOLDFAST_REPO": "holdfast/checkpoints",
        "HOLDFAST_API_URL": url,
        "HOLDFAST_TOKEN": "token",
        "HOLDFAST_ABANDONED_AFTER_DAYS": "30",
    }
    clock = VirtualClock(NOON + wrong_by_days * DAY_S)
    assembly = Assembly(Settings.from_environment(environment), clock=clock)

    report = assembly.sweeper.plan()
    assembly.close()

    assert {run.run_id: run.action.value for run in report.plan.runs} == {"young": "keep", "old": "archive"}
