"""What a sweep does with runs that someone drives, or drove."""

import pytest

from holdfast.claims.decide import GRACE_S
from holdfast.format.claim import Claim
from tests.fakes.assembly import BRANCH
from tests.fakes.desk import Desk
from tests.fakes.stored_runs import NOON, with_paths


def claim(desk: Desk, run_id: str, ends_at: float, *, is_released: bool = False) -> None:
    taken = Claim(run_id, 3, "worker 1", "digest", 60.0, NOON - 60, ends_at, is_released)
    files = {run_id: {"claim.json": taken.to_bytes()}}
    desk.repository.write_as_someone_else(BRANCH, with_paths(files))


def test_a_run_that_someone_drives_is_neither_trimmed_nor_archived(desk: Desk) -> None:
    before = {run_id: desk.names(run_id) for run_id in ("old", "older")}
    for run_id in before:
        claim(desk, run_id, NOON + 30)

    report = desk.sweeper.sweep()

    assert {run_id: desk.names(run_id) - {"claim.json"} for run_id in before} == before
    reasons = {run.run_id: run.reason for run in report.plan.runs}
    assert reasons["older"] == "worker 1 drives it at the moment"


@pytest.mark.parametrize(
    ("ends_at", "is_released"), [(NOON - GRACE_S - 1, False), (NOON + 30, True)], ids=["run out", "released"]
)
def test_a_claim_that_has_ended_protects_nothing_and_goes_with_its_archived_run(
    desk: Desk, ends_at: float, *, is_released: bool
) -> None:
    for run_id in ("old", "older"):
        claim(desk, run_id, ends_at, is_released=is_released)

    desk.sweeper.sweep()

    assert desk.names("older") == {"summary.json"}
    assert desk.names("old") == {"latest.json", "claim.json"}  # the next fence must be higher


def test_the_claim_of_an_archived_run_goes_once_it_has_ended(desk: Desk) -> None:
    desk.sweeper.sweep()
    claim(desk, "older", NOON + 30)
    desk.sweeper.sweep()
    assert desk.names("older") == {"summary.json", "claim.json"}

    desk.clock.time += 30 + GRACE_S + 1
    desk.sweeper.sweep()

    assert desk.names("older") == {"summary.json"}
